//! Where the Runner's socket is, and the way to the Runner behind it.

use std::path::{Path, PathBuf};

use codespace_domain::ClientInfo;
use codespace_runner::uds::UdsClient;
use nix::unistd::geteuid;

use crate::error::CliError;

/// Which Runner is meant.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SocketFlag {
    /// The Runner's socket [default: $XDG_RUNTIME_DIR/codespace-runner/runner.sock].
    #[arg(long, value_name = "PATH", env = "CODESPACE_RUNNER_SOCKET")]
    socket: Option<PathBuf>,
}

impl SocketFlag {
    /// The socket's path.
    pub(crate) fn path(&self) -> PathBuf {
        match self.named() {
            Some(path) => path.to_owned(),
            None => default_path(std::env::var_os("XDG_RUNTIME_DIR").as_deref().map(Path::new)),
        }
    }

    /// The path that was asked for.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.socket.as_deref().filter(|path| !path.as_os_str().is_empty())
    }

    /// A greeted connection.
    pub(crate) async fn connect(&self) -> Result<UdsClient, CliError> {
        let client =
            ClientInfo { name: env!("CARGO_BIN_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        Ok(UdsClient::connect(&self.path(), client).await?)
    }
}

/// Without a runtime directory of the user: a directory in `/tmp`, which the listener makes private and both ends check.
fn default_path(runtime_directory: Option<&Path>) -> PathBuf {
    let directory = match runtime_directory {
        Some(directory) if directory.is_absolute() => directory.join("codespace-runner"),
        Some(_) | None => PathBuf::from(format!("/tmp/codespace-runner-{}", geteuid())),
    };
    directory.join("runner.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_in_the_runtime_directory_else_in_a_directory_of_the_uid() {
        assert_eq!(default_path(Some(Path::new("/run/user/7"))), Path::new("/run/user/7/codespace-runner/runner.sock"));
        let fallback = PathBuf::from(format!("/tmp/codespace-runner-{}/runner.sock", geteuid()));
        assert_eq!(default_path(None), fallback);
        assert_eq!(default_path(Some(Path::new("relative"))), fallback);
    }
}
