//! What is kept of the output, and what a read gets of it. Pure state: no lock, no waiting, no encoding.
//!
//! ```text
//! combined:  |== head ==|........ gone ........|====== latest ======|
//!            0       head_end            retained_from            total
//! ```
//!
//! The head always stays. The latest bytes are exactly the last `output_bytes`, so nothing is gone, and head and latest
//! overlap, while the output is short. Under [`OnFull::Wait`] bytes that nobody has been given are not dropped
//! either; the journal's `room` keeps the pumps from bringing too many, and [`OVERRUN`] bounds what comes regardless.

use codespace_domain::{OnFull, Stream, StreamSelection};

use super::lane::Lane;
use super::order::{Order, Position};
use super::text;

/// How much of the beginning is always kept.
pub(super) const HEAD_BYTES: u64 = 64 * 1024;
/// How far unread bytes may exceed the budget under [`OnFull::Wait`]. A drain ignores the budget, and what two full
/// pipes hold must survive it (an unprivileged command may make a pipe 1 MiB); bytes that somebody outside of the
/// tree adds meanwhile must not grow memory without end.
pub(super) const OVERRUN: u64 = 2 * 1024 * 1024;
/// The least budget under [`OnFull::Wait`]: each label may end with up to 3 bytes of a character, which a reader of
/// text leaves until the next byte. With less room the reader would wait for the command, and the command for it.
const LEAST_BUDGET: u64 = 7;

/// The sizes that memory comes in. Tests use small ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) head_bytes: u64,
    pub(super) slab_bytes: usize,
    pub(super) block_bytes: u16,
    /// How far unread bytes may exceed the budget under [`OnFull::Wait`].
    pub(super) overrun: u64,
}

impl Sizes {
    pub(super) const DEFAULT: Self =
        Self { head_bytes: HEAD_BYTES, slab_bytes: 64 * 1024, block_bytes: u16::MAX, overrun: OVERRUN };
}

/// What a read asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) selection: StreamSelection,
    /// At most the selection's total.
    pub(super) cursor: u64,
    pub(super) max_bytes: u64,
    /// Leave a character that is cut at the end, while more may come.
    pub(super) whole_characters: bool,
    /// No more bytes will come.
    pub(super) closed: bool,
}

/// What a read gets.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(super) struct Slice {
    pub(super) bytes: Vec<u8>,
    /// Where the next read goes on.
    pub(super) cursor: u64,
    /// Bytes before these were skipped, because they are gone.
    pub(super) lost: bool,
}

/// How far a selection reaches, in its own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where the head ends.
    head_end: u64,
    /// Where the bytes after the head that are still kept begin.
    tail_start: u64,
    /// Where the latest bytes begin; may lie within the head.
    pub(super) retained_from: u64,
    /// How many there ever were.
    pub(super) total: u64,
}

impl Extent {
    /// `offset`, or the first byte after the gap if there is a gap at or after it.
    pub(super) fn latest_from(self, offset: u64) -> u64 {
        if self.head_end < self.tail_start { offset.max(self.tail_start) } else { offset }
    }
}

/// The kept bytes of one process.
pub(super) struct Kept {
    output_bytes: u64,
    on_full: OnFull,
    sizes: Sizes,
    head: Order,
    tail: Order,
    stdout: Lane,
    stderr: Lane,
    retained_from: u64,
    /// Per label, how far any reader has been given.
    given: Given,
}

#[derive(Default)]
struct Given {
    stdout: u64,
    stderr: u64,
}

impl Kept {
    pub(super) fn new(output_bytes: u64, on_full: OnFull, sizes: Sizes) -> Self {
        Self {
            output_bytes,
            on_full,
            sizes: Sizes { head_bytes: sizes.head_bytes.min(output_bytes), ..sizes },
            head: Order::new(sizes.block_bytes),
            tail: Order::new(sizes.block_bytes),
            stdout: Lane::new(sizes.slab_bytes),
            stderr: Lane::new(sizes.slab_bytes),
            retained_from: 0,
            given: Given::default(),
        }
    }

    /// Adds bytes and drops what no longer fits.
    pub(super) fn append(&mut self, stream: Stream, bytes: &[u8]) {
        let head_room = self.sizes.head_bytes - self.head.end().combined;
        let (head, tail) = bytes.split_at(head_room.min(bytes.len() as u64) as usize);
        if !head.is_empty() {
            let limit = self.sizes.head_bytes as usize;
            self.lane_mut(stream).push_head(head, limit);
            self.head.push(stream, head.len() as u64);
            self.tail.skip(stream, head.len() as u64);
        }
        // In pieces, so that a large append never needs more memory than what is kept and one piece.
        for piece in tail.chunks(self.sizes.slab_bytes) {
            self.lane_mut(stream).push_tail(piece);
            self.tail.push(stream, piece.len() as u64);
            self.trim();
        }
        self.trim();
    }

    /// What there is for a selection.
    pub(super) fn extent(&self, selection: StreamSelection) -> Extent {
        match label(selection) {
            None => Extent {
                head_end: self.head.end().combined,
                tail_start: self.tail.start().combined,
                retained_from: self.retained_from,
                total: self.tail.end().combined,
            },
            Some(stream) => {
                let lane = self.lane(stream);
                // Usually both are the same place; earlier, under `Wait`, where a label has unread bytes that the
                // combined stream has dropped.
                let retained_from = self.position_at(self.retained_from).of(stream).min(lane.start());
                Extent { head_end: lane.head_end(), tail_start: lane.start(), retained_from, total: lane.end() }
            }
        }
    }

    /// The bytes for a read, which count as given from then on. Bytes on two sides of a gap are never in one slice. Of a
    /// character that the gap has cut, a reader of text gets neither side: the rest of it is gone.
    pub(super) fn read(&mut self, wanted: &Wanted) -> Slice {
        let (slice, _) = self.look(wanted);
        self.give(wanted.selection, slice.cursor);
        slice
    }

    /// As [`Kept::read`], but nothing counts as given.
    pub(super) fn peek(&self, wanted: &Wanted) -> Slice {
        self.look(wanted).0
    }

    /// As [`Kept::read`], by somebody who looks at the end alone: what was skipped for that counts as read by nobody.
    pub(super) fn read_tail(&mut self, wanted: &Wanted) -> Slice {
        let (slice, begin) = self.look(wanted);
        let (stdout, stderr) = self.labels_at(wanted.selection, begin);
        if stdout <= self.given.stdout && stderr <= self.given.stderr {
            self.give(wanted.selection, slice.cursor);
        }
        slice
    }

    /// As [`Kept::read`] of both labels, but only the bytes of one label that follow each other, and which one it is.
    pub(super) fn read_one_label(&mut self, wanted: &Wanted) -> (Slice, Option<Stream>) {
        // A character more than they probably are, so that little is copied in vain where the labels take turns.
        let probably =
            self.bytes_of_one_label(wanted.cursor, wanted.max_bytes).map_or(wanted.max_bytes, |(_, len)| len);
        let max_bytes = wanted.max_bytes.min(probably + 2 * (text::LONGEST_BEGINNING as u64 + 1));
        let (mut slice, begin) = self.look(&Wanted { max_bytes, ..*wanted });
        let label = self.bytes_of_one_label(begin, slice.bytes.len() as u64).map(|(stream, len)| {
            if len < slice.bytes.len() as u64 {
                slice.bytes.truncate(len as usize);
                slice.cursor = begin + len;
            }
            stream
        });
        self.give(wanted.selection, slice.cursor);
        (slice, label)
    }

    /// The bytes for a read, and where they begin.
    fn look(&self, wanted: &Wanted) -> (Slice, u64) {
        let extent = self.extent(wanted.selection);
        let has_gap = extent.head_end < extent.tail_start;
        if has_gap && wanted.cursor < extent.head_end {
            let to = wanted.cursor.saturating_add(wanted.max_bytes).min(extent.head_end);
            let mut bytes = self.copy(wanted.selection, wanted.cursor, to);
            cut_at_end(&mut bytes, wanted.whole_characters);
            let reaches_gap = to == extent.head_end;
            if !(bytes.is_empty() && reaches_gap) {
                let cursor = if reaches_gap { to } else { wanted.cursor + bytes.len() as u64 };
                return (Slice { bytes, cursor, lost: false }, wanted.cursor);
            }
        }
        let behind_gap = has_gap && wanted.cursor <= extent.tail_start;
        let lost = behind_gap && wanted.cursor < extent.tail_start;
        let mut from = if behind_gap { extent.tail_start } else { wanted.cursor };
        if behind_gap && wanted.whole_characters {
            let to = extent.total.min(from + text::LONGEST_BEGINNING as u64 + 1);
            from += text::rest(&self.copy(wanted.selection, from, to)) as u64;
        }
        let to = from.saturating_add(wanted.max_bytes).min(extent.total);
        let mut bytes = self.copy(wanted.selection, from, to);
        let is_end = wanted.closed && to == extent.total;
        cut_at_end(&mut bytes, wanted.whole_characters && !is_end);
        let cursor = from + bytes.len() as u64;
        (Slice { bytes, cursor, lost }, from)
    }

    /// The label of the byte at `from`, and how many bytes from there on have it, counted up to `most`. `None` where there
    /// is no such byte, or it is gone.
    fn bytes_of_one_label(&self, from: u64, most: u64) -> Option<(Stream, u64)> {
        let head_end = self.head.end().combined;
        let in_head = (from < head_end).then(|| self.head.runs_from(from)).into_iter().flatten();
        let follows_head = self.tail.start().combined.max(head_end) <= from.max(head_end);
        let in_tail = follows_head.then(|| self.tail.runs_from(from.max(head_end))).into_iter().flatten();
        let mut found: Option<(Stream, u64)> = None;
        for run in in_head.chain(in_tail) {
            match &mut found {
                None => found = Some((run.stream, run.len)),
                Some((stream, len)) if *stream == run.stream && *len < most => *len += run.len,
                Some(_) => break,
            }
        }
        found.map(|(stream, len)| (stream, len.min(most)))
    }

    /// Where the character ends that `offset` lies within; `offset` itself where it lies within none.
    pub(super) fn character_end(&self, selection: StreamSelection, offset: u64) -> u64 {
        let extent = self.extent(selection);
        let has_gap = extent.head_end < extent.tail_start;
        let kept_from = if has_gap && offset >= extent.tail_start { extent.tail_start } else { 0 };
        let longest = text::LONGEST_BEGINNING as u64;
        let from = offset.saturating_sub(longest).max(kept_from);
        let to = offset.saturating_add(longest).min(extent.total);
        let bytes = self.copy(selection, from, to.max(offset));
        offset + text::rest_of_character_at(&bytes, (offset - from) as usize) as u64
    }

    /// How many bytes may still come before those that nobody has been given fill the budget.
    pub(super) fn room(&self) -> u64 {
        match self.on_full {
            OnFull::Drop => u64::MAX,
            OnFull::Wait => {
                let unread = (self.stdout.end() - self.given.stdout) + (self.stderr.end() - self.given.stderr);
                self.output_bytes.max(LEAST_BUDGET).saturating_sub(unread)
            }
        }
    }

    fn trim(&mut self) {
        let total = self.tail.end().combined;
        let latest = total.saturating_sub(self.output_bytes);
        let most = self.output_bytes.saturating_add(self.sizes.overrun);
        let from = match self.on_full {
            OnFull::Drop => latest,
            OnFull::Wait => latest.min(self.oldest_unread()).max(total.saturating_sub(most)),
        };
        self.retained_from = self.retained_from.max(from);
        self.tail.trim_to(self.retained_from);

        let start = self.tail.start();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let keep = match self.on_full {
                OnFull::Drop => start.of(stream),
                // One label's reader may be far ahead of the other's: what is unread stays for its own label, even
                // where the combined stream moved on.
                OnFull::Wait => {
                    let floor = self.lane(stream).end().saturating_sub(most);
                    start.of(stream).min(self.given(stream)).max(floor)
                }
            };
            self.lane_mut(stream).trim_to(keep);
        }
    }

    /// The combined offset of the first byte in the tail that nobody has been given.
    fn oldest_unread(&self) -> u64 {
        let first = |stream| {
            let next = self.given(stream).max(self.tail.start().of(stream));
            self.tail.combined_of(stream, next)
        };
        first(Stream::Stdout).min(first(Stream::Stderr))
    }

    fn copy(&self, selection: StreamSelection, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((to - from) as usize);
        if let Some(stream) = label(selection) {
            self.lane(stream).copy(from, to, &mut bytes);
            return bytes;
        }
        let head_end = self.head.end().combined;
        let parts = [(&self.head, from, to.min(head_end)), (&self.tail, from.max(head_end), to)];
        for (order, from, to) in parts {
            if from >= to {
                continue;
            }
            let mut left = to - from;
            for run in order.runs_from(from) {
                let len = run.len.min(left);
                self.lane(run.stream).copy(run.from, run.from + len, &mut bytes);
                left -= len;
                if left == 0 {
                    break;
                }
            }
        }
        bytes
    }

    /// How far the selection's `cursor` is in each label; 0 in one that was not selected.
    fn labels_at(&self, selection: StreamSelection, cursor: u64) -> (u64, u64) {
        match selection {
            StreamSelection::Stdout => (cursor, 0),
            StreamSelection::Stderr => (0, cursor),
            StreamSelection::Combined => {
                let position = self.position_at(cursor);
                (position.of(Stream::Stdout), position.of(Stream::Stderr))
            }
        }
    }

    fn give(&mut self, selection: StreamSelection, cursor: u64) {
        let (stdout, stderr) = self.labels_at(selection, cursor);
        self.given.stdout = self.given.stdout.max(stdout);
        self.given.stderr = self.given.stderr.max(stderr);
    }

    fn given(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.given.stdout,
            Stream::Stderr => self.given.stderr,
        }
    }

    fn position_at(&self, combined: u64) -> Position {
        // The end of the head is known to the head even where the tail has forgotten it.
        if combined <= self.head.end().combined {
            self.head.position_at(combined)
        } else {
            self.tail.position_at(combined)
        }
    }

    fn lane(&self, stream: Stream) -> &Lane {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    fn lane_mut(&mut self, stream: Stream) -> &mut Lane {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.head.allocated() + self.tail.allocated() + self.stdout.allocated() + self.stderr.allocated()
    }
}

/// Leaves out the beginning of a character at the end.
fn cut_at_end(bytes: &mut Vec<u8>, whole_characters: bool) {
    if whole_characters {
        bytes.truncate(bytes.len() - text::unfinished(bytes));
    }
}

fn label(selection: StreamSelection) -> Option<Stream> {
    match selection {
        StreamSelection::Combined => None,
        StreamSelection::Stdout => Some(Stream::Stdout),
        StreamSelection::Stderr => Some(Stream::Stderr),
    }
}

#[cfg(test)]
mod tests;
