use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::proc_stat::scan_for_children;

/// A shell that has started everything once it says so.
#[expect(clippy::disallowed_methods, reason = "the tests need trees of their own")]
fn shell(script: &str) -> Child {
    let mut child =
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("sh starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    child
}

fn pid(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Everything below a root, as it is now.
fn tree(root: i32) -> Vec<Member> {
    let below = children(root).into_iter().filter_map(|pid| Member::child(pid, root));
    below.flat_map(|member| [vec![member], tree(member.pid)].concat()).collect()
}

fn wait_until_dead(members: &[Member]) {
    let until = Instant::now() + Duration::from_secs(5);
    while members.iter().any(Member::lives) {
        assert!(Instant::now() < until, "still alive: {:?}", members.iter().filter(|m| m.lives()).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn everything_below_the_root_ends_while_the_root_stays_stopped() {
    let root = shell("setsid sh -c 'sleep 7001 & sleep 7002' & sleep 7003 & sleep 0.1; echo up; wait");
    let before = tree(pid(&root));
    assert!(before.len() >= 4, "{before:?}");
    let walk = kill_descendants(pid(&root)).unwrap();
    assert!(walk.stood_still);
    assert!(walk.killed >= 3, "{walk:?}");
    assert_eq!(Stat::of_process(pid(&root)).unwrap().state, b'T');
    wait_until_dead(&before);
    end(root);
}

#[test]
fn a_process_that_is_no_child_of_the_caller_is_left_alone() {
    let root = shell("sleep 7010 & echo up; wait");
    let grandchild = tree(pid(&root))[0];
    assert_eq!(kill_descendants(grandchild.pid), Err(Refused::NotAChild(grandchild.pid)));
    assert_eq!(kill_descendants(1), Err(Refused::NotAChild(1)));
    assert!(grandchild.lives() && grandchild.stillness() != Stillness::Still);
    kill_descendants(pid(&root)).unwrap();
    end(root);
}

#[test]
fn no_number_that_is_not_one_other_process_is_ever_signalled() {
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(kill_descendants(own), Err(Refused::Own));
    for number in [0, -1, -own, i32::MIN, i32::MAX, PID_MAX_LIMIT + 1] {
        assert_eq!(kill_descendants(number), Err(Refused::NoProcess(number)));
    }
}

#[test]
fn a_root_that_was_reaped_is_no_child_any_more() {
    let root = shell("echo up");
    let number = pid(&root);
    let mut root = root;
    root.wait().unwrap();
    assert_eq!(kill_descendants(number), Err(Refused::NotAChild(number)));
}

#[test]
fn a_parent_inside_vfork_does_not_burn_the_budget() {
    // posix_spawn and vfork keep the parent in state D until the child executes; here the child never does.
    let script = "python3 -c '
import ctypes, os
libc = ctypes.CDLL(None)
print(\"up\", flush=True)
if libc.vfork() == 0:
    libc.pause()
'";
    let root = shell(&format!("{script}; :"));
    let began = Instant::now();
    let until = began + Duration::from_secs(5);
    // The interpreter says "up" just before it calls vfork.
    let vforked = |members: &[Member]| members.iter().any(|m| m.stillness() == Stillness::Uninterruptible);
    while !vforked(&tree(pid(&root))) {
        assert!(Instant::now() < until, "vfork was never seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = tree(pid(&root));
    assert!(before.len() >= 2, "{before:?}");
    let walk = kill_descendants(pid(&root)).unwrap();
    assert!(walk.stood_still, "{walk:?}");
    wait_until_dead(&before);
    end(root);
}

#[test]
fn a_member_that_continues_its_siblings_ends_with_them() {
    let root = shell(
        "sleep 7020 & a=$!; sh -c 'while :; do sleep 7021 & kill -CONT $1 $! ; kill -KILL $!; done' x $a 2>/dev/null & echo up; wait",
    );
    let before = tree(pid(&root));
    kill_descendants(pid(&root)).unwrap();
    wait_until_dead(&before);
    assert_eq!(tree(pid(&root)).iter().filter(|member| member.lives()).count(), 0);
    end(root);
}

#[test]
fn a_tree_that_forks_and_exits_all_the_time_ends() {
    let root =
        shell("(while :; do (sleep 7030 & kill $! ) 2>/dev/null; done) & (while :; do (:); done) & echo up; wait");
    for _ in 0..3 {
        kill_descendants(pid(&root)).unwrap();
    }
    assert_eq!(tree(pid(&root)).iter().filter(|member| member.lives()).count(), 0);
    end(root);
}

#[test]
fn a_child_that_the_scan_finds_is_the_one_that_the_kernel_lists() {
    let root = shell("sleep 7040 & echo up; wait");
    assert_eq!(scan_for_children(pid(&root)), children(pid(&root)));
    kill_descendants(pid(&root)).unwrap();
    end(root);
}

#[test]
fn a_process_whose_first_thread_has_ended_is_ended_with_what_it_started() {
    let script = "python3 -c '
import ctypes, os, threading, subprocess, time
def go_on():
    child = subprocess.Popen([\"sleep\", \"7050\"])
    print(\"up\", flush=True)
    time.sleep(1000)
threading.Thread(target=go_on).start()
time.sleep(0.2)
ctypes.CDLL(None).syscall(60, 0) # exit of this thread alone
'";
    let root = shell(&format!("{script}; :"));
    let until = Instant::now() + Duration::from_secs(5);
    let half_dead = |member: &Member| member.stat().is_some_and(|stat| stat.state == b'Z') && member.lives();
    while !tree(pid(&root)).iter().any(half_dead) {
        assert!(Instant::now() < until, "the first thread never ended: {:?}", tree(pid(&root)));
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = tree(pid(&root));
    assert_eq!(before.len(), 2, "{before:?}");
    kill_descendants(pid(&root)).unwrap();
    wait_until_dead(&before);
    assert!(is_empty(pid(&root)));
    end(root);
}
