//! `network`: what a command may reach, in each form that the registry has for it. Whether this version can enforce a form
//! is `unenforceable`'s.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// What a command may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// A loopback of its own and nothing else.
    #[default]
    Restricted,
    /// Public addresses. This version does not enforce it: a command does not run.
    Enabled,
    /// The host's network.
    Host,
    /// Listed names. This version does not enforce it: a command does not run.
    #[schemars(untagged)]
    List(NetworkList),
}

/// Names that a command may reach: `example.com`, `*.example.org` (not `example.org` itself), each also with a port, as
/// in `example.com:443`. `deny` wins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkList {
    /// What it reaches.
    #[serde(default)]
    pub allow: Vec<String>,
    /// And of that, what it does not.
    #[serde(default)]
    pub deny: Vec<String>,
}

impl NetworkList {
    /// The first entry that cannot be a name, with its key below `network`.
    pub(super) fn fault(&self) -> Option<(String, String)> {
        let indexed = |list, names: &'_ [String]| {
            let position = names.iter().position(|name| !may_be_a_name(name))?;
            let message = format!("{:?} is no name; one such as \"*.example.com:443\" expected", names[position]);
            Some((format!("{list}[{position}]"), message))
        };
        indexed("allow", &self.allow).or_else(|| indexed("deny", &self.deny))
    }
}

/// Finds what was surely not meant as a name; which names match is for who enforces the list.
fn may_be_a_name(name: &str) -> bool {
    let printable = name.chars().all(|c| !c.is_whitespace() && !c.is_control());
    !name.is_empty() && printable && !name.contains("://")
}

/// Written by hand because an untagged `derive` loses the path of the key that is wrong.
impl<'de> Deserialize<'de> for NetworkPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Forms)
    }
}

struct Forms;

const EXPECTED: &str = r#""restricted", "enabled", "host" or an object of allow and deny"#;

impl<'de> Visitor<'de> for Forms {
    type Value = NetworkPolicy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<NetworkPolicy, E> {
        match text {
            "restricted" => Ok(NetworkPolicy::Restricted),
            "enabled" => Ok(NetworkPolicy::Enabled),
            "host" => Ok(NetworkPolicy::Host),
            other => Err(E::custom(format_args!("{other:?} is no network; {EXPECTED} expected"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NetworkPolicy, A::Error> {
        NetworkList::deserialize(MapAccessDeserializer::new(map)).map(NetworkPolicy::List)
    }
}
