//! `codespace-runner explain` says what a `run` with the same flags then does.
#![cfg(target_os = "linux")]

mod cli;

use std::fs;

use cli::{Cli, Running};
use serde_json::{Value, json};

/// The explanation and the truth: what a shell in the sandbox finds.
fn agrees(cli: &Cli, flags: &[&str], path: &str) -> (Value, String) {
    let words: Vec<&str> = ["explain", "--json"].iter().chain(flags).chain(&["--", path]).copied().collect();
    let ended = cli.run(&words);
    assert_eq!(ended.code(), 0, "{words:?}: {ended:?}");
    let script = format!(
        "p='{path}'; if [ ! -e \"$p\" ]; then echo absent; elif [ -d \"$p\" ]; then \
         if ! ls \"$p\" >/dev/null 2>&1; then echo hidden; elif touch \"$p/.try\" 2>/dev/null; then rm \"$p/.try\"; echo write; \
         else echo read; fi; \
         elif ! cat \"$p\" >/dev/null 2>&1; then echo hidden; elif ( : >> \"$p\" ) 2>/dev/null; then echo write; \
         else echo read; fi"
    );
    let found = cli.shell(flags, &script);
    assert_eq!(found.code(), 0, "{found:?}");
    (ended.json(), found.stdout().trim().to_owned())
}

#[test]
fn an_explanation_is_what_a_command_then_finds() {
    let Some(cli) = Cli::new() else { return };
    let workspace = cli.ground.workspace();
    for directory in ["src", "secrets/open"] {
        fs::create_dir_all(workspace.join(directory)).unwrap();
    }
    for file in ["src/main", "secrets/key", "both", "secrets/open/file"] {
        fs::write(workspace.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink("secrets/key", workspace.join("link")).unwrap();
    let home = cli.ground.home();
    fs::write(home.join("private"), "x").unwrap();
    let home_file = home.join("private").to_str().unwrap().to_owned();
    let flags = ["--deny", "secrets", "--read", "both", "--deny", "both", "--read", "src", "--read", "secrets/open"];
    for (path, access, decided_by, found) in [
        (".", "write", "workspace", "write"),
        ("src", "read", "registry", "read"),
        ("src/main", "read", "registry", "read"),
        ("src/../secrets/key", "deny", "registry", "absent"),
        ("secrets", "deny", "registry", "hidden"),
        ("secrets/key", "deny", "registry", "absent"),
        ("link", "deny", "registry", "absent"),
        ("secrets/open/file", "read", "registry", "read"),
        ("both", "deny", "registry", "hidden"),
        ("new", "write", "workspace", "absent"),
        ("/usr/bin", "read", "system", "read"),
        ("/bin/sh", "read", "system", "read"),
        ("/etc/passwd", "read_public", "system", "read"),
        ("/tmp", "private", "sandbox", "write"),
        (home_file.as_str(), "absent", "", "absent"),
        ("/run", "absent", "", "absent"),
    ] {
        let (told, seen) = agrees(&cli, &flags, path);
        // Where the test's directories lie in /tmp, which is the sandbox's own.
        let in_tmp = path == home_file && path.starts_with("/tmp/");
        let (access, decided_by) = if in_tmp { ("private", "sandbox") } else { (access, decided_by) };
        assert_eq!(told["access"], access, "{path}: {told:#}");
        assert_eq!(told["decided_by"]["from"]["kind"].as_str().unwrap_or_default(), decided_by, "{path}: {told:#}");
        assert_eq!(seen, found, "{path}: {told:#}");
    }
    let (both, _) = agrees(&cli, &flags, "both");
    assert_eq!(both["decided_by"]["from"]["key"], "filesystem.deny[1]");
    assert_eq!(
        (&both["beaten"][0]["because"], &both["beaten"][0]["rule"]["access"]),
        (&json!("less_strict"), &json!("read"))
    );
    cli.assert_nothing_is_left("after all");
}

#[test]
fn a_secret_file_of_the_system_is_told_to_be_hidden() {
    let Some(cli) = Cli::new() else { return };
    // The Runner's own root may read it, a command may not.
    let told = cli.run(&["explain", "/etc/shadow", "--json"]).json();
    assert_eq!(told["access"], "read_public");
    assert!(told["notes"][0].as_str().unwrap().starts_with("hidden"), "{told:#}");
    assert_ne!(cli.shell(&[], "cat /etc/shadow").code(), 0);
}

#[test]
fn the_runners_socket_is_explained_as_out_of_reach() {
    let Some(cli) = Cli::new() else { return };
    let socket = cli.socket();
    let private = cli.ground.private();
    let words = ["explain", "--read", private.to_str().unwrap(), "--json", socket.to_str().unwrap()];
    let told = cli.run(&words).json();
    assert_eq!(told["decided_by"]["from"]["kind"], "runner", "{told:#}");
}

#[test]
fn the_whole_policy_is_told_in_order_and_without_a_value() {
    let Some(cli) = Cli::new() else { return };
    fs::create_dir(cli.ground.workspace().join("secrets")).unwrap();
    let explain = |arguments: &[&str]| {
        let mut command = cli.command(arguments);
        command.env("LC_ALL", "hunter2").env("TOKEN", "hunter2");
        let ended = Running::start(command).ended();
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(!ended.stdout().contains("hunter2") && !ended.stdout().contains("TOKEN"), "{}", ended.stdout());
        ended
    };
    let text = explain(&["explain", "--deny", "secrets"]).stdout();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} is missing: {text}"));
    let order = [
        "the sandbox's own",
        "the system's default",
        "the workspace",
        "--deny secrets",
        "restricted",
        "LC_ALL",
        "timeout",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");

    let whole = explain(&["explain", "--deny", "secrets", "--network", "host", "--json"]).json();
    assert_eq!(
        (&whole["network"], &whole["sandboxed"], &whole["profile"]),
        (&json!("host"), &json!(true), &json!("workspace-write"))
    );
    assert!(whole["refused"].is_null(), "{whole:#}");
    let names: Vec<_> = whole["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"PATH") && names.contains(&"LC_ALL"), "{names:?}");
    // The same names that a command has.
    let seen = cli.run(&["run", "--", "env"]).stdout();
    let mut seen: Vec<_> = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    seen.retain(|name| *name != "PWD");
    seen.sort_unstable();
    let without: Vec<_> = names.into_iter().filter(|name| *name != "LC_ALL").collect();
    assert_eq!(seen, without);
}

#[test]
fn a_workspace_of_a_registry_is_explained_by_its_keys() {
    let Some(cli) = Cli::new() else { return };
    let root = cli.ground.workspace();
    fs::create_dir(root.join("secrets")).unwrap();
    let config = cli.ground.private().join("registry.json");
    let registry = json!({"workspaces": {
        "demo": {"root": root, "filesystem": {"deny": ["secrets"]}, "timeout_ms": {"default": 90_000}},
        "listed": {"root": root, "network": {"allow": ["example.com"]}},
        "later": {"root": root, "filesystem": {"deny": ["not-yet"]}}}});
    fs::write(&config, registry.to_string()).unwrap();
    let explain = |arguments: &[&str]| {
        let mut command = cli.command(&[&["explain"], arguments].concat());
        command.env("CODESPACE_CONFIG", &config);
        Running::start(command).ended()
    };
    let told = explain(&["--workspace", "demo", "./secrets/x"]).stdout();
    assert!(told.contains("workspaces.demo.filesystem.deny[0] (secrets)"), "{told}");
    assert!(explain(&["--workspace", "demo"]).stdout().contains("timeout: 1m 30s"));
    let own = explain(&["--workspace", "demo", "--json", config.to_str().unwrap()]).json();
    assert_eq!(own["decided_by"]["from"]["kind"], "runner", "the registry's own file: {own:#}");

    let told = explain(&["--workspace", "listed", "example.com:443"]);
    assert_eq!(told.code(), 0);
    assert!(told.stdout().contains("refused") && told.stdout().contains("no allow-list yet"), "{}", told.stdout());
    let whole = explain(&["--workspace", "listed", "--json"]).json();
    assert_eq!((&whole["network"], &whole["refused"]["code"]), (&json!("refused"), &json!("SANDBOX_UNAVAILABLE")));

    let later = explain(&["--workspace", "later", "./not-yet"]).stdout();
    assert!(
        later.contains("does not exist in a writable folder") && later.contains("refuses every command"),
        "{later}"
    );

    let unknown = explain(&["--workspace", "other", "--json"]);
    assert_eq!((unknown.code(), &unknown.json()["error"]["code"]), (1, &json!("WORKSPACE_NOT_FOUND")));
    for bad in [&["--workspace", "demo", "--deny", "x"][..], &["--config", "x"]] {
        assert_eq!(explain(bad).code(), 2, "{bad:?}");
    }
}

#[test]
fn a_host_is_explained_as_the_network_is() {
    let Some(cli) = Cli::new() else { return };
    for (flags, host, reach) in [
        (&[][..], "example.com:443", "nothing"),
        (&[], "localhost:8080", "own_loopback"),
        (&[], "[::1]:80", "own_loopback"),
        (&["--network", "host"], "example.com", "host"),
        (&["--no-sandbox"], "192.0.2.1", "host"),
    ] {
        let words: Vec<&str> = ["explain", "--json", host].iter().chain(flags).copied().collect();
        let told = cli.run(&words).json();
        assert_eq!(told["reach"], reach, "{words:?}: {told:#}");
    }
    let bad = cli.run(&["explain", "http://example.com"]);
    assert_eq!(bad.code(), 1, "{bad:?}");
    assert!(bad.stderr().contains("hint: such as example.com"), "{}", bad.stderr());
    // What exists is a path, whatever it looks like.
    fs::write(cli.ground.workspace().join("example.com"), "").unwrap();
    assert_eq!(cli.run(&["explain", "--json", "example.com"]).json()["access"], "write");
}
