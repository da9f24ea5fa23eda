//! JSON Schema where a derived one would say less than the types hold: what is read through a `try_from` or by hand, and
//! the bounds of numbers. Everything else derives its own. Knows no method and no message.

use std::borrow::Cow;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{ByteString, ProcessId, ProcessKey, WorkspaceId};

/// Base64 as it is read: the standard alphabet, padded, with no bit set that carries nothing.
pub const BASE64: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

impl JsonSchema for ByteString {
    fn schema_name() -> Cow<'static, str> {
        "ByteString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes that are usually text: an argument, an environment value, a path. A plain string where \
                they are UTF-8, else base64. None of them may be 0, in either form.",
            "anyOf": [
                { "type": "string", "pattern": "^[^\\u0000]*$" },
                {
                    "type": "object",
                    "properties": { "base64": { "type": "string", "pattern": BASE64 } },
                    "required": ["base64"],
                    "maxProperties": 1
                }
            ]
        })
    }
}

impl JsonSchema for ProcessId {
    fn schema_name() -> Cow<'static, str> {
        "ProcessId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Names one process for as long as the Runner keeps it: `proc-` and a UUID version 4 in lower \
                case, minted by the Runner.",
            "type": "string",
            "pattern": "^proc-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
        })
    }
}

impl JsonSchema for WorkspaceId {
    fn schema_name() -> Cow<'static, str> {
        "WorkspaceId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Names a directory that the operator registered: 1 to 128 letters, digits, `.`, `_` or `-`, \
                the first a letter or digit.",
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
        })
    }
}

impl JsonSchema for ProcessKey {
    fn schema_name() -> Cow<'static, str> {
        "ProcessKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A client's own name for a start: 1 to 256 bytes of text (a character outside ASCII has \
                several), unique per workspace for as long as its process is kept.",
            "type": "string",
            "minLength": 1,
            "maxLength": 256
        })
    }
}

/// The bounds of whole numbers as bounds: the formats that say them otherwise (`uint64`, ...) are known to few validators.
pub fn bound_numbers(schema: &mut Schema) {
    if let Some(bounds) = schema.get("format").and_then(|format| format.as_str()).and_then(bounds) {
        schema.remove("format");
        for (name, bound) in bounds {
            if schema.get(name).is_none() {
                schema.insert(name.to_owned(), bound);
            }
        }
    }
    transform_subschemas(&mut bound_numbers, schema);
}

fn bounds<N: From<i32> + From<u64>>(format: &str) -> Option<[(&'static str, N); 2]> {
    let (least, most) = match format {
        "uint16" => (0, N::from(u64::from(u16::MAX))),
        "uint32" => (0, N::from(u64::from(u32::MAX))),
        "uint64" => (0, N::from(u64::MAX)),
        "int32" => (i32::MIN, N::from(i32::MAX)),
        _ => return None,
    };
    Some([("minimum", N::from(least)), ("maximum", most)])
}
