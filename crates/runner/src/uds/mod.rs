//! The Runner on a Unix socket: who may listen, who may connect, and what one connection may do.
//!
//! - [`Listener`] owns the socket's path and the lock that says whose it is; [`InheritedSocket`] is one that a service
//!   manager has made.
//! - [`serve`] accepts connections and gives each a [`crate::Runner`] of its own.
//! - `session` is one connection: frames in, [`crate::Runner::call`] in order, answers out.
//! - `subscriptions` sends what was subscribed to on one.
//! - [`UdsClient`] is the other end of one.
//!
//! Nothing here knows processes, sandboxes or policy.

mod client;
mod error;
mod hangup;
#[cfg(target_os = "linux")]
mod inherited;
mod listener;
mod outbox;
mod place;
mod server;
mod session;
mod subscriptions;
mod turned_away;

#[cfg(test)]
mod fake_runner;
#[cfg(test)]
mod garbage_tests;
#[cfg(test)]
mod listener_tests;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod subscriptions_tests;
#[cfg(test)]
mod test_peer;
#[cfg(all(test, target_os = "linux"))]
mod turned_away_tests;

pub use client::UdsClient;
pub use error::{BindError, ConnectError, InheritError};
#[cfg(target_os = "linux")]
pub use inherited::InheritedSocket;
pub use listener::Listener;
pub use server::{MAX_CONNECTIONS, serve};
