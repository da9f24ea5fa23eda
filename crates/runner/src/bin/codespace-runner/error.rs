//! Everything that can keep a verb from being done, with its exit code and its words.

use std::io;
use std::path::PathBuf;

use codespace_domain::{ErrorCode, RunnerError, Stream};
use codespace_policy::RegistryError;
use codespace_runner::uds::{BindError, ConnectError, InheritError};

use crate::exit;

/// Why a verb was not done. The words finish "failed to ...".
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Whoever read our stdout has gone. Nobody is told.
    #[error("write to stdout: whoever read it has gone")]
    BrokenPipe,
    /// The caller gave us no such stream, so that what it is for would be lost.
    #[error("write to {}: it is closed", name_of(*.0))]
    Closed(Stream),
    #[error("open the {count} files that this needs: {source}")]
    Descriptors { count: usize, limit: Option<u64>, source: io::Error },
    #[error("{what}: {source}")]
    Host { what: String, source: io::Error },
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Inherit(#[from] InheritError),
    #[error("load the registry{}: {error}", of_file(.file.as_ref()))]
    Registry { file: Option<PathBuf>, error: RegistryError },
    #[error("{}", .0.message)]
    Runner(#[from] RunnerError),
    /// `run`: whatever is not the command's own end.
    #[error(transparent)]
    Run(Box<CliError>),
}

impl CliError {
    /// The operating system said no.
    pub(crate) fn host(what: impl Into<String>, source: io::Error) -> Self {
        Self::Host { what: what.into(), source }
    }

    /// Our own stdout or stderr could not be written to.
    pub(crate) fn output(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::host("write the output", source),
        }
    }

    /// The same failure as one of `run`, which has exit codes of its own.
    pub(crate) fn of_run(self) -> Self {
        Self::Run(Box::new(self))
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::BrokenPipe => exit::BROKEN_PIPE,
            Self::Connect(_) => exit::NO_RUNNER,
            Self::Closed(_)
            | Self::Descriptors { .. }
            | Self::Host { .. }
            | Self::Bind(_)
            | Self::Inherit(_)
            | Self::Registry { .. }
            | Self::Runner(_) => exit::FAILED,
            Self::Run(inner) => match &**inner {
                Self::BrokenPipe => exit::BROKEN_PIPE,
                Self::Runner(error) => exit::of_failed_start(error),
                Self::Closed(_)
                | Self::Descriptors { .. }
                | Self::Host { .. }
                | Self::Connect(_)
                | Self::Bind(_)
                | Self::Inherit(_)
                | Self::Registry { .. }
                | Self::Run(_) => exit::OWN_FAILURE,
            },
        }
    }

    /// The same with the names of the protocol: the whole chain in `message`, advice in `hint`.
    pub(crate) fn to_runner_error(&self) -> RunnerError {
        let hint = match self {
            Self::Runner(error) => return error.clone(),
            Self::Run(inner) => return inner.to_runner_error(),
            Self::Connect(error) => error.hint(),
            Self::Bind(error) => error.hint(),
            Self::Inherit(error) => Some(error.hint()),
            Self::Registry { error, .. } => error.hint.clone(),
            Self::Closed(stream) => {
                let number = if *stream == Stream::Stdout { "" } else { "2" };
                Some(format!("give it a place, such as {number}>/dev/null to throw it away"))
            }
            Self::Descriptors { limit, .. } => Some(match limit {
                Some(limit) => format!("this process may have {limit} files open; raise that with ulimit -n 256"),
                None => "raise the limit of open files with ulimit -n 256".to_owned(),
            }),
            Self::Host { source, .. } => advice(source).map(str::to_owned),
            Self::BrokenPipe => None,
        };
        let (code, cause) = match self {
            Self::Connect(error) => (error.code(), std::error::Error::source(error)),
            Self::Bind(error) => (ErrorCode::ResourceUnavailable, std::error::Error::source(error)),
            Self::Inherit(error) => (ErrorCode::ResourceUnavailable, std::error::Error::source(error)),
            Self::Closed(_) | Self::Descriptors { .. } | Self::Host { .. } => (ErrorCode::ResourceUnavailable, None),
            Self::Registry { .. } | Self::BrokenPipe | Self::Runner(_) | Self::Run(_) => (ErrorCode::Internal, None),
        };
        // The Runner's own words are in a greeting's message already.
        let cause = cause.filter(|cause| cause.downcast_ref::<RunnerError>().is_none());
        let message = cause.map_or_else(|| self.to_string(), |cause| format!("{self}: {cause}"));
        RunnerError { hint, ..RunnerError::new(code, message) }
    }
}

/// What helps where the operating system says only what is wrong.
fn advice(source: &io::Error) -> Option<&'static str> {
    match source.raw_os_error()? {
        libc::EMFILE => Some("raise the limit of open files with ulimit -n 256"),
        libc::ENFILE | libc::EAGAIN | libc::ENOMEM => {
            Some("the host has run out of processes, memory or descriptors: end something, or raise the limit")
        }
        libc::ENOSPC | libc::EDQUOT => Some("make room where the output goes"),
        _ => None,
    }
}

fn name_of(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
    }
}

fn of_file(file: Option<&PathBuf>) -> String {
    file.map(|file| format!(" {}", file.display())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_runner_has_its_own_exit_code_one_chain_and_advice() {
        let source = io::Error::from_raw_os_error(libc::ECONNREFUSED);
        let error = CliError::from(ConnectError::NobodyListens { path: "/x.sock".into(), source });
        assert_eq!(error.exit_code(), 3);
        let shown = error.to_runner_error();
        assert!(shown.message.starts_with("connect to a Runner at /x.sock: none is listening there: Connection"));
        assert!(shown.hint.unwrap().contains("serve"));
    }

    #[test]
    fn run_has_exit_codes_of_its_own_and_the_same_words() {
        let error = || CliError::host("find the current directory", io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!((error().exit_code(), error().of_run().exit_code()), (1, 125));
        assert_eq!(error().to_runner_error(), error().of_run().to_runner_error());
        assert_eq!(CliError::BrokenPipe.of_run().exit_code(), 141);
    }

    #[test]
    fn a_closed_stream_and_too_few_descriptors_come_with_advice() {
        let closed = CliError::Closed(Stream::Stderr);
        assert_eq!(closed.to_string(), "write to stderr: it is closed");
        assert!(closed.to_runner_error().hint.unwrap().contains("2>/dev/null"));
        assert_eq!((closed.exit_code(), closed.of_run().exit_code()), (1, 125));
        let source = io::Error::from_raw_os_error(libc::EMFILE);
        let few = CliError::Descriptors { count: 32, limit: Some(6), source };
        let shown = few.to_runner_error();
        assert!(shown.message.contains("32 files") && shown.hint.unwrap().contains("6 files"));
        assert!(CliError::host("x", io::Error::from_raw_os_error(libc::ENOSPC)).to_runner_error().hint.is_some());
    }
}
