//! What a registry file may say, and how it is told what it may not.

use serde_json::{Value, json};

use super::*;
use crate::facts::EACCES;
use crate::fake::FakeDisk;

fn disk() -> FakeDisk {
    FakeDisk::debian().dir("/srv/demo/out").dir("/opt/sdk").dir("/srv/demo/secrets").link("/srv/demo/away", "/etc")
}

fn load(demo: Value) -> Result<Registry, RegistryError> {
    Registry::from_json(&json!({"workspaces": {"demo": demo}}).to_string(), &disk())
}

/// The error for a `demo` whose root is good and that has `more`.
fn refusal(more: Value) -> String {
    let mut demo = json!({"root": "/srv/demo"});
    demo.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    load(demo).unwrap_err().to_string()
}

#[test]
fn a_short_entry_gets_every_default() {
    let registry = load(json!({"root": "/srv/demo"})).unwrap();
    let demo = &registry.workspaces[&"demo".parse().unwrap()];
    assert_eq!(*demo, Workspace::new("/srv/demo"));
    assert_eq!((demo.sandbox, demo.max_processes, demo.pid_namespace), (SandboxChoice::Auto, 64, true));
    assert_eq!(demo.network, NetworkPolicy::Restricted);
}

#[test]
fn a_full_entry_is_taken() {
    let registry = load(json!({
        "root": "/srv/demo", "profile": "read-only", "sandbox": "bubblewrap", "pid_namespace": true,
        "filesystem": {"read": ["/opt/sdk"], "write": ["out"], "deny": ["secrets", "/nowhere"], "protect": [],
                       "home": "toolchains"},
        "network": "host", "unix_sockets": [],
        "env": {"inherit": ["LANG"], "set": {"CI": "1"}},
        "limits": {"memory_bytes": 1, "pids": 2, "cpu_seconds": 3, "file_bytes": 0, "open_files": 5},
        "timeout_ms": {"default": 1, "max": 2}, "max_processes": 1, "exclusive": true,
        "allow_broad_root": true, "nested_sandboxes": false,
    }));
    let registry = registry.unwrap();
    let demo = &registry.workspaces[&"demo".parse().unwrap()];
    assert_eq!((demo.profile, demo.filesystem.home), (Profile::ReadOnly, Home::Toolchains));
    assert_eq!((demo.limits.file_bytes, demo.timeout_ms.max), (Some(0), Some(2)));
}

#[test]
fn unknown_keys_are_named_with_their_path_and_what_is_known() {
    assert_eq!(
        refusal(json!({"filesystem": {"reed": []}})),
        "workspaces.demo.filesystem.reed: unknown key; one of read, write, deny, protect, home expected"
    );
    assert!(refusal(json!({"rooot": 1})).starts_with("workspaces.demo.rooot: unknown key; one of root, profile"));
    assert!(refusal(json!({"limits": {"cpu": 1}})).starts_with("workspaces.demo.limits.cpu: unknown key"));
    assert!(refusal(json!({"timeout_ms": {"min": 1}})).starts_with("workspaces.demo.timeout_ms.min: unknown key"));
    let error = Registry::from_json(r#"{"workspaces": {}, "work": 1}"#, &disk()).unwrap_err();
    assert_eq!(error.to_string(), "work: unknown key; one of $schema, workspaces expected");
}

#[test]
fn wrong_values_are_named_with_their_path() {
    for (more, key) in [
        (json!({"profile": "write"}), "workspaces.demo.profile: "),
        (json!({"sandbox": "docker"}), "workspaces.demo.sandbox: "),
        (json!({"filesystem": {"read": [7]}}), "workspaces.demo.filesystem.read[0]: "),
        (json!({"filesystem": {"home": "all"}}), "workspaces.demo.filesystem.home: "),
        (json!({"network": 7}), "workspaces.demo.network: invalid type: integer `7`, expected \"restricted\", "),
        (json!({"network": "open"}), "workspaces.demo.network: \"open\" is no network; \"restricted\", "),
        (json!({"network": {"allow": "x"}}), "workspaces.demo.network.allow: "),
        (json!({"network": {"deny": ["x", 7]}}), "workspaces.demo.network.deny[1]: "),
        (json!({"network": {"alow": []}}), "workspaces.demo.network.alow: unknown key; one of allow, deny expected"),
        (json!({"network": {"allow": ["x", ""]}}), "workspaces.demo.network.allow[1]: \"\" is no name"),
        (json!({"network": {"deny": ["https://x"]}}), "workspaces.demo.network.deny[0]: \"https://x\" is no name"),
        (json!({"unix_sockets": "/x"}), "workspaces.demo.unix_sockets: "),
        (json!({"unix_sockets": [7]}), "workspaces.demo.unix_sockets[0]: "),
        (json!({"nested_sandboxes": "yes"}), "workspaces.demo.nested_sandboxes: "),
        (json!({"env": {"set": {"A": 1}}}), "workspaces.demo.env.set.A: "),
        (json!({"timeout_ms": {"max": -1}}), "workspaces.demo.timeout_ms.max: "),
        (json!({"timeout_ms": 5}), "workspaces.demo.timeout_ms: "),
    ] {
        let message = refusal(more);
        assert!(message.starts_with(key), "{message}");
    }
    let error = Registry::from_json("[]", &disk()).unwrap_err();
    assert!(!error.to_string().is_empty());
    let error = Registry::from_json(r#"{"workspaces": {"-x": {"root": "/srv/demo"}}}"#, &disk()).unwrap_err();
    assert!(error.key.starts_with("workspaces") && error.message.contains("is no workspace id"), "{error:?}");
    assert!(Registry::from_json("{}", &disk()).unwrap_err().message.contains("workspaces"));
}

#[test]
fn a_duplicate_id_is_refused() {
    let text = r#"{"workspaces": {"demo": {"root": "/srv/demo"}, "demo": {"root": "/srv/demo"}}}"#;
    let error = Registry::from_json(text, &disk()).unwrap_err();
    assert_eq!(error.to_string(), "workspaces.demo: this key is there twice");
}

#[test]
fn a_root_is_an_absolute_path_of_a_directory() {
    let root = |path: &str| load(json!({"root": path})).unwrap_err().to_string();
    assert!(root("srv/demo").starts_with("workspaces.demo.root: \"srv/demo\" is relative"));
    assert!(root("~/demo").contains("is relative"));
    assert!(root("/srv/none").starts_with("workspaces.demo.root: /srv/none: No such file"));
    assert!(load(json!({})).unwrap_err().to_string().contains("missing field `root`"));
    let file = disk().file("/srv/file");
    let error = Registry::single("demo".parse().unwrap(), Workspace::new("/srv/file"), &file).unwrap_err();
    assert!(error.message.contains("is no directory"));
}

#[test]
fn broad_roots_are_refused_unless_they_are_asked_for() {
    let disk = disk().dir("/usr/src/app").dir("/dev/shm/ws").link("/me", "/home/ann").dir("/proc/1").dir("/opt");
    for dir in ["/", "/home", "/home/ann", "/me", "/usr", "/usr/bin", "/bin", "/etc", "/tmp", "/proc/1", "/opt"] {
        let error = Registry::current_directory(Path::new(dir), false, &disk).unwrap_err();
        assert_eq!(error.key, "workspaces.default.root", "{dir}");
        assert!(error.hint.unwrap().contains("allow_broad_root"), "{dir}");
        assert!(Registry::current_directory(Path::new(dir), true, &disk).is_ok(), "{dir}");
    }
    for dir in ["/srv/demo", "/usr/src/app", "/dev/shm/ws", "/opt/sdk"] {
        let registry = Registry::current_directory(Path::new(dir), false, &disk).unwrap();
        assert_eq!(registry.workspaces[&"default".parse().unwrap()], Workspace::new(dir));
    }
}

#[test]
fn what_this_version_cannot_enforce_is_told_and_stops_no_other_workspace() {
    for (more, told) in [
        (json!({"network": "enabled"}), "network: this version has no proxy yet"),
        (json!({"network": {}}), "network: this version has no allow-list yet"),
        (json!({"network": {"allow": ["*.x.org:443", "[::1]:80"], "deny": ["y"]}}), "network: this version has no"),
        (json!({"unix_sockets": ["/x", "/dev/log", "db.sock"]}), "unix_sockets: this version cannot"),
        (json!({"filesystem": {"protect": ["none"]}}), "filesystem.protect: this version cannot"),
        (json!({"nested_sandboxes": true}), "nested_sandboxes: this version cannot"),
        (json!({"filesystem": {"deny": ["none"]}}), "filesystem.deny[0]: none does not exist"),
        (json!({"filesystem": {"read": ["out", "none"]}}), "filesystem.read[1]: none does not exist"),
    ] {
        let mut demo = json!({"root": "/srv/demo"});
        demo.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let text = json!({"workspaces": {"demo": demo, "other": {"root": "/srv/demo"}}}).to_string();
        let registry = Registry::from_json(&text, &disk()).unwrap();
        let unenforceable = registry.unenforceable(&disk());
        let [(id, message)] = unenforceable.as_slice() else { panic!("{unenforceable:?}") };
        assert_eq!(id.as_str(), "demo");
        assert!(message.starts_with(&format!("workspaces.demo.{told}")), "{message}");
    }
}

#[test]
fn every_key_that_cannot_be_enforced_is_told_and_a_rule_only_while_it_cannot() {
    let registry = load(json!({
        "root": "/srv/demo", "network": "enabled", "unix_sockets": ["/x"], "nested_sandboxes": true,
        "filesystem": {"protect": ["x"], "deny": ["none", "secrets", "nor-this"]},
    }));
    let registry = registry.unwrap();
    assert_eq!(registry.unenforceable(&disk()).len(), 6);
    assert_eq!(registry.unenforceable(&disk().dir("/srv/demo/none")).len(), 5);
}

#[test]
fn what_contradicts_itself_is_refused() {
    for (more, key) in [
        (json!({"pid_namespace": false}), "pid_namespace"),
        (json!({"sandbox": "none", "profile": "read-only"}), "profile"),
        (json!({"sandbox": "none", "filesystem": {"deny": ["out"]}}), "filesystem.deny"),
        (json!({"sandbox": "none", "filesystem": {"read": ["out"]}}), "filesystem.read"),
        (json!({"sandbox": "none", "filesystem": {"protect": ["out"]}}), "filesystem.protect"),
        (json!({"sandbox": "none", "network": "enabled"}), "network"),
        (json!({"sandbox": "none", "network": {"allow": ["x"]}}), "network"),
        (json!({"sandbox": "none", "unix_sockets": ["/x"]}), "unix_sockets"),
        (json!({"sandbox": "none", "nested_sandboxes": true}), "nested_sandboxes"),
    ] {
        let error = refusal(more);
        assert!(error.starts_with(&format!("workspaces.demo.{key}: ")), "{error}");
    }
    assert!(load(json!({"root": "/srv/demo", "sandbox": "none", "network": "restricted"})).is_ok());
}

#[test]
fn a_missing_path_holds_by_itself_where_no_command_can_make_it() {
    for more in [
        json!({"root": "/srv/demo", "filesystem": {"deny": ["/srv/none", "/none"], "read": ["/none"], "write": ["x"]}}),
        json!({"root": "/srv/demo", "profile": "read-only", "filesystem": {"deny": ["none"]}}),
        json!({"root": "/srv/demo", "filesystem": {"deny": ["secrets", "secrets/none"]}}),
    ] {
        assert_eq!(load(more.clone()).unwrap().unenforceable(&disk()), [], "{more}");
    }
    let outside = json!({"root": "/srv/demo", "filesystem": {"write": ["/opt/sdk"], "deny": ["/opt/sdk/none"]}});
    let told = load(outside).unwrap().unenforceable(&disk());
    assert!(told[0].1.starts_with("workspaces.demo.filesystem.deny[0]: /opt/sdk/none does not exist"), "{told:?}");
}

#[test]
fn rules_that_lead_astray_are_refused() {
    for (more, message) in [
        (json!({"write": ["../x"]}), "write[0]: ../x leads out"),
        (json!({"read": ["out", "away"]}), "read[1]: away leads out"),
        (json!({"deny": ["out/../../demo"]}), "deny[0]: out/../../demo leads out"),
        (json!({"deny": ["."]}), "deny[0]: . is the workspace itself"),
        (json!({"deny": ["/srv/demo"]}), "deny[0]: /srv/demo is the workspace itself"),
        (json!({"read": ["/proc"]}), "read[0]: /proc is the sandbox's own"),
        (json!({"write": ["/dev/kvm"]}), "write[0]: /dev/kvm is the sandbox's own"),
        (json!({"read": ["~/x"]}), "read[0]: ~/x is no path"),
        (json!({"read": [""]}), "read[0]: an empty path"),
        (json!({"protect": [".git", "../x"]}), "protect[1]: ../x leads out"),
        (json!({"protect": ["/proc/self"]}), "protect[0]: /proc/self is the sandbox's own"),
        (json!({"protect": ["~/x"]}), "protect[0]: ~/x is no path"),
    ] {
        let error = refusal(json!({"filesystem": more}));
        assert!(error.starts_with(&format!("workspaces.demo.filesystem.{message}")), "{error}");
    }
    assert!(refusal(json!({"unix_sockets": ["/x", ""]})).starts_with("workspaces.demo.unix_sockets[1]: an empty path"));
    assert!(refusal(json!({"unix_sockets": ["../x"]})).starts_with("workspaces.demo.unix_sockets[0]: ../x leads out"));
    let disk = disk().unreadable("/root", EACCES);
    let with = |filesystem: Filesystem| {
        Registry::single("demo".parse().unwrap(), Workspace { filesystem, ..Workspace::new("/srv/demo") }, &disk)
    };
    let path = || vec![PathBuf::from("/root/x")];
    assert!(with(Filesystem { deny: path(), ..Filesystem::default() }).is_ok());
    let error = with(Filesystem { read: path(), ..Filesystem::default() }).unwrap_err();
    assert!(error.message.contains("Permission denied"), "{error}");
}

#[test]
fn values_that_cannot_be_meant_are_refused() {
    for (more, key) in [
        (json!({"timeout_ms": {"max": 0}}), "timeout_ms.max"),
        (json!({"timeout_ms": {"default": 3, "max": 2}}), "timeout_ms.default"),
        (json!({"max_processes": 0}), "max_processes"),
        (json!({"limits": {"memory_bytes": 0}}), "limits.memory_bytes"),
        (json!({"limits": {"pids": 0}}), "limits.pids"),
        (json!({"limits": {"cpu_seconds": 0}}), "limits.cpu_seconds"),
        (json!({"limits": {"open_files": 0}}), "limits.open_files"),
        (json!({"env": {"inherit": ["A", ""]}}), "env.inherit[1]"),
        (json!({"env": {"inherit": ["A=B"]}}), "env.inherit[0]"),
        (json!({"env": {"set": {"A=": "x"}}}), "env.set"),
        (json!({"env": {"set": {"A": "x\u{0}y"}}}), "env.set.A"),
    ] {
        let error = refusal(more);
        assert!(error.starts_with(&format!("workspaces.demo.{key}: ")), "{error}");
    }
}

#[test]
fn the_schema_has_every_key_and_no_other() {
    let schema = registry_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let keys = |name: &str| -> Vec<String> {
        let definition = &schema["$defs"][name];
        assert_eq!(definition["additionalProperties"], json!(false), "{name}");
        let mut keys: Vec<String> = definition["properties"].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(
        keys("Workspace"),
        [
            "allow_broad_root",
            "env",
            "exclusive",
            "filesystem",
            "limits",
            "max_processes",
            "nested_sandboxes",
            "network",
            "pid_namespace",
            "profile",
            "root",
            "sandbox",
            "timeout_ms",
            "unix_sockets",
        ]
    );
    assert_eq!(keys("Filesystem"), ["deny", "home", "protect", "read", "write"]);
    assert_eq!(keys("NetworkList"), ["allow", "deny"]);
    assert_eq!(keys("Limits"), ["cpu_seconds", "file_bytes", "memory_bytes", "open_files", "pids"]);
    assert_eq!(
        (keys("EnvPolicy"), keys("TimeoutPolicy")),
        (vec!["inherit".into(), "set".into()], vec!["default".into(), "max".into()])
    );
    assert_eq!(schema["$defs"]["Workspace"]["required"], json!(["root"]));
    assert_eq!(schema["required"], json!(["workspaces"]));
    let network = schema["$defs"]["NetworkPolicy"].to_string();
    for form in [r#""restricted""#, r#""enabled""#, r#""host""#, r##""#/$defs/NetworkList""##] {
        assert!(network.contains(form), "{network}");
    }
    assert!(!network.contains(r#""List""#) && !network.contains(r#""list""#), "{network}");
    let references = schema.to_string().matches("\"$ref\"").count();
    assert!(references >= 6, "{references} references");
}

#[test]
fn a_file_may_name_its_schema_for_editors() {
    let text = r#"{"$schema": "./registry.schema.json", "workspaces": {}}"#;
    assert_eq!(Registry::from_json(text, &disk()).unwrap(), Registry::default());
}
