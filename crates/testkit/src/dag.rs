//! Who may import whom. What is not listed is forbidden: the absences are the architecture.
//!
//! Only normal and build dependencies count. Tests may use what they like.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Each crate with those crates of this workspace that it may know.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("codespace-domain", &[]),
    ("codespace-linux-sandbox-protocol", &["codespace-domain"]),
    ("codespace-policy", &["codespace-domain", "codespace-linux-sandbox-protocol"]),
    ("codespace-pty", &[]),
    // Never policy: the helper does as it is told.
    ("codespace-linux-sandbox", &["codespace-linux-sandbox-protocol"]),
    // Names and addresses, never processes.
    ("codespace-network-proxy", &["codespace-domain"]),
    (
        "codespace-runner",
        &["codespace-domain", "codespace-policy", "codespace-linux-sandbox-protocol", "codespace-pty"],
    ),
    // Never a pid: everything goes through the Runner.
    ("codespace-server", &["codespace-domain", "codespace-runner"]),
    // Dev only; nobody may import it.
    ("codespace-testkit", &["codespace-domain", "codespace-policy", "codespace-runner"]),
];

/// Everything in the workspace at `root` that breaks the rule, each as one line.
///
/// # Panics
/// When cargo cannot read the manifests.
pub fn violations(root: &Path) -> Vec<String> {
    let metadata = metadata(root);
    let packages = metadata["packages"].as_array().expect("packages");
    let own: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut violations = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(listed, _)| *listed == name) else {
            violations.push(format!("{name} is not in the list of who may import whom"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let imported = dependency["name"].as_str().unwrap_or_default();
            let only_for_tests = dependency["kind"] == "dev";
            if own.contains(&imported) && !only_for_tests && !allowed.contains(&imported) {
                violations.push(format!("{name} must not import {imported}"));
            }
        }
    }
    violations
}

#[expect(clippy::disallowed_methods, reason = "cargo itself, which reads the manifests and ends")]
fn metadata(root: &Path) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .expect("to run cargo metadata");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON from cargo metadata")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn this_workspace_imports_only_downwards() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(violations(&root), Vec::<String>::new());
    }

    #[test]
    fn an_import_upwards_and_a_crate_that_nobody_listed_are_found_and_a_test_may_import_anything() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n").unwrap();
        let package = |name: &str, rest: &str| {
            let directory = root.path().join(name);
            fs::create_dir_all(directory.join("src")).unwrap();
            fs::write(directory.join("src/lib.rs"), "").unwrap();
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}");
            fs::write(directory.join("Cargo.toml"), manifest).unwrap();
        };
        package("codespace-domain", "[dev-dependencies]\ncodespace-policy = { path = \"../codespace-policy\" }\n");
        package("codespace-policy", "[dependencies]\ncodespace-domain = { path = \"../codespace-domain\" }\n");
        package(
            "codespace-linux-sandbox",
            "[target.'cfg(unix)'.dependencies]\nknows = { package = \"codespace-policy\", path = \"../codespace-policy\" }\n",
        );
        package("codespace-pty", "[build-dependencies]\ncodespace-domain = { path = \"../codespace-domain\" }\n");
        package("codespace-extra", "");
        let mut found = violations(root.path());
        found.sort();
        assert_eq!(
            found,
            [
                "codespace-extra is not in the list of who may import whom",
                "codespace-linux-sandbox must not import codespace-policy",
                "codespace-pty must not import codespace-domain",
            ]
        );
    }
}
