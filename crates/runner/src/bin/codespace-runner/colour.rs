//! A little colour where a terminal shows our output. Never where `NO_COLOR` is set and not empty, where `TERM` is `dumb`, or
//! where there is no terminal; `CLICOLOR_FORCE` asks for it without one. Colours what is said, decides nothing.

use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Under way.
    Live,
    /// Ended, but not well.
    Bad,
    /// What somebody should look at.
    Alarm,
    /// Advice.
    Hint,
    /// A heading.
    Head,
}

/// Whether a stream is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Of what goes to stdout.
    pub(crate) fn of_stdout() -> Self {
        Self(AutoStream::choice(&io::stdout()) != ColorChoice::Never)
    }

    /// Of what goes to stderr.
    pub(crate) fn of_stderr() -> Self {
        Self(AutoStream::choice(&io::stderr()) != ColorChoice::Never)
    }

    /// No colour.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self(false)
    }

    #[cfg(test)]
    pub(crate) fn always() -> Self {
        Self(true)
    }

    /// The text, which is safe to show, in the tone's colour.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Plain => Style::new(),
            Tone::Live => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Yellow.on_default(),
            Tone::Alarm => AnsiColor::Red.on_default().bold(),
            Tone::Hint => AnsiColor::Cyan.on_default(),
            Tone::Head => Style::new().bold(),
        };
        match self.0 && tone != Tone::Plain && !text.is_empty() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// Before anything is printed. The libraries colour a dumb terminal when `CLICOLOR` or a CI asks for it; we do not.
pub(crate) fn settle() {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    if dumb && !forced {
        ColorChoice::Never.write_global();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_the_text_stays_as_it_is() {
        assert_eq!(Paint::never().paint(Tone::Alarm, "x"), "x");
        assert_eq!(Paint::always().paint(Tone::Plain, "x"), "x");
        let red = Paint::always().paint(Tone::Alarm, "x");
        assert!(red.starts_with('\u{1b}') && red.ends_with("x\u{1b}[0m"), "{red:?}");
    }
}
