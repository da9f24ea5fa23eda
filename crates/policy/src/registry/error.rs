//! Why a registry cannot be loaded.

use std::fmt;

/// Why a registry cannot be loaded. Printed as `key: message`, for instance
/// `workspaces.demo.filesystem.reed: unknown key; one of read, write, deny, protect, home expected`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryError {
    /// The path of the key that is wrong; empty when it is the file as a whole.
    pub key: String,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl RegistryError {
    pub(crate) fn at(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), hint: None }
    }

    pub(crate) fn file(message: impl Into<String>) -> Self {
        Self::at("", message)
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "{}: {}", self.key, self.message),
        }
    }
}

impl std::error::Error for RegistryError {}
