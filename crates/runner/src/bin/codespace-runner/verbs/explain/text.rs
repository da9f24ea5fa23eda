//! An explanation in lines for people. Says what the policy said, in words; decides nothing.

use codespace_domain::{Limits, Profile, RunnerError, WorkspaceId};
use codespace_policy::{
    Beaten, Explanation, HostExplained, PathExplained, Reach, RuleExplained, RuleSource, Shown, VariableSource, Why,
};

use crate::colour::{Paint, Tone};
use crate::escape::{argument, escape};
use crate::human;
use crate::table::{self, Cell, Column};

/// How the keys of a policy are called where it was written.
#[derive(Debug, Clone)]
pub(super) enum Names {
    /// Keys of a workspace in a registry.
    Registry(WorkspaceId),
    /// Flags of `run`.
    Flags,
}

impl Names {
    /// `filesystem.deny[0]` is `workspaces.demo.filesystem.deny[0]` in a registry, and `--deny secrets` on a command line.
    fn key(&self, key: &str, written: &str) -> String {
        match self {
            Self::Registry(id) => format!("workspaces.{id}.{key} ({})", escape(written)),
            Self::Flags => {
                let list = key.trim_start_matches("filesystem.").split('[').next().unwrap_or(key);
                format!("--{list} {}", argument(written))
            }
        }
    }

    fn plain(&self, key: &str) -> String {
        match self {
            Self::Registry(id) => format!("workspaces.{id}.{key}"),
            Self::Flags => match key {
                "filesystem.home" => "--home toolchains".to_owned(),
                "network" => "--network".to_owned(),
                "sandbox" => "--no-sandbox".to_owned(),
                other => other.to_owned(),
            },
        }
    }
}

/// The whole policy.
pub(super) fn whole(whole: &Explanation, names: &Names, paint: Paint) -> String {
    let profile = match whole.profile {
        Profile::ReadOnly => "read-only",
        Profile::WorkspaceWrite => "writable",
    };
    let sandbox = if whole.sandboxed { "in a sandbox" } else { "without a sandbox" };
    let root = escape(&whole.root.to_text());
    let mut text = format!("workspace {}: {root}, {profile}, {sandbox}\n", whole.workspace_id);
    text.push_str(&refused(whole.refused.as_ref(), paint));
    for what in &whole.unenforceable {
        text.push_str(&format!("  {}\n", escape(what)));
    }

    text.push_str(&head("files", "a later rule lies on top of an earlier one; what no rule shows is not there", paint));
    let rows: Vec<_> = whole.rules.iter().map(|rule| row(rule, names)).collect();
    text.push_str(&rows_of(["ACCESS", "PATH", "FROM"], &rows, paint));

    text.push_str(&head("network", &names.plain("network"), paint));
    text.push_str(&format!("  {}\n", reach_of_all(whole.network)));

    text.push_str(&head("environment", "names only; a request can add its own", paint));
    let rows: Vec<_> = whole
        .env
        .iter()
        .map(|variable| {
            let from = match variable.from {
                VariableSource::Default => "default".to_owned(),
                VariableSource::Toolchain => format!("a toolchain that is shown ({})", names.plain("filesystem.home")),
                VariableSource::Inherit => match names {
                    Names::Flags => "passes from your environment".to_owned(),
                    Names::Registry(_) => format!("the Runner's own ({})", names.plain("env.inherit")),
                },
                VariableSource::Set => names.plain("env.set"),
            };
            [Cell::plain(escape(&variable.name.to_text())), Cell::plain(from), Cell::plain("")]
        })
        .collect();
    text.push_str(&rows_of(["NAME", "FROM", ""], &rows, paint));

    text.push_str(&head("limits", "of every process; a request can only narrow them", paint));
    for line in limits(whole) {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// One path.
pub(super) fn path(about: &PathExplained, names: &Names, paint: Paint) -> String {
    let asked = escape(&about.asked.to_text());
    let path = escape(&about.path.to_text());
    let tone = match about.access {
        Shown::Write | Shown::Host => Tone::Live,
        Shown::Read | Shown::ReadPublic | Shown::Private | Shown::Symlink => Tone::Plain,
        Shown::Deny | Shown::Absent => Tone::Bad,
    };
    let leads = if asked == path { String::new() } else { format!(" (leads to {path})") };
    let mut text = format!("{asked}{leads}: {}, {}\n", paint.paint(tone, word(about.access)), meaning(about.access));
    text.push_str(&match &about.decided_by {
        Some(rule) => format!("decided by: {}\n", told(rule, names)),
        None => "decided by: no rule shows it\n".to_owned(),
    });
    for Beaten { rule, because } in &about.beaten {
        text.push_str(&format!("  and not: {}: {}\n", told(rule, names), why(*because)));
    }
    for note in &about.notes {
        text.push_str(&format!("note: {}\n", escape(note)));
    }
    text.push_str(&refused(about.refused.as_ref(), paint));
    text
}

/// One host.
pub(super) fn host(about: &HostExplained, paint: Paint) -> String {
    let port = about.port.map(|port| format!(":{port}")).unwrap_or_default();
    let name = match about.host.contains(':') && about.port.is_some() {
        true => format!("[{}]", escape(&about.host)),
        false => escape(&about.host),
    };
    let (word, tone, meaning) = match about.reach {
        Reach::Nothing => (
            "unreachable",
            Tone::Bad,
            "the network is restricted: there is a loopback of the sandbox's own and nothing else, not even a name server",
        ),
        Reach::OwnLoopback => (
            "the sandbox's own loopback",
            Tone::Plain,
            "only what runs in the same sandbox answers there, never the host",
        ),
        Reach::Host => ("reachable", Tone::Live, "as far as the host reaches it: the network is the host's"),
        Reach::Refused => (
            "refused",
            Tone::Bad,
            "the policy asks for a proxy or an allow-list, which this version cannot enforce, so no command runs at all",
        ),
    };
    let mut text = format!("{name}{port}: {}: {meaning}\n", paint.paint(tone, word));
    text.push_str(&format!("decided by: {}\n", about.decided_by));
    text.push_str(&refused(about.refused.as_ref(), paint));
    text.push_str("note: read as a host; a path begins with ./ or /\n");
    text
}

fn refused(refused: Option<&RunnerError>, paint: Paint) -> String {
    let Some(error) = refused else { return String::new() };
    let mut text =
        format!("{} now: failed to {}\n", paint.paint(Tone::Alarm, "every start is refused"), escape(&error.message));
    if let Some(hint) = &error.hint {
        text.push_str(&format!("{} {}\n", paint.paint(Tone::Hint, "hint:"), escape(hint)));
    }
    text
}

fn head(title: &str, what: &str, paint: Paint) -> String {
    format!("\n{} ({what})\n", paint.paint(Tone::Head, title))
}

fn row(rule: &RuleExplained, names: &Names) -> [Cell; 3] {
    let tone = match rule.access {
        Shown::Write | Shown::Host => Tone::Live,
        Shown::Deny => Tone::Bad,
        Shown::Read | Shown::ReadPublic | Shown::Private | Shown::Symlink | Shown::Absent => Tone::Plain,
    };
    let access = Cell { text: word(rule.access).to_owned(), tone };
    [access, Cell::plain(escape(&rule.path.to_text())), Cell::plain(source(&rule.from, names))]
}

fn rows_of(titles: [&'static str; 3], rows: &[[Cell; 3]], paint: Paint) -> String {
    let columns = titles.map(|title| Column { title, dispensable: 0 });
    table::lines(columns, rows, None, paint).iter().map(|line| format!("  {line}")).collect()
}

fn told(rule: &RuleExplained, names: &Names) -> String {
    format!("{} {}, from {}", word(rule.access), escape(&rule.path.to_text()), source(&rule.from, names))
}

fn source(from: &RuleSource, names: &Names) -> String {
    match from {
        RuleSource::Sandbox => "the sandbox's own".to_owned(),
        RuleSource::System => "the system's default".to_owned(),
        RuleSource::Resolver => "the name servers of the host's network".to_owned(),
        RuleSource::Toolchains { written } => {
            format!("{}: {}", names.plain("filesystem.home"), escape(&written.to_text()))
        }
        RuleSource::Credentials => "credentials of a toolchain".to_owned(),
        RuleSource::Workspace => "the workspace".to_owned(),
        RuleSource::Registry { key, written } => names.key(key, &written.to_text()),
        RuleSource::Link { target } => format!("another name of {}", escape(&target.to_text())),
        RuleSource::Pin => "a mount point, so that the way to a rule below it stays".to_owned(),
        RuleSource::Runner => "the Runner's own, which nothing can show".to_owned(),
        RuleSource::NoSandbox => names.plain("sandbox"),
    }
}

fn word(access: Shown) -> &'static str {
    match access {
        Shown::Read => "read",
        Shown::ReadPublic => "read public",
        Shown::Write => "write",
        Shown::Deny => "deny",
        Shown::Symlink => "link",
        Shown::Private => "private",
        Shown::Absent => "absent",
        Shown::Host => "host",
    }
}

fn meaning(access: Shown) -> &'static str {
    match access {
        Shown::Read => "the host's, read-only",
        Shown::ReadPublic => "the host's, read-only, as far as everybody may read it",
        Shown::Write => "the host's, writable",
        Shown::Deny => "hidden behind something empty that cannot be read",
        Shown::Symlink => "a symbolic link of the view",
        Shown::Private => "the sandbox's own, writable, and not the host's",
        Shown::Absent => "not there",
        Shown::Host => "as the Runner's user sees it, for there is no sandbox",
    }
}

fn why(because: Why) -> &'static str {
    match because {
        Why::LessSpecific => "its path is less near",
        Why::LessStrict => "of one path, deny wins, then read",
        Why::SaysTheSame => "it says the same",
        Why::RunnersOwn => "nothing shows what is the Runner's own",
        Why::StaysPublic => "naming /etc again shows no more of it",
        Why::NothingThere => "its path does not exist",
    }
}

fn reach_of_all(reach: Reach) -> &'static str {
    match reach {
        Reach::Nothing => "nothing",
        Reach::OwnLoopback => {
            "restricted: a loopback of the sandbox's own, where what runs in one sandbox finds itself; nothing else"
        }
        Reach::Host => "the host's network",
        Reach::Refused => "a proxy or an allow-list, which this version cannot enforce: every start is refused",
    }
}

fn limits(whole: &Explanation) -> Vec<String> {
    let Limits { memory_bytes, pids, cpu_seconds, file_bytes, open_files } = whole.limits;
    let mut lines = Vec::new();
    lines.push(match (whole.timeout_ms, whole.max_timeout_ms) {
        (None, _) => "timeout: none".to_owned(),
        (Some(ms), None) => format!("timeout: {}", human::millis(ms)),
        (Some(ms), Some(max)) => format!("timeout: {}, at most {}", human::millis(ms), human::millis(max)),
    });
    lines.extend(memory_bytes.map(|bytes| format!("memory of the tree: {}", human::bytes(bytes))));
    lines.extend(pids.map(|count| format!("processes of the tree: {count}")));
    lines
        .extend(cpu_seconds.map(|s| format!("processor time of a process: {}", human::millis(s.saturating_mul(1000)))));
    lines.extend(file_bytes.map(|bytes| format!("largest file: {}", human::bytes(bytes))));
    lines.extend(open_files.map(|count| format!("open files of a process: {count}")));
    lines.push(match whole.exclusive {
        true => "one process at a time".to_owned(),
        false => format!("at most {} processes at once", whole.max_processes),
    });
    lines
}
