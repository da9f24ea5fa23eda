//! The system call filter of a sandboxed command. What is refused, and why, is one table each; everything else passes.
//!
//! - Refused with EPERM: what would build a new sandbox inside (and reach kernel code that an ordinary program never
//!   does), change the machine, or push characters into a terminal.
//!   It also refuses the set-user-ID and set-group-ID bits (a file that has them works on the host, outside the sandbox),
//!   and new limits for another process (the kernel goes by the uid alone, which is also that of the inner stage).
//! - Refused with EAFNOSUPPORT: sockets of any family but UNIX, INET, INET6 and routing netlink, and raw ones.
//! - Answered with ENOSYS, as by an older kernel, so that programs fall back: `clone3` (its flags lie in memory, where a
//!   filter cannot read them; `clone` shows them), `openat2` (likewise; `openat` shows its mode), `io_uring` (it runs system calls that no filter sees), and the x32 calls
//!   (the same calls under other numbers).
//! - A call of another architecture (32-bit) kills the process: numbers mean other calls there.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// A filter, ready to be installed.
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// For this process and everything it starts, for ever. Needs no_new_privs.
    pub(super) fn install(&self) -> io::Result<()> {
        apply_filter(&self.0).map_err(io::Error::other)
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused outright, by the reason.
const FORBIDDEN: &[&[i64]] = &[
    // Mounts: a command in a new mount namespace could uncover what its view covers.
    &[
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        libc::SYS_chroot,
    ],
    // Other namespaces.
    &[libc::SYS_setns],
    // Kernel memory and code, and its tracing.
    &[
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
    ],
    // Keyrings are shared with everything of the same uid outside.
    &[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl],
    // Files by handle pass by every view.
    &[libc::SYS_open_by_handle_at],
    // The machine as a whole.
    &[
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
    ],
];

/// `clone` and `unshare` with any of these.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME, which libc has not everywhere
];

const NOT_THERE: [i64; 5] = [
    libc::SYS_openat2,
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The old way to a packet socket, under any family.
const SOCK_PACKET: i32 = 10;

/// A socket's type without its flags.
const SOCKET_TYPE: u64 = 0xf;

/// The filters, in the order in which they are to be installed. The kernel asks all of them and takes the strictest answer.
pub(super) fn filters() -> Result<Vec<Filter>, String> {
    let build = || -> Result<Vec<Filter>, seccompiler::BackendError> {
        Ok(vec![
            filter(forbidden()?, libc::EPERM)?,
            filter(sockets()?, libc::EAFNOSUPPORT)?,
            without_x32(filter(NOT_THERE.iter().map(|call| (*call, Vec::new())).collect(), libc::ENOSYS)?),
        ])
    };
    build().map_err(|e| format!("build the system call filter: {e}"))
}

fn filter(rules: Rules, errno: i32) -> Result<Filter, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno as u32);
    Ok(Filter(SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()?))
}

fn forbidden() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = FORBIDDEN.iter().copied().flatten().map(|call| (*call, Vec::new())).collect();
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let any = NAMESPACES.iter().map(|flag| {
            let flag = *flag as u64;
            SeccompRule::new(vec![SeccompCondition::new(0, Len::Qword, Op::MaskedEq(flag), flag)?])
        });
        rules.insert(call, any.collect::<Result<_, _>>()?);
    }
    // Characters pushed into a terminal are read by whoever reads it next, outside the sandbox.
    let pushes = [libc::TIOCSTI, 0x541C /* TIOCLINUX */]
        .map(|request| SeccompRule::new(vec![SeccompCondition::new(1, Len::Dword, Op::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, pushes.into_iter().collect::<Result<_, _>>()?);
    rules.insert(
        libc::SYS_prlimit64,
        vec![SeccompRule::new(vec![
            SeccompCondition::new(0, Len::Dword, Op::Ne, 0)?,
            SeccompCondition::new(2, Len::Qword, Op::Ne, 0)?,
        ])?],
    );
    for (call, argument) in MODES {
        rules.insert(*call, set_id(*argument, &[])?);
    }
    for (call, flags, argument) in CREATES {
        rules.insert(*call, set_id(*argument, &[*flags])?);
    }
    #[cfg(target_arch = "x86_64")]
    rules.extend([libc::SYS_iopl, libc::SYS_ioperm].map(|call| (call, Vec::new())));
    Ok(rules)
}

/// Calls that take a mode, and which argument it is.
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (452 /* fchmodat2, which libc has not everywhere */, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];

/// Calls that take a mode only when their flags say that a file is made: the flags' argument, the mode's.
const CREATES: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// One rule for each bit, and for each flag with which the mode counts.
fn set_id(mode: u8, flags: &[u8]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    /// Of O_TMPFILE, the bit that is its own.
    const TMPFILE: u64 = 0o20_000_000;
    let bit = |argument: u8, bit: u64| SeccompCondition::new(argument, Len::Dword, Op::MaskedEq(bit), bit);
    let mut rules = Vec::new();
    for set in [u64::from(libc::S_ISUID), u64::from(libc::S_ISGID)] {
        match flags {
            [] => rules.push(SeccompRule::new(vec![bit(mode, set)?])?),
            [flags, ..] => {
                for makes in [libc::O_CREAT as u64, TMPFILE] {
                    rules.push(SeccompRule::new(vec![bit(*flags, makes)?, bit(mode, set)?])?);
                }
            }
        }
    }
    Ok(rules)
}

fn sockets() -> Result<Rules, seccompiler::BackendError> {
    let family = |op: Op, family: i32| SeccompCondition::new(0, Len::Dword, op, family as u64);
    let of_type = |kind: i32| SeccompCondition::new(1, Len::Dword, Op::MaskedEq(SOCKET_TYPE), kind as u64);
    let not_netlink = || family(Op::Ne, libc::AF_NETLINK);
    let rules = vec![
        SeccompRule::new(FAMILIES.iter().map(|f| family(Op::Ne, *f)).collect::<Result<_, _>>()?)?,
        // Netlink is always asked for as raw; of its protocols only routing is harmless.
        SeccompRule::new(vec![
            family(Op::Eq, libc::AF_NETLINK)?,
            SeccompCondition::new(2, Len::Dword, Op::Ne, libc::NETLINK_ROUTE as u64)?,
        ])?,
        SeccompRule::new(vec![not_netlink()?, of_type(libc::SOCK_RAW)?])?,
        SeccompRule::new(vec![not_netlink()?, of_type(SOCK_PACKET)?])?,
    ];
    Ok(BTreeMap::from([(libc::SYS_socket, rules)]))
}

/// On x86-64 the same calls can be made under numbers with bit 30 set, which no rule names: all of them are not there.
/// Jumps in a filter are relative, so a prologue may stand before a whole one.
fn without_x32(filter: Filter) -> Filter {
    if std::env::consts::ARCH != "x86_64" {
        return filter;
    }
    const X32: u32 = 0x4000_0000;
    let load_number = sock_filter { code: 0x20 /* ld word */, jt: 0, jf: 0, k: 0 };
    let if_x32 = sock_filter { code: 0x35 /* jge */, jt: 0, jf: 1, k: X32 };
    let not_there = sock_filter { code: 0x06 /* ret */, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS as u32 };
    Filter([load_number, if_x32, not_there].into_iter().chain(filter.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_build_and_are_within_the_kernels_bound() {
        let filters = filters().unwrap();
        assert_eq!(filters.len(), 3);
        for filter in filters {
            assert!((5..4096).contains(&filter.0.len()), "{}", filter.0.len());
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let mut all: Vec<i64> = FORBIDDEN.iter().copied().flatten().copied().chain(NOT_THERE).collect();
        let before = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), before);
    }
}
