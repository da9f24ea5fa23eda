//! The registry file's outer form: its text made into workspaces with the path of a key in every error, its defaults,
//! and its published schema. Whether a workspace can be had on this host is `check`'s.

use std::collections::BTreeMap;

use codespace_domain::schema::bound_numbers;
use codespace_domain::{Profile, WorkspaceId};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::Value;

use super::{RegistryError, Workspace, strict_json};

/// The registry of a CodeSpace Runner: which directories are workspaces, and what a command may do in each.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Registry")]
struct RegistryFile {
    /// Where this file's schema is, for editors.
    #[serde(rename = "$schema", default)]
    #[expect(dead_code, reason = "accepted so that editors can use it, never read")]
    schema: Option<String>,
    /// The workspaces, by id: 1 to 128 letters, digits, `.`, `_` or `-`, the first a letter or digit.
    #[schemars(
        with = "BTreeMap<String, Workspace>",
        extend("propertyNames" = { "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" })
    )]
    workspaces: BTreeMap<WorkspaceId, Workspace>,
}

/// The JSON Schema of the registry file, draft 2020-12: `docs/schema/registry.json`.
pub fn registry_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize().with_transform(bound_numbers);
    settings.into_generator().into_root_schema_for::<RegistryFile>().to_value()
}

/// The workspaces of a registry's text, not yet checked against the disk.
pub(super) fn parse(text: &str) -> Result<BTreeMap<WorkspaceId, Workspace>, RegistryError> {
    let value = strict_json::parse(text)?;
    let file: RegistryFile = serde_path_to_error::deserialize(value).map_err(|e| {
        let key = match e.path().to_string() {
            whole if whole == "." => String::new(),
            key => key,
        };
        RegistryError::at(key, in_our_words(&e.into_inner().to_string()))
    })?;
    Ok(file.workspaces)
}

/// ``unknown field `reed`, expected one of `read`, `write` `` says the key again, which the path already names. A message
/// of another form is taken as it is.
fn in_our_words(message: &str) -> String {
    let Some((_, expected)) = message.strip_prefix("unknown field `").and_then(|m| m.split_once("`, expected ")) else {
        return message.to_owned();
    };
    let expected = expected.strip_prefix("one of ").unwrap_or(expected).replace('`', "").replace(" or ", ", ");
    format!("unknown key; one of {expected} expected")
}

pub(super) fn profile() -> Profile {
    Profile::WorkspaceWrite
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn max_processes() -> u64 {
    64
}
