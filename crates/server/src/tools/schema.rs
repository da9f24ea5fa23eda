//! JSON Schemas as MCP clients want them: one object, nothing to be looked up elsewhere.

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Of a tool's arguments.
pub(super) fn input<T: JsonSchema>() -> JsonObject {
    object::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// Of a tool's structured result.
pub(super) fn output<T: JsonSchema>() -> JsonObject {
    object::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn object<T: JsonSchema>(settings: SchemaSettings) -> JsonObject {
    let inlined = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = match Value::from(inlined.into_generator().into_root_schema_for::<T>()) {
        Value::Object(schema) => schema,
        // `true`: anything.
        _ => JsonObject::new(),
    };
    schema.values_mut().for_each(without_references);
    schema.remove("$schema");
    schema.remove("title");
    // What is one of several objects is an object too, and clients look for just that word.
    schema.insert("type".to_owned(), json!("object"));
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
