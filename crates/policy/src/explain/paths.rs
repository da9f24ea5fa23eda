//! What a command finds at one path, which rule decides it, and which rules that one won against.

use std::path::{Component, Path};

use codespace_domain::{ByteString, RunnerError};
use codespace_linux_sandbox_protocol::{Access, Plan};
use serde::Serialize;

use super::Explained;
use super::accesses::{Accesses, Inside};
use super::sources::{RuleExplained, RuleSource, Shown, Source, is_the_sandboxes_own, shown};
use crate::facts::{ENOENT, ENOTDIR, errno_text};
use crate::paths::{Walk, walk};

/// What a command finds at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathExplained {
    /// As it was asked for.
    pub asked: ByteString,
    /// Where it leads inside: absolute, without links as far as it exists there.
    pub path: ByteString,
    /// How it is shown.
    pub access: Shown,
    /// Whether the host has something there.
    pub exists: bool,
    /// The rule that decides; absent when no rule shows the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<RuleExplained>,
    /// The rules about the path that did not decide, the nearest first.
    pub beaten: Vec<Beaten>,
    /// What else there is to know, for people.
    pub notes: Vec<String>,
    /// What a start is answered with now; absent when it is not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RunnerError>,
}

/// A rule that did not decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beaten {
    /// The rule.
    pub rule: RuleExplained,
    /// Why it did not decide.
    pub because: Why,
}

/// Why a rule did not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A rule for a path nearer to the one asked for decides.
    LessSpecific,
    /// Both name one path; then `deny` wins, then `read`.
    LessStrict,
    /// Both name one path and say the same.
    SaysTheSame,
    /// What lies at or below the Runner's own paths is hidden whatever rule shows it.
    RunnersOwn,
    /// Naming `/etc` again does not show its secret files.
    StaysPublic,
    /// Its path does not exist, so that it shows or hides nothing now.
    NothingThere,
}

pub(super) fn explain(explained: &Explained<'_>, plan: &Plan, asked: &Path) -> PathExplained {
    let written = explained.root.join(asked);
    let on_host = walk(explained.disk, &written);
    if !explained.sandboxed() {
        return PathExplained {
            asked: asked.into(),
            path: on_host.path.as_path().into(),
            access: Shown::Host,
            exists: on_host.end.is_ok(),
            decided_by: Some(RuleExplained { path: "/".into(), access: Shown::Host, from: RuleSource::NoSandbox }),
            beaten: Vec::new(),
            notes: missing_on_host(&on_host).into_iter().collect(),
            refused: explained.refused.clone(),
        };
    }
    let accesses = Accesses::of(&plan.view);
    let inside = walk(&Inside { accesses: &accesses, disk: explained.disk }, &written);
    let path = inside.path.as_path();
    let sources = explained.sources();

    let nearest = accesses.nearest(path);
    let own = is_the_sandboxes_own(path);
    let access = match (nearest, own) {
        (Some((_, access)), _) => shown(access),
        (None, Some(_)) => Shown::Private,
        (None, None) => Shown::Absent,
    };
    let about: Vec<&Source> = sources.all.iter().filter(|source| path.starts_with(&source.path)).collect();
    let decides = deciding(&about, access);
    let decided_by = match (decides, nearest) {
        (Some(source), _) => Some(source.explained()),
        (None, Some((at, access))) => Some(sources.of_rule(at, access)),
        (None, None) => None,
    };
    let mut notes = Vec::new();
    if inside.path != on_host.path && inside.end != on_host.end {
        notes.push(format!(
            "on the host the name leads to {}, which is not how it is found inside",
            on_host.path.display()
        ));
    }
    notes.extend(climbed(asked, path, &explained.root));
    notes.extend(state(explained, &accesses, &about, &inside, access));
    let real = walk(explained.disk, path);
    PathExplained {
        asked: asked.into(),
        path: path.into(),
        access,
        exists: real.end.is_ok(),
        beaten: beaten(&about, decides, nearest.map(|(at, _)| at), access),
        decided_by,
        notes,
        refused: explained.refused.clone(),
    }
}

/// Of those who said what holds, the nearest to the path; of several with one path, the last layer.
fn deciding<'s>(about: &[&'s Source], access: Shown) -> Option<&'s Source> {
    // Where nothing of the host is shown, a rule that hides it is in no plan, and still the reason.
    let of_host = !matches!(access, Shown::Absent | Shown::Private);
    let hides = |source: &Source| !of_host && source.shown == Shown::Deny;
    let said = about.iter().filter(|source| source.there && (source.shown == access || hides(source)));
    said.max_by_key(|source| source.path.components().count()).copied()
}

fn beaten(about: &[&Source], decides: Option<&Source>, nearest: Option<&Path>, access: Shown) -> Vec<Beaten> {
    let place = decides.map(|source| source.path.as_path()).or(nearest);
    let deepest = place.map_or(0, |path| path.components().count());
    let others = about.iter().filter(|source| decides.is_none_or(|decides| !std::ptr::eq(decides, **source)));
    let mut beaten: Vec<(usize, Beaten)> = others
        .map(|source| {
            let depth = source.path.components().count();
            let by_runner = decides.is_some_and(|decides| decides.from == RuleSource::Runner);
            let because = if !source.there {
                Why::NothingThere
            } else if depth < deepest {
                Why::LessSpecific
            } else if source.shown == access {
                Why::SaysTheSame
            } else if by_runner {
                // Also one that is nearer to the path.
                Why::RunnersOwn
            } else if access == Shown::ReadPublic {
                Why::StaysPublic
            } else {
                Why::LessStrict
            };
            (depth, Beaten { rule: source.explained(), because })
        })
        .collect();
    // The nearest first; of one path the stricter, which is the later layer.
    beaten.reverse();
    beaten.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    beaten.into_iter().map(|(_, beaten)| beaten).collect()
}

/// What the access alone does not say.
fn state(
    explained: &Explained<'_>,
    accesses: &Accesses<'_>,
    about: &[&Source],
    inside: &Walk,
    access: Shown,
) -> Vec<String> {
    let path = inside.path.as_path();
    let missing = matches!(walk(explained.disk, path).end, Err(ENOENT | ENOTDIR));
    let mut notes = Vec::new();
    for source in about.iter().filter(|source| !source.there) {
        notes.push(of_missing_rule(accesses, source));
    }
    match access {
        // One that a rule names has had its word.
        Shown::Write | Shown::Read | Shown::ReadPublic if !notes.is_empty() => {}
        Shown::Write if missing => notes.push("it does not exist; a command may create it".to_owned()),
        Shown::Read | Shown::ReadPublic if missing => {
            notes.push("it does not exist, and no command can create it".to_owned());
        }
        Shown::Private => notes.push("not the host's: empty at the start, and gone with the sandbox".to_owned()),
        Shown::Absent if accesses.way_through(path) => {
            notes.push("only an empty folder on the way to what is shown below it".to_owned());
        }
        Shown::Read | Shown::ReadPublic | Shown::Write | Shown::Deny | Shown::Symlink | Shown::Absent | Shown::Host => {
        }
    }
    let kept: Vec<_> = accesses.below(path).into_iter().filter(|(_, below)| shown(below) != access).collect();
    if matches!(access, Shown::Read | Shown::Write) && !kept.is_empty() {
        let rules = if kept.len() == 1 { "rule decides" } else { "rules decide" };
        notes.push(format!("below it, {} other {rules} otherwise, for instance {}", kept.len(), kept[0].0.display()));
    }
    notes
}

/// A rule about a path that does not exist.
fn of_missing_rule(accesses: &Accesses<'_>, source: &Source) -> String {
    let can_be_made = accesses.nearest(&source.path).is_some_and(|(_, access)| *access == Access::Write);
    let names = format!("a rule names {}, which does not exist", source.path.display());
    match (source.shown, can_be_made) {
        (Shown::Write, true) => format!("{names}; a command may create it"),
        (Shown::Deny, false) => format!("{names}; it holds by itself, as no command can create it"),
        (_, false) => format!("{names}, and no command can create it"),
        (_, true) => format!(
            "{names} in a writable folder: this version cannot hold that, and refuses every command until it exists or \
             the rule is gone"
        ),
    }
}

fn missing_on_host(walked: &Walk) -> Option<String> {
    walked.end.as_ref().err().map(|errno| format!("the host says: {}", errno_text(*errno)))
}

/// A relative path that leaves the workspace is one of the host's, and worth a word.
fn climbed(asked: &Path, path: &Path, root: &Path) -> Option<String> {
    let relative = asked.is_relative();
    let up = asked.components().any(|component| component == Component::ParentDir);
    (relative && !path.starts_with(root)).then(|| {
        let how = if up { "`..`" } else { "a link" };
        format!("it leads out of the workspace by {how}")
    })
}
