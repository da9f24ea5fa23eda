//! JSON Schemas of the domain's types as MCP clients want them: one [`plain`] object, nothing to be looked up elsewhere.

use codespace_domain::RunnerError;
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::plain;

/// Of a tool's arguments.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    let mut schema = inlined::<T>(SchemaSettings::draft2020_12().for_deserialize());
    plain::arguments(&mut schema);
    schema
}

/// Of a tool's structured result: what it brings, or a refusal. Clients compare refusals with it as well, and one that does
/// not fit is an error of the server to them, whose words no model sees.
pub(super) fn output<T: JsonSchema>() -> JsonObject {
    let done = inlined::<T>(SchemaSettings::draft2020_12().for_serialize());
    let refusal = inlined::<RunnerError>(SchemaSettings::draft2020_12().for_serialize());
    let mut forms = match done.get("anyOf") {
        Some(Value::Array(several)) => several.clone(),
        _ => vec![Value::Object(done)],
    };
    forms.push(Value::Object(refusal));
    let mut schema = JsonObject::from_iter([("anyOf".to_owned(), Value::Array(forms))]);
    plain::result(&mut schema);
    schema
}

fn inlined<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = match Value::from(settings.into_generator().into_root_schema_for::<T>()) {
        Value::Object(schema) => schema,
        // `true`: anything.
        _ => JsonObject::new(),
    };
    schema.values_mut().for_each(without_references);
    schema
}

/// What is inlined leaves nothing to refer to; what still refers is only a closer description of what stands beside it.
fn without_references(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|_, member| !refers(member));
            members.values_mut().for_each(without_references);
        }
        Value::Array(items) => items.iter_mut().for_each(without_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(refers),
        Value::Object(members) => members.contains_key("$ref"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
