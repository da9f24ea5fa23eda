//! The messages on the control socket, in the order in which they come:
//!
//! ```text
//! helper  -> Runner   armed           "my death follows yours: are you still there?"
//! Runner  -> helper   go
//! helper  -> Runner   first_process   + a pidfd of the first process of the new PID namespace, which waits
//!                     (or supervised: there is no such namespace, and the helper itself is the inner stage)
//! inner   -> Runner   ready           "the sandbox stands: give me the command's stdin, stdout and stderr"
//! Runner  -> inner    start           + those three descriptors
//! inner   -> Runner   started         the command's execve succeeded
//! Runner  -> inner    signal          any number of them
//! Runner  -> inner    end             to a supervising helper: end everything below, and leave
//! inner   -> Runner   exited          the command's own end
//! inner   -> Runner   gone            nothing of the tree is left but the stages themselves
//! helper  -> Runner   engine_ended    how the engine ended, and what it said
//! (end of file: helper, engine and inner stage are gone)
//! ```
//!
//! `failed` may come from the helper or the inner stage at any point before `started`, and is then the last word of its
//! sender.

use codespace_domain::Stage;
use serde::{Deserialize, Serialize};

/// No message is larger, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// From the helper or the inner stage to the Runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromSandbox {
    /// The helper has armed its death signal and asks whether the Runner is still there.
    Armed,
    /// Carries a pidfd: the first process of the new PID namespace exists and waits. When that pidfd becomes readable,
    /// everything that was ever started below it is gone.
    FirstProcess,
    /// There is no PID namespace: the helper itself starts the command and keeps what detaches itself below it, as a
    /// subreaper. `gone`, or the Runner's own look below a stopped helper, is then the proof of the end.
    Supervised,
    /// The inner stage asks for the command's standard descriptors.
    Ready,
    /// The command's `execve` succeeded.
    Started,
    /// The start failed.
    Failed(StageFailure),
    /// The command's own end.
    Exited {
        /// How it ended.
        end: CommandEnd,
        /// What it and what it has waited for have used.
        usage: TreeUsage,
        /// Live processes of the tree at this moment, the inner stage not counted.
        leftovers: u64,
    },
    /// Every process below the inner stage has ended and was reaped.
    Gone {
        /// What the whole tree has used.
        usage: TreeUsage,
    },
    /// The engine has ended. Only told when it was not a plain exit 0.
    EngineEnded {
        /// How it ended.
        end: CommandEnd,
        /// The end of what it wrote to its stderr.
        said: String,
    },
}

/// From the Runner to the helper or the inner stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToSandbox {
    /// The answer to `armed`: the Runner is still there.
    Go,
    /// The answer to `ready`; carries the command's stdin, stdout and stderr.
    Start,
    /// End everything that the command has started, and leave. A supervising helper does that better than anyone outside:
    /// whatever loses its parent becomes its own child.
    End,
    /// Send this signal to the command's process group.
    Signal {
        /// Linux signal number.
        number: i32,
    },
}

/// How a process ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnd {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A start that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailure {
    /// Where.
    pub stage: Stage,
    /// The operating system's error number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// A lower-case fragment that finishes "failed to ...".
    pub message: String,
}

impl StageFailure {
    /// Bytes of a message that are kept at its beginning, and at its end, which says why.
    const HEAD: usize = 2048;
    const TAIL: usize = 512;

    /// The same, without the middle of a message that would not fit [`MAX_MESSAGE`]: it may name a path or a program, and
    /// those may be as long as their writer likes.
    pub fn shortened(mut self) -> Self {
        if self.message.len() > Self::HEAD + Self::TAIL {
            let whole = |at: &usize| self.message.is_char_boundary(*at);
            let head = (0..=Self::HEAD).rev().find(whole).unwrap_or_default();
            let tail = (self.message.len() - Self::TAIL..).find(whole).unwrap_or(self.message.len());
            self.message.replace_range(head..tail, &format!("... ({} bytes) ...", tail - head));
        }
        self
    }
}

/// Processor time and memory, as the kernel counts them for children that were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TreeUsage {
    /// Milliseconds in user mode.
    pub user_ms: u64,
    /// Milliseconds in the kernel.
    pub system_ms: u64,
    /// The largest resident set of any one process, in bytes.
    pub max_rss_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_names_something_endless_fits_a_message_and_still_says_why() {
        let long = |name: &str| StageFailure {
            stage: Stage::Exec,
            errno: Some(36),
            message: format!("execute {}: File name too long", name.repeat(40_000)),
        };
        for name in ["x", "한", "\u{1}"] {
            let message = FromSandbox::Failed(long(name).shortened());
            assert!(serde_json::to_vec(&message).unwrap().len() < MAX_MESSAGE, "{name:?}");
            let FromSandbox::Failed(failure) = message else { unreachable!() };
            assert!(failure.message.starts_with(&format!("execute {name}")), "{}", failure.message);
            assert!(failure.message.ends_with("File name too long"), "{}", failure.message);
        }
        let short = StageFailure { message: "execute x: no".into(), ..long("x") };
        assert_eq!(short.clone().shortened(), short);
    }

    #[test]
    fn messages_are_tagged_objects() {
        let failed = FromSandbox::Failed(StageFailure { stage: Stage::Exec, errno: Some(2), message: "x".into() });
        assert_eq!(
            serde_json::to_value(&failed).unwrap(),
            serde_json::json!({"type": "failed", "stage": "exec", "errno": 2, "message": "x"})
        );
        assert_eq!(serde_json::from_str::<ToSandbox>(r#"{"type":"go"}"#).unwrap(), ToSandbox::Go);
    }
}
