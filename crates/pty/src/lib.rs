//! Pseudo-terminals: open a pair, size it, make it a child's controlling terminal.
//!
//! ```text
//! Runner: Pty::open -> master (kept: output, input, resize)
//!                   -> slave  (the child's 0, 1, 2) -> child: make_controlling(slave), exec
//! ```
//!
//! This crate starts no process, reads and writes no byte, and knows neither runtimes nor the Runner's words.

mod controlling;
mod ioctl;
mod pair;
mod terminal;

pub use controlling::make_controlling;
pub use pair::Pty;
pub use terminal::{Size, end_of_file_char, leaves_a_line_open, resize, size};
