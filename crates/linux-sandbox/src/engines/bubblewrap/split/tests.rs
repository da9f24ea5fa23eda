//! Whole lists, compared as text.

use codespace_linux_sandbox_protocol::{Access, Rule, View};

use super::super::entries::entries;
use super::super::entries::tests::{Directories, rule};
use super::*;

fn made_of(rules: Vec<Rule>) -> Vec<Entry> {
    entries(&View { rules }, &Directories(&["/proc/sys", "/srv/demo/hidden", "/srv/demo/closed"])).unwrap()
}

fn every_kind_of_rule() -> Vec<Entry> {
    made_of(vec![
        rule("/bin", Access::Symlink { target: "usr/bin".into() }),
        rule("/etc", Access::ReadPublic),
        rule("/usr", Access::Read),
        rule("/srv/demo", Access::Write),
        rule("/dev/null", Access::Deny),
        rule("/dev/shm/demo", Access::Write),
        rule("/proc/sys", Access::Deny),
        rule("/srv/demo/closed", Access::Deny),
        rule("/srv/demo/hidden", Access::Deny),
        rule("/srv/demo/token", Access::Deny),
        rule("/dev/shm/demo/key", Access::Deny),
        rule("/proc/sys/kernel", Access::Read),
        rule("/srv/demo/hidden/shown", Access::Write),
    ])
}

fn text(words: &[OsString]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
    words.join(" ").replace(" --", "\n--")
}

#[test]
fn the_whole_list_of_options_without_a_staging_is_as_recorded() {
    let expected = "--unshare-user
--unshare-pid
--unshare-ipc
--unshare-uts
--unshare-net
--as-pid-1
--cap-drop ALL
--proc /proc
--ro-bind-try /proc/sys /proc/sys
--ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger
--ro-bind-try /proc/irq /proc/irq
--ro-bind-try /proc/bus /proc/bus
--ro-bind-try /proc/fs /proc/fs
--dev /dev
--perms 1777
--tmpfs /tmp
--symlink usr/bin /bin
--ro-bind /etc /etc
--ro-bind /dev/null /etc/shadow
--perms 0000
--tmpfs /etc/ssl/private
--ro-bind /usr /usr
--bind /srv/demo /srv/demo
--ro-bind /dev/null /dev/null
--bind /dev/shm/demo /dev/shm/demo
--perms 0111
--tmpfs /proc/sys
--perms 0000
--tmpfs /srv/demo/closed
--perms 0111
--tmpfs /srv/demo/hidden
--ro-bind /dev/null /srv/demo/token
--ro-bind /dev/null /dev/shm/demo/key
--ro-bind /proc/sys/kernel /proc/sys/kernel
--bind /srv/demo/hidden/shown /srv/demo/hidden/shown
--remount-ro /etc/ssl/private
--remount-ro /proc/sys
--remount-ro /srv/demo/closed
--remount-ro /srv/demo/hidden
--remount-ro /
--chdir /";
    assert_eq!(text(&arguments_only(&every_kind_of_rule(), Network::Isolated).unwrap()), expected);
}

#[test]
fn with_a_staging_bubblewrap_binds_it_once_and_makes_only_what_belongs_to_its_namespaces() {
    let expected = "--unshare-user
--unshare-pid
--unshare-ipc
--unshare-uts
--unshare-net
--as-pid-1
--cap-drop ALL
--bind /tmp/root /
--proc /proc
--ro-bind-try /proc/sys /proc/sys
--ro-bind-try /proc/sysrq-trigger /proc/sysrq-trigger
--ro-bind-try /proc/irq /proc/irq
--ro-bind-try /proc/bus /proc/bus
--ro-bind-try /proc/fs /proc/fs
--dev /dev
--bind /tmp/shm /dev/shm
--ro-bind /dev/null /dev/null
--perms 0111
--tmpfs /proc/sys
--ro-bind /proc/sys/kernel /proc/sys/kernel
--remount-ro /proc/sys
--chdir /";
    let (staged, options) = staged(every_kind_of_rule(), Network::Isolated, Path::new("/tmp"));
    assert_eq!(text(&options), expected);
    assert_eq!(staged.at, Path::new("/tmp"));
    let paths = |entries: &[Entry]| entries.iter().map(|e| e.path.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(
        paths(&staged.root),
        [
            "/bin",
            "/etc",
            "/etc/shadow",
            "/etc/ssl/private",
            "/usr",
            "/srv/demo",
            "/srv/demo/closed",
            "/srv/demo/hidden",
            "/srv/demo/token",
            "/srv/demo/hidden/shown",
        ]
    );
    assert_eq!(paths(&staged.shm), ["/dev/shm/demo", "/dev/shm/demo/key"]);
}

#[test]
fn the_number_of_options_does_not_follow_the_number_of_rules() {
    let paths = (0..10_000).map(|n| rule(&format!("/srv/d{n}"), Access::Read));
    let entries = made_of(paths.collect());
    let (few, options) = staged(made_of(vec![]), Network::Host, Path::new("/tmp"));
    assert!(few.root.is_empty());
    let (many, same_options) = staged(entries.clone(), Network::Host, Path::new("/tmp"));
    assert_eq!((many.root.len(), same_options), (10_000, options));
    let refused = arguments_only(&entries, Network::Host).unwrap_err();
    assert_eq!((refused.stage, refused.errno), (Stage::Sandbox, Some(libc::ENOSYS)));
    assert!(refused.message.contains("10000 mounts") && refused.message.contains("9000"), "{}", refused.message);
}

#[test]
fn proc_and_dev_lie_on_top_of_a_rule_for_the_whole_disk_and_it_keeps_its_access_and_its_tmp() {
    let whole =
        made_of(vec![rule("/", Access::Write), rule("/usr", Access::Read), rule("/dev/shm/demo", Access::Read)]);
    let words = text(&arguments_only(&whole, Network::Host).unwrap());
    let at = |option: &str| words.find(option).unwrap_or_else(|| panic!("{option}: {words}"));
    assert!(at("--bind / /") < at("--proc /proc") && at("--dev /dev") < at("--ro-bind /usr /usr"), "{words}");
    assert!(!words.contains("--remount-ro") && !words.contains("--tmpfs"), "{words}");
    let (staged, options) = staged(whole, Network::Host, Path::new("/tmp"));
    assert_eq!(staged.root[0], Entry { path: "/".into(), shown: Shown::Writable });
    assert_eq!(staged.shm.len(), 1);
    assert!(text(&options).contains("--bind /tmp/root /\n--proc /proc"));
}

#[test]
fn a_rule_for_dev_shm_itself_keeps_what_is_below_it_out_of_the_staging() {
    let rules = vec![rule("/dev/shm", Access::Read), rule("/dev/shm/demo", Access::Write)];
    let (staged, options) = staged(made_of(rules), Network::Host, Path::new("/tmp"));
    assert_eq!((staged.root.len(), staged.shm.len()), (0, 0));
    assert!(
        text(&options).contains("--dev /dev\n--ro-bind /dev/shm /dev/shm\n--bind /dev/shm/demo /dev/shm/demo\n--chdir"),
        "{}",
        text(&options)
    );
}

#[test]
fn the_host_network_is_joined_only_when_the_plan_says_so() {
    for (network, isolated) in [(Network::Host, false), (Network::Isolated, true)] {
        let plain = arguments_only(&[], network).unwrap();
        let (_, over_staged) = staged(Vec::new(), network, Path::new("/tmp"));
        assert_eq!(text(&plain).contains("--unshare-net"), isolated);
        assert_eq!(text(&over_staged).contains("--unshare-net"), isolated);
    }
}
