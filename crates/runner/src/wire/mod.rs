//! What goes over a connection, whatever carries it: frames, and the JSON-RPC 2.0 messages inside them.
//!
//! Nothing here knows a socket, a process or a session. `frame` cuts a byte stream into messages under a size cap;
//! `message` turns such bytes into requests and answers into such bytes; `id` is what ties the two together, `envelope` a
//! request's outer form; `schema` describes all of it for those who have only the documentation.

mod envelope;
pub mod frame;
pub mod id;
pub mod message;
pub mod schema;

#[cfg(test)]
mod frame_tests;
#[cfg(test)]
mod message_tests;
