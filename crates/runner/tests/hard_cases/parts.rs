//! What the sandboxed program does. Each part says `ready` when it is as bad as it gets, and stays. Whatever forks is
//! bounded: one that gets away must not fill the host.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

fn say_ready() {
    // SAFETY: six bytes that live as long as the program.
    unsafe { libc::write(1, c"ready\n".as_ptr().cast(), 6) };
}

fn stay() -> ! {
    loop {
        // SAFETY: takes nothing.
        unsafe { libc::pause() };
    }
}

/// In the child it calls `child`, which does not return.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child makes system calls only, or forks on; it never returns to the threads that it does not have.
    match unsafe { libc::fork() } {
        0 => {
            child();
            std::process::abort()
        }
        pid => pid,
    }
}

pub(crate) fn vfork() -> ! {
    extern "C" fn child(_: *mut c_void) -> c_int {
        // SAFETY: takes nothing.
        unsafe { libc::setsid() };
        say_ready();
        stay()
    }
    let mut stack = vec![0u8; 256 * 1024];
    // SAFETY: just past the end of the vector, whence the child's stack grows down; aligned, as vectors of this size
    // are page-aligned up to a header of 16 bytes.
    let top = unsafe { stack.as_mut_ptr().add(stack.len() / 16 * 16 - 64) };
    let top = (top as usize & !15) as *mut c_void;
    // SAFETY: the child runs on a stack of its own while this thread waits in the kernel, as after vfork.
    unsafe { libc::clone(child, top, libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD, std::ptr::null_mut()) };
    stay()
}

pub(crate) fn ignore_sigchld() -> ! {
    // SAFETY: plain numbers.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    for number in 0..20 {
        fork(|| {
            // SAFETY: plain numbers.
            unsafe { libc::setsid() };
            if number % 2 == 0 {
                fork(|| stay());
                // SAFETY: ends this process, without the destructors of the one that it was forked from.
                unsafe { libc::_exit(0) };
            }
            stay()
        });
    }
    say_ready();
    stay()
}

pub(crate) fn stopped_and_traced() -> ! {
    for _ in 0..3 {
        // Stopped, with a stopped child in a session of its own.
        fork(|| {
            fork(|| {
                // SAFETY: plain numbers.
                unsafe { libc::setsid() };
                stop_myself()
            });
            stop_myself()
        });
        // Held by this process, which traces it and never lets it go.
        let traced = fork(|| {
            // SAFETY: the request takes no memory.
            unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
            stop_myself()
        });
        // SAFETY: a child of this process; no status is asked for.
        unsafe { libc::waitpid(traced, std::ptr::null_mut(), libc::WUNTRACED) };
    }
    say_ready();
    stay()
}

fn stop_myself() -> ! {
    loop {
        // SAFETY: plain numbers; the signal goes to the caller itself.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}

pub(crate) fn subreaper() -> ! {
    // SAFETY: PR_SET_CHILD_SUBREAPER takes one integer.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    for _ in 0..5 {
        fork(|| {
            // SAFETY: plain numbers.
            unsafe { libc::setsid() };
            // A subreaper below a subreaper, with what has come to it.
            // SAFETY: as above.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            fork(|| {
                fork(|| stay());
                // SAFETY: ends this process, without the destructors of the one that it was forked from.
                unsafe { libc::_exit(0) };
            });
            stay()
        });
    }
    say_ready();
    stay()
}

/// The most processes of the bomb.
const BOMB: u32 = 300;

/// All of them fork, until there are enough. With a code, the command itself then ends with it.
pub(crate) fn fork_bomb(end: Option<i32>) -> ! {
    // SAFETY: a new page that nobody else has, shared with what is forked from here on.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert!(page != libc::MAP_FAILED, "no memory");
    // SAFETY: the page is zeroed, aligned, never unmapped, and only used as this counter.
    let count: &'static AtomicU32 = unsafe { &*page.cast::<AtomicU32>() };
    // SAFETY: takes nothing.
    let command = unsafe { libc::getpid() };
    loop {
        if count.fetch_add(1, Ordering::SeqCst) >= BOMB {
            break;
        }
        // SAFETY: parent and child go on with this loop alone.
        if unsafe { libc::fork() } == 0 && count.load(Ordering::SeqCst).is_multiple_of(3) {
            // SAFETY: takes nothing.
            unsafe { libc::setsid() };
        }
    }
    // SAFETY: takes nothing.
    if unsafe { libc::getpid() } != command {
        stay();
    }
    say_ready();
    match end {
        // SAFETY: ends this process; nothing is to be put away.
        Some(code) => unsafe { libc::_exit(code) },
        None => stay(),
    }
}

pub(crate) fn threads() -> ! {
    for _ in 0..20 {
        std::thread::spawn(|| {
            fork(|| stay());
            stay()
        });
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    say_ready();
    // The process lives on in its other threads.
    // SAFETY: ends this thread only.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    stay()
}
