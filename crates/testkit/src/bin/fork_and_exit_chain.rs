//! A child that forks and exits all the time, so that its pid is never the same for long. The command itself stays. The
//! chain is bounded: one that gets away must not fill the host with what its pid 1 does not reap.

fn main() {
    // SAFETY: one thread, so a forked child may go on as if it were the only one; the other calls take plain numbers.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        if libc::fork() == 0 {
            libc::setsid();
            for _ in 0..20_000 {
                if libc::fork() > 0 {
                    libc::_exit(0);
                }
            }
            libc::_exit(0);
        }
        libc::write(1, c"ready\n".as_ptr().cast(), 6);
        libc::pause();
    }
}
