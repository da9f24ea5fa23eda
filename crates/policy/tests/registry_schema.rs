//! `docs/schema/registry.json` is what the types say, and an editor that checks a registry by it agrees with the Runner.

use codespace_policy::{HostDisk, Registry, registry_schema};
use serde_json::{Value, json};

const COMMITTED: &str = include_str!("../../../docs/schema/registry.json");
const UPDATE: &str = "CODESPACE_UPDATE_SCHEMA=1 cargo test -p codespace-policy --test registry_schema";

fn committed() -> Value {
    serde_json::from_str(COMMITTED).expect("docs/schema/registry.json is JSON")
}

#[test]
fn the_committed_schema_is_what_the_types_say() {
    let made = registry_schema();
    if std::env::var_os("CODESPACE_UPDATE_SCHEMA").is_some_and(|value| value == "1") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/registry.json");
        std::fs::write(path, format!("{made:#}\n")).expect("to write docs/schema/registry.json");
    } else {
        assert!(made == committed(), "docs/schema/registry.json is stale; make it anew with: {UPDATE}");
    }
}

#[test]
fn a_registry_is_good_by_its_schema_and_for_the_runner_or_for_neither() {
    let root = tempfile::tempdir().expect("a directory");
    let validator = jsonschema::draft202012::new(&committed()).expect("a schema of draft 2020-12");
    let with = |name: &str, value: Value| {
        let mut workspace = json!({"root": root.path()});
        workspace[name] = value;
        json!({"workspaces": {"demo": workspace}})
    };
    let cases = [
        (json!({"workspaces": {}}), true),
        (json!({"$schema": "./registry.json", "workspaces": {"demo": {"root": root.path()}}}), true),
        (with("profile", json!("read-only")), true),
        (with("network", json!({"allow": ["*.example.com:443"], "deny": []})), true),
        (with("filesystem", json!({"deny": ["secrets"], "home": "toolchains"})), true),
        (with("env", json!({"inherit": ["LANG"], "set": {"CI": "1"}})), true),
        (with("limits", json!({"cpu_seconds": 600, "file_bytes": 0})), true),
        (with("timeout_ms", json!({"default": 0, "max": 1})), true),
        (json!({}), false),
        (json!({"workspaces": {}, "work": {}}), false),
        (json!({"workspaces": {"demo": {}}}), false),
        (json!({"workspaces": {".demo": {"root": root.path()}}}), false),
        (with("profile", json!("read_only")), false),
        (with("network", json!("none")), false),
        (with("network", json!({"allowed": []})), false),
        (with("filesystem", json!({"reed": []})), false),
        (with("limits", json!({"pids": 0})), false),
        (with("limits", json!({"open_files": 1.5})), false),
        (with("timeout_ms", json!({"max": 0})), false),
        (with("max_processes", json!(0)), false),
        (with("sandbox", json!("native")), false),
        (with("shell", json!(true)), false),
    ];
    for (registry, good) in cases {
        let loaded = Registry::from_json(&registry.to_string(), &HostDisk);
        assert_eq!(loaded.is_ok(), good, "{registry}: {loaded:?}");
        assert_eq!(validator.is_valid(&registry), good, "{registry}");
    }
}
