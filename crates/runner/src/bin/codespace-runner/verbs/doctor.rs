//! `doctor`: what this machine can enforce, and what to do about the rest.

use codespace_runner::linux_sandbox;

use crate::error::CliError;
use crate::escape::escape;
use crate::exit;
use crate::render::Render;

pub(crate) async fn run(render: Render) -> Result<u8, CliError> {
    let report = linux_sandbox::doctor().await;
    render.result(&report, || {
        let yes_no = |yes| if yes { "yes" } else { "no" };
        let mut text = format!(
            "engine: {}\nworks: {}\nnetwork enforced: {}\n",
            serde_json::to_value(report.engine).ok().and_then(|v| v.as_str().map(escape)).unwrap_or_default(),
            yes_no(report.works),
            yes_no(report.network_enforced),
        );
        if let Some(version) = &report.engine_version {
            text.push_str(&format!("engine version: {}\n", escape(version)));
        }
        if let Some(helper) = &report.helper {
            text.push_str(&format!("helper: {}\n", escape(&helper.to_string_lossy())));
        }
        for finding in &report.findings {
            text.push_str(&format!("\n{}\n  remedy: {}\n", escape(&finding.what), escape(&finding.remedy)));
        }
        text
    })?;
    Ok(if report.works { exit::OK } else { exit::FAILED })
}
