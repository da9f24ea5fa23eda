//! A process's output: from a descriptor to a reader's cursor.
//!
//! [`Pumps`] read the descriptors into a [`Journal`], the sole owner of the bytes; readers pull from it by cursor, and
//! none of them can delay another or the command. Bytes stay bytes until a read is encoded.
//!
//! Nothing here knows processes, trees, sockets or JSON: the process's owner says when the tree is gone.
//!
//! ```text
//! pipe, pty -> pump -> journal { kept { order, lane stdout, lane stderr } } -> chunk -> reader
//! ```

mod chunk;
mod journal;
mod kept;
mod lane;
mod order;
mod pump;
mod pumps;
mod text;

pub(crate) use journal::Journal;
pub(crate) use pumps::Pumps;
