//! The token that a client has to present. Compared in a time that tells nothing, and never shown.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;

/// Names the token in the environment.
pub const TOKEN_VARIABLE: &str = "CODESPACE_MCP_TOKEN";
/// Shorter ones can be guessed.
const LEAST_LENGTH: usize = 16;

/// A secret.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// Why there is none.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the meaning")]
pub enum TokenError {
    #[error("read the token from {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("trust the token file {}: others can read it", path.display())]
    Open { path: PathBuf },
    #[error("take the token: it has {length} characters, at least {LEAST_LENGTH} are needed")]
    Short { length: usize },
    #[error("take the token: it may have only visible ASCII characters")]
    Characters,
}

impl Token {
    /// The content of a file that only its owner can read; white space around it does not count.
    ///
    /// # Errors
    /// What is wrong with the file or the token.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Read { path: path.to_owned(), source };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            if std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o077 != 0 {
                return Err(TokenError::Open { path: path.to_owned() });
            }
        }
        Self::from_text(&std::fs::read_to_string(path).map_err(failed)?)
    }

    /// This text, without white space around it.
    ///
    /// # Errors
    /// What is wrong with the token.
    pub fn from_text(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Characters);
        }
        if text.len() < LEAST_LENGTH {
            return Err(TokenError::Short { length: text.len() });
        }
        Ok(Self(text.as_bytes().to_vec()))
    }

    /// Whether that is it. The time depends on the lengths alone.
    pub(super) fn is(&self, presented: &str) -> bool {
        self.0.ct_eq(presented.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}
