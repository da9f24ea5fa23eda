//! The service manager (systemd): the socket that it gives, and what it is told (`NOTIFY_SOCKET`, sd_notify). Without one
//! there is nothing to take and nobody to tell. The only file that knows of it.

use std::path::Path;

use codespace_runner::uds::{InheritError, Listener};

use crate::connect::SocketFlag;
use crate::error::CliError;

/// What this process was started with.
#[derive(Debug, Default)]
pub(crate) struct Given {
    #[cfg(target_os = "linux")]
    socket: Option<codespace_runner::uds::InheritedSocket>,
}

impl Given {
    /// Once, before there is a second thread or a descriptor of our own.
    pub(crate) fn take() -> Result<Self, InheritError> {
        Ok(Self {
            #[cfg(target_os = "linux")]
            socket: codespace_runner::uds::InheritedSocket::take()?,
        })
    }

    /// Listens on the socket that was given, else on a socket of our own at the path that is named, or the default's.
    pub(crate) fn listen(self, flag: &SocketFlag) -> Result<Listener, CliError> {
        #[cfg(target_os = "linux")]
        if let Some(socket) = self.socket {
            return match flag.named().filter(|named| *named != socket.path()) {
                Some(named) => {
                    let (named, given) = (named.to_owned(), socket.path().to_owned());
                    Err(InheritError::AnotherPath { named, given }.into())
                }
                None => Ok(Listener::adopt(socket)?),
            };
        }
        Ok(Listener::bind(&flag.path())?)
    }
}

/// What the service manager is told.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there is nobody to tell elsewhere"))]
pub(crate) enum Word<'a> {
    /// Requests are taken on this socket.
    Ready(&'a Path),
    /// No new start is taken, and everything is being ended.
    Stopping,
}

/// Says it. One that does not hear is no reason to fail.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is nobody to tell elsewhere"))]
pub(crate) fn tell(word: Word<'_>) {
    #[cfg(target_os = "linux")]
    linux::tell(word);
}

/// Tells it for as long as the runtime turns that it does, where it wants to know. Needs the runtime.
pub(crate) fn keep_telling_that_we_live() {
    #[cfg(target_os = "linux")]
    linux::keep_telling_that_we_live();
}

#[cfg(target_os = "linux")]
mod linux {
    use sd_notify::NotifyState;

    use super::Word;

    pub(super) fn tell(word: Word<'_>) {
        match word {
            Word::Ready(socket) => {
                let status = format!("listening on {}", socket.display());
                // The main process is the one that says it, whatever has started it.
                notify(&[NotifyState::Ready, NotifyState::Status(&status), NotifyState::MainPid(std::process::id())]);
            }
            Word::Stopping => notify(&[NotifyState::Stopping, NotifyState::Status("ending every process")]),
        }
    }

    pub(super) fn keep_telling_that_we_live() {
        let Some(deadline) = sd_notify::watchdog_enabled().filter(|deadline| !deadline.is_zero()) else { return };
        tokio::spawn(async move {
            let mut half = tokio::time::interval(deadline / 2);
            loop {
                half.tick().await;
                notify(&[NotifyState::Watchdog]);
            }
        });
    }

    fn notify(states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states) {
            tracing::warn!(%error, "failed to tell the service manager");
        }
    }
}
