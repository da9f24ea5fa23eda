//! Finds the sandbox helper and asks it what this host can enforce.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use codespace_domain::Enforcement;
use codespace_linux_sandbox_protocol::{ByteString, Finding, PLAN_PROTOCOL, ProbeReport};
use serde::Serialize;
use tokio::process::{Child, Command};

/// Names the helper's program; wins over the one beside the Runner's own.
pub const HELPER_VARIABLE: &str = "CODESPACE_LINUX_SANDBOX_BIN";
const HELPER_NAME: &str = "codespace-linux-sandbox";
/// The helper gives its own trial five seconds.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// Where the helper is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HelperLocation {
    /// What `CODESPACE_LINUX_SANDBOX_BIN` names, else `codespace-linux-sandbox` beside this executable.
    #[default]
    Default,
    /// This program.
    Path(PathBuf),
}

impl HelperLocation {
    /// The program. A named one that is no file is an error and no reason to look elsewhere.
    ///
    /// # Errors
    /// A finding that says where it was looked for, with its remedy.
    pub fn find(&self) -> Result<PathBuf, Finding> {
        let (path, named) = match self {
            Self::Path(path) => (path.clone(), true),
            Self::Default => match std::env::var_os(HELPER_VARIABLE) {
                Some(path) => (PathBuf::from(path), true),
                None => (beside_this_executable(), false),
            },
        };
        if path.is_absolute() && path.is_file() {
            return Ok(path);
        }
        let remedy = if named {
            format!("let {HELPER_VARIABLE} name the {HELPER_NAME} program by its absolute path, or unset it")
        } else {
            format!("install {HELPER_NAME} beside this program, or name it in {HELPER_VARIABLE}")
        };
        Err(Finding { what: format!("there is no sandbox helper at {}", path.display()), remedy })
    }
}

fn beside_this_executable() -> PathBuf {
    // The link reads "... (deleted)" after an upgrade in place; the directory stays right.
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(HELPER_NAME)
}

/// What this machine can enforce. `codespace-runner doctor --json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The engine that works here; `none` when none does.
    pub engine: Enforcement,
    /// Commands can be sandboxed.
    pub works: bool,
    /// Commands can be kept off the network.
    pub network_enforced: bool,
    /// The helper's program, where it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helper: Option<PathBuf>,
    /// The engine's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_program: Option<ByteString>,
    /// What the engine calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// What does not work, each with its remedy.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    fn broken(helper: Option<PathBuf>, finding: Finding) -> Self {
        Self {
            engine: Enforcement::None,
            works: false,
            network_enforced: false,
            helper,
            engine_program: None,
            engine_version: None,
            findings: vec![finding],
        }
    }
}

/// Tries everything for real, with the helper at its default place.
pub async fn doctor() -> DoctorReport {
    probe(&HelperLocation::Default).await
}

/// Tries everything for real. Takes some ten milliseconds, and at most ten seconds.
pub async fn probe(location: &HelperLocation) -> DoctorReport {
    if !cfg!(target_os = "linux") {
        let what = "commands run on Linux only in this version".to_owned();
        let remedy = "run codespace-runner on a Linux machine, or in a Linux virtual machine".to_owned();
        return DoctorReport::broken(None, Finding { what, remedy });
    }
    let helper = match location.find() {
        Ok(helper) => helper,
        Err(finding) => return DoctorReport::broken(None, finding),
    };
    match ask(&helper).await {
        Ok(report) if report.protocol == PLAN_PROTOCOL => DoctorReport {
            engine: if report.works { Enforcement::Bubblewrap } else { Enforcement::None },
            works: report.works,
            network_enforced: report.network_enforced,
            helper: Some(helper),
            engine_program: report.engine_program,
            engine_version: report.engine_version,
            findings: report.findings,
        },
        Ok(report) => {
            let what = format!(
                "the helper {} speaks protocol {}, this Runner {PLAN_PROTOCOL}",
                helper.display(),
                report.protocol
            );
            let remedy = "install Runner and helper of one build".to_owned();
            DoctorReport::broken(Some(helper), Finding { what, remedy })
        }
        Err(error) => {
            let what = format!("the helper {} gave no report: {error}", helper.display());
            let remedy = format!("run `{} probe` by hand", helper.display());
            DoctorReport::broken(Some(helper), Finding { what, remedy })
        }
    }
}

async fn ask(helper: &std::path::Path) -> io::Result<ProbeReport> {
    let mut command = Command::new(helper);
    command
        .arg("probe")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Not in the Runner's group: a Ctrl-C meant for that would look like a helper that does not work.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let (child, _known) = start(command)?;
    let output = tokio::time::timeout(PROBE_DEADLINE, child.wait_with_output())
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "nothing came for 10 s"))??;
    serde_json::from_slice(&output.stdout).map_err(|e| io::Error::other(format!("{e} ({})", output.status)))
}

/// A child of ours, which no Runner in this process may take for an orphan.
#[cfg(target_os = "linux")]
fn start(mut command: Command) -> io::Result<(Child, crate::orphans::Known)> {
    let known = crate::orphans::Known::new();
    let pid = |child: &io::Result<Child>| child.as_ref().ok()?.id()?.try_into().ok();
    Ok((known.start(|| command.spawn(), pid)?, known))
}

#[cfg(not(target_os = "linux"))]
fn start(mut command: Command) -> io::Result<(Child, ())> {
    Ok((command.spawn()?, ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_is_named_must_be_there() {
        let finding = HelperLocation::Path("/no/such/helper".into()).find().unwrap_err();
        assert!(finding.what.contains("/no/such/helper") && finding.remedy.contains(HELPER_VARIABLE), "{finding:?}");
        assert!(HelperLocation::Path("relative".into()).find().is_err());
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_helper_that_says_nothing_is_a_finding() {
        let report = probe(&HelperLocation::Path("/bin/true".into())).await;
        assert!(!report.works && report.findings[0].what.contains("/bin/true"), "{report:?}");
        let report = probe(&HelperLocation::Path("/bin/false".into())).await;
        assert_eq!(report.engine, Enforcement::None);
    }
}
