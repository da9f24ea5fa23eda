//! Turns a schema into one that every client can hand to its model: objects, single types, enums and descriptions.
//!
//! The APIs of models know only parts of JSON Schema, and some refuse a whole list of tools for one word that they do not
//! know: a combinator at the top, a list of types, a format of their own invention. What is said here is therefore simpler
//! than what the Runner takes and never allows what it refuses to read; the Runner checks every argument itself.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// Words that only narrow a value further. What breaks them is refused by the Runner, with a hint.
const NARROWING: [&str; 7] = ["pattern", "propertyNames", "maxProperties", "if", "then", "else", "$schema"];

/// Of arguments: beside the rest, where something can be said in several forms the first and simplest one is named.
pub(super) fn arguments(schema: &mut JsonObject) {
    // Which of them belong together is told in the descriptions.
    schema.remove("oneOf");
    shape(schema, Side::Arguments);
    top(schema);
}

/// Of results: every form that may come is allowed.
pub(super) fn result(schema: &mut JsonObject) {
    merge_alternatives(schema);
    shape(schema, Side::Result);
    top(schema);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Arguments,
    Result,
}

/// The name of a request type means nothing to a client.
fn top(schema: &mut JsonObject) {
    schema.remove("title");
    schema.remove("description");
    schema.insert("type".to_owned(), json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
}

/// Several objects at the top become one with the members of all. Beside it stands which of them come together.
fn merge_alternatives(schema: &mut JsonObject) {
    let Some(Value::Array(alternatives)) = schema.remove("anyOf") else { return };
    let mut properties = JsonObject::new();
    let mut together = Vec::new();
    for mut alternative in alternatives {
        if let Value::Object(own) = alternative["properties"].take() {
            // The first one's words for what several have.
            for (name, member) in own {
                properties.entry(name).or_insert(member);
            }
        }
        let required = alternative["required"].as_array().cloned().unwrap_or_default();
        together.push(json!({"required": required}));
    }
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("anyOf".to_owned(), Value::Array(together));
}

/// One schema and everything below it.
fn shape(schema: &mut JsonObject, side: Side) {
    one_of_few(schema, side);
    without_null(schema);
    constants_as_enum(schema, side);
    schema.retain(|word, _| !NARROWING.contains(&word.as_str()));
    // The widths of integers are the Rust types'; the bounds stand beside them.
    if schema.get("format").and_then(Value::as_str) != Some("date-time") || side == Side::Arguments {
        schema.remove("format");
    }
    if let Some(Value::Object(patterns)) = schema.remove("patternProperties")
        && let Some((_, values)) = patterns.into_iter().next()
    {
        schema.insert("additionalProperties".to_owned(), values);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(|inner| shape(inner, side));
    }
    for word in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(word) {
            // The list or map itself says what is in it.
            inner.remove("description");
            shape(inner, side);
            // Also what came up from one of its forms, which speaks of the others.
            if side == Side::Arguments {
                inner.remove("description");
            }
        }
    }
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.iter_mut().filter_map(Value::as_object_mut).for_each(|inner| shape(inner, side));
    }
}

/// `anyOf` with one left is that one; of several forms of an argument the first is named. The outer words stay.
fn one_of_few(schema: &mut JsonObject, side: Side) {
    while let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative["type"] != "null");
        if alternatives.len() > 1 && side == Side::Result {
            return;
        }
        let Some(Value::Object(only)) = alternatives.first().cloned() else { return };
        schema.remove("anyOf");
        for (word, value) in only {
            schema.entry(word).or_insert(value);
        }
    }
}

/// What may be left out is left out, and never sent as null.
fn without_null(schema: &mut JsonObject) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// A closed list whose members are described one by one becomes an `enum`. Of arguments, the words go into the description;
/// who reads results knows the protocol or reads the words beside them.
fn constants_as_enum(schema: &mut JsonObject, side: Side) {
    let Some(Value::Array(members)) = schema.get("oneOf") else { return };
    let Some(values) = members.iter().map(|member| member.get("const").cloned()).collect::<Option<Vec<_>>>() else {
        return;
    };
    if side == Side::Arguments {
        let before = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        let words = members
            .iter()
            .filter_map(|member| Some(format!("`{}`: {}", member["const"].as_str()?, member["description"].as_str()?)));
        let description = before.into_iter().chain(words).collect::<Vec<_>>().join(" ");
        schema.insert("description".to_owned(), json!(description));
    }
    schema.remove("oneOf");
    schema.insert("type".to_owned(), json!("string"));
    schema.insert("enum".to_owned(), Value::Array(values));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn arguments_keep_the_simplest_form_of_everything() {
        let mut schema = object(json!({
            "description": "Params of `x`.",
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            "properties": {
                "a": {"type": ["integer", "null"], "format": "uint64", "minimum": 0, "default": null},
                "b": {"description": "outer", "anyOf": [
                    {"description": "inner", "anyOf": [{"type": "string", "pattern": "x"}, {"type": "object"}]},
                    {"type": "null"}
                ]},
                "c": {"description": "Whether.", "default": "end", "oneOf": [
                    {"const": "end", "type": "string", "description": "It ends."},
                    {"const": "keep", "type": "string", "description": "It goes on."}
                ]},
                "d": {"type": ["string", "null"], "enum": ["x", null]}
            }
        }));
        arguments(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 0},
                "b": {"description": "outer", "type": "string"},
                "c": {
                    "description": "Whether. `end`: It ends. `keep`: It goes on.", "default": "end",
                    "type": "string", "enum": ["end", "keep"]
                },
                "d": {"type": "string", "enum": ["x"]}
            }
        });
        assert_eq!(Value::Object(schema), expected);
    }

    #[test]
    fn a_result_that_is_one_of_several_objects_is_one_with_the_members_of_all() {
        let mut schema = object(json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}, "c": {"type": "string"}}, "required": ["a", "c"]},
            {"type": "object", "properties": {"b": {"type": "object", "patternProperties": {"^x$": {"type": "string"}},
                "additionalProperties": false}, "c": {"type": "integer"}}, "required": ["b"]}
        ]}));
        result(&mut schema);
        let b = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let expected = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": b, "c": {"type": "string"}},
            "anyOf": [{"required": ["a", "c"]}, {"required": ["b"]}]
        });
        assert_eq!(Value::Object(schema), expected);
    }

    #[test]
    fn a_result_allows_every_form_that_may_come() {
        let word = json!({"anyOf": [{"type": "string", "pattern": "x"}, {"type": "object", "maxProperties": 1}]});
        let mut schema = object(json!({"properties": {"command": {"type": "array", "items": word}}}));
        result(&mut schema);
        assert_eq!(
            schema["properties"]["command"]["items"],
            json!({"anyOf": [{"type": "string"}, {"type": "object"}]})
        );
    }
}
