//! `"home": "toolchains"`: which directories of the Runner's home hold toolchains, and which files in them are secrets.
//!
//! Finds them by the variables that their managers use and by the managers' default places. A directory that only PATH
//! names (`~/bin`, `~/.local/bin`) is no toolchain. Whether they are seen is `view`'s, how PATH then looks
//! `environment`'s.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::facts::HostFacts;
use crate::paths::{Walk, walk};
use crate::{Disk, Kind};

/// A directory that holds a toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// The variable by which its programs find it; `None` when they do not need one.
    pub(crate) variable: Option<&'static str>,
    /// Absolute, as the variable or the default names it.
    pub(crate) written: PathBuf,
    /// Absolute, without links.
    pub(crate) resolved: PathBuf,
    /// It lies below the home directory, where nothing else shows it.
    pub(crate) of_home: bool,
    /// Existing files in it that no command may see, resolved.
    pub(crate) credentials: Vec<PathBuf>,
}

/// How to find one.
struct Known {
    variable: &'static str,
    /// Below the home directory; empty when there is none.
    default: &'static str,
    /// Below what the variable names; empty for all of it.
    part: &'static str,
    /// Whether the command gets the variable.
    passes: bool,
}

const fn known(variable: &'static str, default: &'static str) -> Known {
    Known { variable, default, part: "", passes: true }
}

const KNOWN: [Known; 22] = [
    known("CARGO_HOME", ".cargo"),
    known("RUSTUP_HOME", ".rustup"),
    known("NVM_DIR", ".nvm"),
    known("FNM_DIR", ".local/share/fnm"),
    known("VOLTA_HOME", ".volta"),
    known("N_PREFIX", ""),
    known("PNPM_HOME", ".local/share/pnpm"),
    known("BUN_INSTALL", ".bun"),
    known("DENO_INSTALL", ".deno"),
    known("PYENV_ROOT", ".pyenv"),
    known("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    known("RBENV_ROOT", ".rbenv"),
    known("GOROOT", ""),
    // Not all of it: its sources are the user's own work, and a command needs a module cache that it can write.
    Known { variable: "GOPATH", default: "go", part: "bin", passes: false },
    known("GOENV_ROOT", ".goenv"),
    known("JAVA_HOME", ""),
    known("JENV_ROOT", ".jenv"),
    known("SDKMAN_DIR", ".sdkman"),
    known("ASDF_DIR", ".asdf"),
    known("ASDF_DATA_DIR", ".asdf"),
    known("MISE_DATA_DIR", ".local/share/mise"),
    known("DOTNET_ROOT", ".dotnet"),
];

/// Where tools keep tokens, in the directory that they call their home.
const CREDENTIALS: [&str; 10] = [
    "credentials",
    "credentials.toml",
    ".credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    "pip.conf",
    "auth.json",
];

/// The toolchains that exist, in a fixed order. Two variables may name one directory.
pub(crate) fn find(host: &HostFacts, disk: &dyn Disk) -> Vec<Toolchain> {
    let Some(home) = host.runner_home.as_deref().filter(|home| home.is_absolute()) else {
        return Vec::new();
    };
    let resolved_home = walk(disk, home).path;
    let mut found = Vec::new();
    for known in &KNOWN {
        for written in named(known, home, &host.runner_env) {
            let Walk { path: resolved, end, .. } = walk(disk, &written);
            // A variable that names the home directory or a parent would show all of it.
            let too_much = resolved_home.starts_with(&resolved) || home.starts_with(&written);
            if end != Ok(Kind::Dir) || too_much {
                continue;
            }
            let of_home = written.starts_with(home) || resolved.starts_with(&resolved_home);
            let credentials = credentials(&resolved, disk);
            let variable = known.passes.then_some(known.variable);
            found.push(Toolchain { variable, written, resolved, of_home, credentials });
        }
    }
    found
}

/// What the variable names, else the default place.
fn named(known: &Known, home: &Path, env: &BTreeMap<OsString, OsString>) -> impl Iterator<Item = PathBuf> + use<> {
    let from_env = env.get(&OsString::from(known.variable)).filter(|value| !value.is_empty());
    let dirs: Vec<PathBuf> = match from_env {
        // GOPATH is a list; the others are one directory, in which a colon is a colon.
        Some(value) if known.variable == "GOPATH" => std::env::split_paths(value).collect(),
        Some(value) => vec![value.into()],
        None if known.default.is_empty() => Vec::new(),
        None => vec![home.join(known.default)],
    };
    let part = known.part;
    dirs.into_iter().filter(|dir| dir.is_absolute()).map(move |dir| if part.is_empty() { dir } else { dir.join(part) })
}

fn credentials(dir: &Path, disk: &dyn Disk) -> Vec<PathBuf> {
    let there = CREDENTIALS.iter().map(|name| walk(disk, &dir.join(name)));
    there.filter(|found| found.end.is_ok()).map(|found| found.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeDisk;

    fn host(home: &str, env: &[(&str, &str)]) -> HostFacts {
        HostFacts {
            runner_home: Some(home.into()),
            runner_env: env.iter().map(|(k, v)| (k.into(), v.into())).collect(),
            ..HostFacts::default()
        }
    }

    #[test]
    fn default_places_are_found_with_their_credentials() {
        let disk = FakeDisk::new()
            .dir("/root/.cargo/bin")
            .file("/root/.cargo/credentials.toml")
            .dir("/root/.rustup")
            .dir("/root/go/bin")
            .dir("/root/.local/bin")
            .dir("/root/bin");
        let found = find(&host("/root", &[]), &disk);
        let seen: Vec<_> = found.iter().map(|t| (t.variable, t.resolved.to_str().unwrap(), t.of_home)).collect();
        assert_eq!(
            seen,
            [
                (Some("CARGO_HOME"), "/root/.cargo", true),
                (Some("RUSTUP_HOME"), "/root/.rustup", true),
                (None, "/root/go/bin", true),
            ]
        );
        assert_eq!(found[0].credentials, [PathBuf::from("/root/.cargo/credentials.toml")]);
    }

    #[test]
    fn variables_come_before_default_places_and_links_are_followed() {
        let disk = FakeDisk::new()
            .dir("/home/ann/.cargo")
            .dir("/home/ann/tools/cargo")
            .dir("/data/nvm")
            .link("/home/ann/.nvm", "/data/nvm")
            .dir("/usr/local/rustup");
        let env = [("CARGO_HOME", "/home/ann/tools/cargo"), ("RUSTUP_HOME", "/usr/local/rustup")];
        let found = find(&host("/home/ann", &env), &disk);
        let seen: Vec<_> = found.iter().map(|t| (t.resolved.to_str().unwrap(), t.of_home)).collect();
        assert_eq!(seen, [("/home/ann/tools/cargo", true), ("/usr/local/rustup", false), ("/data/nvm", true)]);
    }

    #[test]
    fn a_variable_that_names_the_home_or_nothing_useful_shows_nothing() {
        let disk = FakeDisk::new().dir("/home/ann").file("/home/ann/.volta").link("/me", "/home/ann");
        let env = [("CARGO_HOME", "/home/ann"), ("GOROOT", "relative"), ("N_PREFIX", "/home"), ("NVM_DIR", "/me")];
        assert_eq!(find(&host("/home/ann", &env), &disk), []);
    }
}
