//! A table for a terminal or a file: columns as wide as what is in them shows, the last one cut to the terminal's width. On
//! a narrow terminal the columns that say least give way first.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::colour::{Paint, Tone};

/// Between two columns.
const GAP: usize = 2;
/// Columns give way until the last one has so much room.
const LAST_AT_LEAST: usize = 20;

/// A column's heading, and when it gives way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// The highest goes first; 0 never goes.
    pub(crate) dispensable: u8,
}

/// One cell, of one line and safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Cell {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

/// The lines of the table, each with its newline. `width` is the terminal's; `None`: nothing is cut.
pub(crate) fn lines<const N: usize>(
    columns: [Column; N],
    rows: &[[Cell; N]],
    width: Option<usize>,
    paint: Paint,
) -> Vec<String> {
    let heading = columns.map(|column| Cell { text: column.title.to_owned(), tone: Tone::Head });
    let all: Vec<&[Cell; N]> = std::iter::once(&heading).chain(rows).collect();
    let widest = |at: usize| all.iter().map(|row| row[at].text.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(widest).collect();
    let shown = shown(&columns, &widths, width);
    all.iter().map(|row| line(row.as_slice(), &shown, &widths, width, paint)).collect()
}

/// The columns that there is room for.
fn shown(columns: &[Column], widths: &[usize], width: Option<usize>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(width) = width else { return shown };
    loop {
        let before_last: usize = shown.iter().rev().skip(1).map(|at| widths[*at] + GAP).sum();
        let room = width.saturating_sub(before_last);
        let wanted = widths.last().copied().unwrap_or(0).min(LAST_AT_LEAST);
        let first = shown.iter().enumerate().max_by_key(|(_, at)| columns[**at].dispensable);
        match first {
            Some((place, at)) if room < wanted && columns[*at].dispensable > 0 => drop(shown.remove(place)),
            _ => return shown,
        }
    }
}

fn line(row: &[Cell], shown: &[usize], widths: &[usize], width: Option<usize>, paint: Paint) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (place, at) in shown.iter().enumerate() {
        let Cell { text, tone } = &row[*at];
        let last = place + 1 == shown.len();
        let text = match width {
            Some(width) if last => cut(text, width.saturating_sub(used)),
            _ => text.clone(),
        };
        line.push_str(&paint.paint(*tone, &text));
        if !last {
            line.push_str(&" ".repeat(widths[*at] - text.width() + GAP));
            used += widths[*at] + GAP;
        }
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// The text in at most so many columns; what was cut off is told by an ellipsis.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used < columns
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column { title: "ID", dispensable: 0 },
        Column { title: "SIZE", dispensable: 1 },
        Column { title: "COMMAND", dispensable: 0 },
    ];

    fn table(rows: &[[&str; 3]], width: Option<usize>) -> String {
        let rows: Vec<_> = rows.iter().map(|row| row.map(Cell::plain)).collect();
        lines(COLUMNS, &rows, width, Paint::never()).concat()
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen_and_not_by_characters() {
        let table = table(&[["한국", "1", "make"], ["ab\u{301}c", "22", "x"], ["five5", "", ""]], None);
        let column = |line: &str, of: &str| line.find(of).map(|at| line[..at].width());
        let at: Vec<_> = table.lines().zip(["COMMAND", "make", "x"]).map(|(line, of)| column(line, of)).collect();
        assert_eq!(at, [Some(13), Some(13), Some(13)], "{table}");
        assert!(table.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn the_last_column_is_cut_to_the_terminal_and_no_line_is_longer() {
        let long = "make -j4 ".repeat(20);
        for width in [40, 41, 100] {
            let table = table(
                &[["one", "1 B", &long], ["two", "2 B", "명령을 자른다 명령을 자른다 명령을 자른다"]],
                Some(width),
            );
            assert!(table.lines().all(|line| line.width() <= width), "{width}: {table}");
            assert_eq!(table.lines().count(), 3);
            assert!(table.contains('…'), "{table}");
        }
        assert!(!table(&[["one", "1 B", &long]], None).contains('…'));
    }

    #[test]
    fn on_a_narrow_terminal_what_says_least_gives_way() {
        let rows = [["a-long-id", "1.5 MiB", "make all of it and test"]];
        assert!(table(&rows, Some(60)).contains("SIZE"));
        let narrow = table(&rows, Some(32));
        assert!(!narrow.contains("SIZE") && narrow.contains("a-long-id") && narrow.contains("make"), "{narrow}");
        assert!(table(&rows, Some(1)).lines().count() == 2, "however narrow");
        assert!(table(&[["id", "1 B", "true"]], Some(20)).contains("SIZE"), "where all fits, all is shown");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let rows = [[Cell { text: "x".into(), tone: Tone::Alarm }, Cell::plain("1"), Cell::plain("y")]];
        let painted = lines(COLUMNS, &rows, Some(40), Paint::always()).concat();
        let plain = lines(COLUMNS, &rows, Some(40), Paint::never()).concat();
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
        assert_ne!(painted, plain);
    }

    #[test]
    fn a_cut_says_that_it_is_one() {
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("abcd", 1)), ("abc".into(), "ab…".into(), "…".into()));
        assert_eq!((cut("한국어", 5), cut("한국어", 4), cut("abc", 0)), ("한국…".into(), "한…".into(), String::new()));
    }
}
