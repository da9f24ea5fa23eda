//! `status`: how a process stands.

use std::time::SystemTime;

use codespace_domain::{ByteString, ProcessId, ProcessStatus, SignalInfo, StatusRequest, TreeReport, Usage};
use codespace_runner::Runner as _;
use serde_json::Value;

use crate::colour::{Paint, Tone};
use crate::connect::SocketFlag;
use crate::error::CliError;
use crate::escape::{argument, escape};
use crate::render::Render;
use crate::{exit, human};

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    socket: SocketFlag,
    process_id: ProcessId,
    /// Wait so long for the process's end.
    #[arg(long, value_name = "DURATION", value_parser = crate::values::millis, default_value = "0")]
    wait: u64,
}

pub(crate) async fn run(args: StatusArgs, render: Render) -> Result<u8, CliError> {
    let runner = args.socket.connect().await?;
    let status = runner.process_status(StatusRequest { process_id: args.process_id, wait_ms: args.wait }).await?;
    render.result(&status, || text(&status, SystemTime::now(), render.paint()))?;
    Ok(exit::OK)
}

/// The contract's names in its order, one a line; its values, and beside a number of some size what people write for it.
fn text(status: &ProcessStatus, now: SystemTime, paint: Paint) -> String {
    let mut lines = String::new();
    let Ok(Value::Object(mut fields)) = serde_json::to_value(status) else { return lines };
    let in_order = ORDER.iter().filter_map(|name| fields.remove_entry(*name)).collect::<Vec<_>>();
    for (name, value) in in_order.into_iter().chain(fields) {
        let shown = match (name.as_str(), &value) {
            ("command", _) => command(&status.command),
            ("state", Value::String(state)) if state == "running" => paint.paint(Tone::Live, state),
            ("ended_by", Value::String(cause)) if cause != "command" => paint.paint(Tone::Bad, &escape(cause)),
            ("signal", _) => status.signal.as_ref().map(signal).unwrap_or_default(),
            ("tree", _) => status.tree.as_ref().map(|seen| tree(seen, paint)).unwrap_or_default(),
            ("usage", _) => status.usage.as_ref().map(usage).unwrap_or_default(),
            ("started_at" | "ended_at", Value::String(at)) => match human::between(at, now) {
                Some(ago) => format!("{} ({} ago)", escape(at), human::millis(ago)),
                None => escape(at),
            },
            ("policy_findings", Value::Array(all)) => {
                let all = all.iter().filter_map(Value::as_str).map(|finding| format!("\n  {}", escape(finding)));
                all.collect()
            }
            (name, Value::Number(number)) => beside(name, number.as_u64()).unwrap_or_else(|| number.to_string()),
            (_, Value::String(text)) => escape(text),
            (_, other) => escape(&other.to_string()),
        };
        lines.push_str(&format!("{name}: {shown}\n"));
    }
    lines
}

/// The order of the contract.
const ORDER: [&str; 24] = [
    "process_id",
    "process_key",
    "workspace_id",
    "command",
    "tty",
    "state",
    "phase",
    "pid",
    "started_at",
    "ended_at",
    "exit_code",
    "signal",
    "termination",
    "ended_by",
    "limit",
    "tree",
    "usage",
    "policy_findings",
    "output_total",
    "output_retained_from",
    "eof",
    "timeout_ms",
    "lifetime",
    "sandbox",
];

/// A number with what people write for it, where that is shorter to read.
fn beside(name: &str, number: Option<u64>) -> Option<String> {
    let shown = match (name, number?) {
        ("output_total" | "output_retained_from", count @ 1024..) => human::bytes(count),
        ("timeout_ms", ms @ 1000..) => human::millis(ms),
        _ => return None,
    };
    Some(format!("{} ({shown})", number?))
}

fn signal(signal: &SignalInfo) -> String {
    match &signal.name {
        Some(name) => format!("{} ({})", escape(name), signal.number),
        None => signal.number.to_string(),
    }
}

fn tree(tree: &TreeReport, paint: Paint) -> String {
    let seen = match (tree.confirmed, &tree.detail) {
        (true, _) => "confirmed".to_owned(),
        (false, None) => paint.paint(Tone::Alarm, "not confirmed"),
        (false, Some(detail)) => format!("{} ({})", paint.paint(Tone::Alarm, "not confirmed"), escape(detail)),
    };
    format!("{seen}, {} leftovers, took {}", tree.leftovers, human::millis(tree.took_ms))
}

fn usage(usage: &Usage) -> String {
    let mut shown = vec![format!("wall {}", human::millis(usage.wall_ms))];
    shown.extend(usage.user_ms.map(|ms| format!("user {}", human::millis(ms))));
    shown.extend(usage.system_ms.map(|ms| format!("system {}", human::millis(ms))));
    shown.extend(usage.max_rss_bytes.map(|bytes| format!("max rss {}", human::bytes(bytes))));
    shown.join(", ")
}

/// A command as a shell would take it, safe to show.
pub(super) fn command(argv: &[ByteString]) -> String {
    argv.iter().map(|arg| argument(&arg.to_text())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::test_status::exited;
    use super::*;

    #[test]
    fn a_status_is_shown_with_the_contracts_names_and_nothing_that_a_terminal_obeys() {
        let mut status = exited();
        status.command = vec!["printf".into(), "\u{1b}[2J".into()];
        status.policy_findings = vec!["a\u{1b}b".into()];
        let shown = text(&status, SystemTime::UNIX_EPOCH, Paint::never());
        assert!(shown.contains("termination: exited\n") && shown.contains("workspace_id: demo\n"), "{shown}");
        assert!(shown.contains(r"command: printf '\u{1b}[2J'"), "{shown}");
        assert!(!shown.contains('\u{1b}'));
    }

    #[test]
    fn numbers_of_some_size_have_what_people_write_beside_them() {
        let mut status = exited();
        status.output_total = 1_572_864;
        status.timeout_ms = Some(123_000);
        status.usage = Some(Usage { wall_ms: 976, user_ms: Some(1500), system_ms: None, max_rss_bytes: Some(3 << 20) });
        let now = human::time("2026-01-02T03:06:09Z").unwrap();
        let shown = text(&status, now, Paint::never());
        for line in [
            "output_total: 1572864 (1.5 MiB)",
            "output_retained_from: 0",
            "timeout_ms: 123000 (2m 3s)",
            "usage: wall 976ms, user 1.5s, max rss 3 MiB",
            "tree: confirmed, 0 leftovers, took 1ms",
            "ended_at: 2026-01-02T03:04:06Z (2m 3s ago)",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
        }
        assert!(shown.starts_with("process_id: proc-"), "{shown}");
    }

    #[test]
    fn what_somebody_should_look_at_is_coloured_and_nothing_else_is() {
        let mut status = exited();
        assert_eq!(text(&status, SystemTime::now(), Paint::always()), text(&status, SystemTime::now(), Paint::never()));
        status.ended_by = Some(codespace_domain::EndedBy::HelperLost);
        status.tree = Some(TreeReport { confirmed: false, leftovers: 0, took_ms: 9, detail: Some("a\u{1b}".into()) });
        let shown = text(&status, SystemTime::now(), Paint::always());
        assert!(
            shown.contains("\u{1b}[33mhelper_lost") && shown.contains("not confirmed\u{1b}[0m (a\\u{1b})"),
            "{shown:?}"
        );
    }
}
