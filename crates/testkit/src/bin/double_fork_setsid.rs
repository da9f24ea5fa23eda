//! Detaches a process the way daemons do: fork, a session of its own, fork again. With `stay` the command itself stays
//! too, else it ends at once.

fn main() {
    // SAFETY: one thread, so a forked child may go on as if it were the only one; the other calls take plain numbers.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            if libc::fork() != 0 {
                libc::_exit(0);
            }
            for fd in 0..3 {
                libc::close(fd);
            }
            loop {
                libc::pause();
            }
        }
        libc::wait(std::ptr::null_mut());
        if std::env::args().nth(1).as_deref() == Some("stay") {
            libc::write(1, c"ready\n".as_ptr().cast(), 6);
            libc::pause();
        }
    }
}
