//! Four processes that keep sending SIGCONT to every process that they can reach, so that nothing stays stopped.

#[expect(clippy::disallowed_methods, reason = "signalling everybody is its misbehaviour")]
fn main() {
    // SAFETY: one thread, so a forked child may go on as if it were the only one; the other calls take plain numbers.
    // In a PID namespace -1 means everybody in it. Anywhere else SIGCONT to all does no harm to who is not stopped.
    unsafe {
        if libc::fork() != 0 {
            libc::write(1, c"ready\n".as_ptr().cast(), 6);
        }
        libc::fork();
        loop {
            libc::kill(-1, libc::SIGCONT);
        }
    }
}
