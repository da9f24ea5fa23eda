//! What a client is told about a workspace: not what was asked for, but what is really enforced on this host.

use codespace_domain::{
    Enforcement, ExecutionInfo, NetworkMode, RunnerError, WorkspaceInfo, WorkspaceInfoReply, WorkspaceInfoRequest,
};
use codespace_linux_sandbox_protocol::Engine;

use crate::{HostFacts, NetworkPolicy, Registry, SandboxChoice, Workspace, limits};

/// One workspace as the contract's `workspace_info` shows it.
pub fn workspace_info(workspace: &Workspace, host: &HostFacts) -> WorkspaceInfo {
    let engine_works = matches!(host.engine, Some(Engine::Bubblewrap { .. }));
    let sandbox = match workspace.sandbox {
        SandboxChoice::Auto | SandboxChoice::Bubblewrap if engine_works => Enforcement::Bubblewrap,
        // Where the engine is missing, commands are refused, not run without it.
        SandboxChoice::Auto | SandboxChoice::Bubblewrap | SandboxChoice::None => Enforcement::None,
    };
    let network = match workspace.sandbox {
        SandboxChoice::None => NetworkMode::Host,
        SandboxChoice::Auto | SandboxChoice::Bubblewrap => match workspace.network {
            NetworkPolicy::Restricted => NetworkMode::Restricted,
            // Told as asked for and not enforced: commands are refused.
            NetworkPolicy::Enabled => NetworkMode::Enabled,
            NetworkPolicy::List(_) => NetworkMode::AllowList,
            NetworkPolicy::Host => NetworkMode::Host,
        },
    };
    let restricted = network == NetworkMode::Restricted;
    WorkspaceInfo {
        root: workspace.root.clone().into(),
        profile: workspace.profile,
        execution: ExecutionInfo {
            sandbox,
            network,
            network_enforced: sandbox != Enforcement::None && restricted && host.network_enforced,
            limits: workspace.limits,
            timeout_ms: limits::timeout_ms(workspace.timeout_ms, None),
            max_timeout_ms: workspace.timeout_ms.max,
            max_processes: workspace.max_processes,
            exclusive: workspace.exclusive,
        },
    }
}

/// The answer to `workspace_info`: the workspace that was named, else all. `WORKSPACE_NOT_FOUND` names those there are.
pub fn workspace_info_reply(
    registry: &Registry,
    request: &WorkspaceInfoRequest,
    host: &HostFacts,
) -> Result<WorkspaceInfoReply, RunnerError> {
    match &request.workspace_id {
        Some(id) => Ok(WorkspaceInfoReply::One(Box::new(workspace_info(registry.find(id)?, host)))),
        None => {
            let all = registry.workspaces.iter();
            let workspaces = all.map(|(id, workspace)| (id.clone(), workspace_info(workspace, host))).collect();
            Ok(WorkspaceInfoReply::All { workspaces })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeDisk;

    fn registry() -> Registry {
        let text = r#"{"workspaces": {
            "demo": {"root": "/ws", "timeout_ms": {"max": 9}},
            "listed": {"root": "/ws", "network": {"allow": ["example.com"]}},
            "open": {"root": "/ws", "sandbox": "none"},
            "public": {"root": "/ws", "network": "enabled"}}}"#;
        Registry::from_json(text, &FakeDisk::debian().dir("/ws")).unwrap()
    }

    fn host(engine: bool) -> HostFacts {
        let engine = engine.then(|| Engine::Bubblewrap { program: "/usr/bin/bwrap".into() });
        HostFacts { network_enforced: engine.is_some(), engine, ..HostFacts::default() }
    }

    fn one(id: &str, engine: bool) -> WorkspaceInfo {
        let request = WorkspaceInfoRequest { workspace_id: Some(id.parse().unwrap()) };
        match workspace_info_reply(&registry(), &request, &host(engine)).unwrap() {
            WorkspaceInfoReply::One(info) => *info,
            WorkspaceInfoReply::All { .. } => panic!("one was asked for"),
        }
    }

    #[test]
    fn it_tells_what_is_enforced_and_not_what_was_asked_for() {
        let demo = one("demo", true);
        assert_eq!((demo.execution.sandbox, demo.execution.network_enforced), (Enforcement::Bubblewrap, true));
        assert_eq!((demo.execution.timeout_ms, demo.execution.max_timeout_ms), (Some(9), Some(9)));
        let demo = one("demo", false);
        assert_eq!((demo.execution.sandbox, demo.execution.network_enforced), (Enforcement::None, false));
        let open = one("open", true);
        assert_eq!((open.execution.sandbox, open.execution.network), (Enforcement::None, NetworkMode::Host));
    }

    #[test]
    fn a_network_that_this_version_cannot_enforce_is_told_as_not_enforced() {
        for (id, network) in [("public", NetworkMode::Enabled), ("listed", NetworkMode::AllowList)] {
            let execution = one(id, true).execution;
            assert_eq!((execution.network, execution.network_enforced), (network, false), "{id}");
        }
    }

    #[test]
    fn without_an_id_it_tells_all_and_an_unknown_one_is_refused() {
        let all = workspace_info_reply(&registry(), &WorkspaceInfoRequest::default(), &host(true)).unwrap();
        assert!(matches!(all, WorkspaceInfoReply::All { workspaces } if workspaces.len() == 4));
        let unknown = WorkspaceInfoRequest { workspace_id: Some("none".parse().unwrap()) };
        let error = workspace_info_reply(&registry(), &unknown, &host(true)).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("registered: demo, listed, open, public"));
    }
}
