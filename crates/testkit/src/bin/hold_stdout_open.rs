//! Leaves a process in a session of its own behind that holds the output open, and ends.

fn main() {
    // SAFETY: one thread, so a forked child may go on as if it were the only one; the other calls take plain numbers.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            libc::write(1, c"held\n".as_ptr().cast(), 5);
            loop {
                libc::pause();
            }
        }
        if std::env::args().nth(1).as_deref() == Some("stay") {
            libc::pause();
        }
    }
}
