//! Makes text of others safe to show: what a terminal would obey, and what nobody would see, is shown as an escape instead.
//! The page of `codespace-mcp` has the same set in its own language.

/// The text with control characters, and those that turn the direction of writing or cannot be seen, as escapes.
pub fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if needs_escape(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// One argument of a command as a shell would take it, then escaped.
pub fn argument(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", escape(&text.replace('\'', r"'\''")))
}

/// Whether a character is never shown as it is.
pub fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let nasty = "a\u{1b}[2Jb\rc\nd\u{7f}\u{9b}31m\u{202e}e\u{200b}";
        let shown = escape(nasty);
        assert!(!shown.chars().any(needs_escape), "{shown:?}");
        assert!(shown.contains(r"\u{1b}[2J") && shown.contains(r"\r") && shown.contains(r"\n"));
    }

    #[test]
    fn letters_of_any_script_stay_as_they_are() {
        assert_eq!(escape("한국어 é ✓ \\"), "한국어 é ✓ \\");
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_needs_it() {
        assert_eq!(argument("--jobs=4"), "--jobs=4");
        assert_eq!(argument(""), "''");
        assert_eq!(argument("a b"), "'a b'");
        assert_eq!(argument("it's"), r"'it'\''s'");
        assert_eq!(argument("\u{1b}c"), r"'\u{1b}c'");
    }
}
