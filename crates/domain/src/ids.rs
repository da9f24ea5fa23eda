//! Identifiers. Each is a type of its own, so that one can never be passed for another.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::{Uuid, Variant};

/// Why a text is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A process id is `proc-` and a UUID version 4 in lower case.
    #[error("{0:?} is no process id: proc- and a UUID expected")]
    Process(String),
    /// A workspace id is 1 to 128 letters, digits, `.`, `_` or `-`, not starting with `.` or `-`.
    #[error(
        "{0:?} is no workspace id: 1 to 128 letters, digits, '.', '_' or '-' expected, the first a letter or digit"
    )]
    Workspace(String),
    /// A process key is 1 to 256 bytes of text.
    #[error("a process key has 1 to 256 bytes, this one has {0}")]
    Key(usize),
}

/// Names one process for as long as the Runner keeps it: `proc-` and a UUID version 4, minted by the Runner's side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProcessId(Uuid);

impl ProcessId {
    /// A new id that nobody has seen before.
    pub fn mint() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proc-{}", self.0)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ProcessId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix("proc-")
            .and_then(|uuid| Uuid::try_parse(uuid).ok())
            .filter(|uuid| uuid.get_version_num() == 4 && uuid.get_variant() == Variant::RFC4122)
            .map(Self)
            // One process has one name: no other case, no braces, no form without hyphens.
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| IdError::Process(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for ProcessId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<ProcessId> for String {
    fn from(id: ProcessId) -> Self {
        id.to_string()
    }
}

/// Names a directory that the operator registered. A selector, never a credential.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspaceId(String);

impl WorkspaceId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WorkspaceId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        if first && text.len() <= 128 && text.chars().all(good) {
            Ok(Self(text))
        } else {
            Err(IdError::Workspace(text.chars().take(140).collect()))
        }
    }
}

impl std::str::FromStr for WorkspaceId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.to_owned().try_into()
    }
}

impl From<WorkspaceId> for String {
    fn from(id: WorkspaceId) -> Self {
        id.0
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A client's own name for a start: a retry with the same key finds the same process. Unique per workspace, and known
/// for as long as its process is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProcessKey(String);

impl ProcessKey {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProcessKey {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        if (1..=256).contains(&text.len()) { Ok(Self(text)) } else { Err(IdError::Key(text.len())) }
    }
}

impl From<ProcessKey> for String {
    fn from(key: ProcessKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_process_id_reads_back_and_others_are_refused() {
        let id = ProcessId::mint();
        assert_eq!(id.to_string().parse::<ProcessId>().unwrap(), id);
        for bad in [
            "",
            "proc-",
            "proc-1",
            "00000000-0000-4000-8000-000000000000",
            "proc-00000000-0000-1000-8000-000000000000",
            "proc-00000000-0000-4000-0000-000000000000",
            "proc-0000000000004000800000000000000a",
            "proc-00000000-0000-4000-8000-00000000000A",
            "proc-{00000000-0000-4000-8000-00000000000a}",
        ] {
            assert!(bad.parse::<ProcessId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn workspace_ids_are_plain_names() {
        assert!("demo-1.x_y".parse::<WorkspaceId>().is_ok());
        for bad in ["", "-x", ".x", "a/b", "a b", &"x".repeat(129)] {
            assert!(bad.parse::<WorkspaceId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn process_keys_have_a_size() {
        assert!(ProcessKey::try_from(String::new()).is_err());
        assert!(ProcessKey::try_from("k".repeat(257)).is_err());
        assert!(ProcessKey::try_from("k".repeat(256)).is_ok());
    }
}
