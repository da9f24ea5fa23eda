//! Signal names: those a client may send, and the name of any that a command died of.

use serde::{Deserialize, Serialize};

/// A signal that `signal_process` may send to the command's process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "each is the signal of its name")]
pub enum SignalName {
    Int,
    Term,
    Hup,
    Quit,
    Usr1,
    Usr2,
    Winch,
    Cont,
    Stop,
    Kill,
}

impl SignalName {
    /// Every one of them.
    pub const ALL: [Self; 10] = [
        Self::Int,
        Self::Term,
        Self::Hup,
        Self::Quit,
        Self::Usr1,
        Self::Usr2,
        Self::Winch,
        Self::Cont,
        Self::Stop,
        Self::Kill,
    ];

    /// The name without `SIG`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Int => "INT",
            Self::Term => "TERM",
            Self::Hup => "HUP",
            Self::Quit => "QUIT",
            Self::Usr1 => "USR1",
            Self::Usr2 => "USR2",
            Self::Winch => "WINCH",
            Self::Cont => "CONT",
            Self::Stop => "STOP",
            Self::Kill => "KILL",
        }
    }
}

impl std::str::FromStr for SignalName {
    type Err = String;

    /// Takes `TERM`, `term` and `SIGTERM`.
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        Self::ALL.into_iter().find(|s| s.as_str() == name).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|s| s.as_str()).collect();
            format!("{text:?} is no signal that can be sent; one of {} expected", all.join(", "))
        })
    }
}

/// The name of a Linux signal number, without `SIG`; `None` for numbers that have no name of their own (real-time).
pub fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    usize::try_from(number).ok()?.checked_sub(1).and_then(|i| NAMES.get(i)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_usual_form() {
        for text in ["TERM", "term", "SIGTERM"] {
            assert_eq!(text.parse::<SignalName>(), Ok(SignalName::Term));
        }
        assert!("SEGV".parse::<SignalName>().unwrap_err().contains("INT, TERM"));
    }

    #[test]
    fn numbers_have_the_names_of_linux() {
        assert_eq!(signal_name(9), Some("KILL"));
        assert_eq!(signal_name(11), Some("SEGV"));
        assert_eq!(signal_name(31), Some("SYS"));
        assert_eq!([signal_name(0), signal_name(-1), signal_name(32), signal_name(64)], [None; 4]);
    }
}
