//! The order in which the bytes of the two labels came: which label each byte of the combined stream has.
//!
//! Owns no output byte. Bytes of one label that came one after another are a run, however many appends brought them;
//! runs are kept in blocks that a binary search finds, 4 bytes for each run.

use std::collections::VecDeque;

use codespace_domain::Stream;

/// A place in the output, counted in each of the three ways at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    /// Bytes of both labels before this place.
    pub(super) combined: u64,
    /// Bytes of stdout before this place.
    pub(super) stdout: u64,
}

impl Position {
    /// Bytes of `stream` before this place.
    pub(super) fn of(self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.combined - self.stdout,
        }
    }

    fn after(self, stream: Stream, len: u64) -> Self {
        let stdout = match stream {
            Stream::Stdout => len,
            Stream::Stderr => 0,
        };
        Self { combined: self.combined + len, stdout: self.stdout + stdout }
    }
}

/// Bytes of one label that follow each other in the combined stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The label.
    pub(super) stream: Stream,
    /// Where the run begins, in that label's bytes.
    pub(super) from: u64,
    /// How many bytes, at least 1.
    pub(super) len: u64,
}

/// The runs from one place to another. Grows at its end, is trimmed at its start.
#[derive(Debug)]
pub(super) struct Order {
    start: Position,
    end: Position,
    block_bytes: u16,
    blocks: VecDeque<Block>,
}

/// Consecutive runs, at most `block_bytes` bytes of output.
#[derive(Debug)]
struct Block {
    start: Position,
    marks: Vec<Mark>,
}

/// The end of a run, relative to its block. Two neighbours in a block never have the same label.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    combined: u16,
    stdout: u16,
}

impl Mark {
    fn of(self, stream: Stream) -> u64 {
        u64::from(match stream {
            Stream::Stdout => self.stdout,
            Stream::Stderr => self.combined - self.stdout,
        })
    }
}

impl Order {
    /// An empty order at the very beginning; `block_bytes` is at least 1.
    pub(super) fn new(block_bytes: u16) -> Self {
        Self { start: Position::default(), end: Position::default(), block_bytes, blocks: VecDeque::new() }
    }

    /// The first place that is still known.
    pub(super) fn start(&self) -> Position {
        self.start
    }

    /// The place after the last byte.
    pub(super) fn end(&self) -> Position {
        self.end
    }

    /// Moves an order that is still empty past bytes that are kept elsewhere.
    pub(super) fn skip(&mut self, stream: Stream, len: u64) {
        debug_assert!(self.blocks.is_empty(), "only an empty order can be moved");
        self.end = self.end.after(stream, len);
        self.start = self.end;
    }

    /// Notes `len` more bytes of `stream`.
    pub(super) fn push(&mut self, stream: Stream, len: u64) {
        let mut left = len;
        while left > 0 {
            let used = self.blocks.back().map(|block| self.end.combined - block.start.combined);
            let room = match used {
                Some(used) if used < u64::from(self.block_bytes) => u64::from(self.block_bytes) - used,
                Some(_) | None => {
                    if let Some(full) = self.blocks.back_mut() {
                        full.marks.shrink_to_fit();
                    }
                    self.blocks.push_back(Block { start: self.end, marks: Vec::new() });
                    u64::from(self.block_bytes)
                }
            };
            let len = left.min(room);
            self.end = self.end.after(stream, len);
            if let Some(block) = self.blocks.back_mut() {
                block.extend_to(self.end, stream);
            }
            left -= len;
        }
    }

    /// Forgets what lies before `combined`. A place that is forgotten already changes nothing.
    pub(super) fn trim_to(&mut self, combined: u64) {
        if combined <= self.start.combined {
            return;
        }
        self.start = self.position_at(combined.min(self.end.combined));
        while !self.blocks.is_empty() {
            let end = self.blocks.get(1).map_or(self.end, |next| next.start);
            if end.combined > self.start.combined {
                break;
            }
            self.blocks.pop_front();
        }
    }

    /// The place `combined`, which lies between start and end.
    pub(super) fn position_at(&self, combined: u64) -> Position {
        debug_assert!((self.start.combined..=self.end.combined).contains(&combined), "a place that is known");
        if combined == self.end.combined {
            return self.end;
        }
        let index = self.blocks.partition_point(|block| block.start.combined <= combined);
        let Some(block) = index.checked_sub(1).and_then(|index| self.blocks.get(index)) else {
            return self.start;
        };
        let offset = combined - block.start.combined;
        let mark = block.marks.partition_point(|mark| u64::from(mark.combined) <= offset);
        let (before, stream) = block.run(mark);
        block
            .start
            .after(Stream::Stdout, u64::from(before.stdout))
            .after(Stream::Stderr, before.of(Stream::Stderr))
            .after(stream, offset - u64::from(before.combined))
    }

    /// The combined offset of byte `count` of `stream`: the start if it is forgotten, the end if it has not come.
    pub(super) fn combined_of(&self, stream: Stream, count: u64) -> u64 {
        if count >= self.end.of(stream) {
            return self.end.combined;
        }
        // The last block that begins at or before the byte holds it: the next one begins after it.
        let index = self.blocks.partition_point(|block| block.start.of(stream) <= count);
        let Some(block) = index.checked_sub(1).and_then(|index| self.blocks.get(index)) else {
            return self.start.combined;
        };
        let offset = count - block.start.of(stream);
        let mark = block.marks.partition_point(|mark| mark.of(stream) <= offset);
        let (before, _) = block.run(mark);
        let combined = block.start.combined + u64::from(before.combined) + (offset - before.of(stream));
        combined.max(self.start.combined)
    }

    /// The runs from `combined` to the end; the first may begin inside of one.
    pub(super) fn runs_from(&self, combined: u64) -> impl Iterator<Item = Run> + '_ {
        let index = self.blocks.partition_point(|block| block.start.combined <= combined).saturating_sub(1);
        let skipped = self.blocks.get(index).map_or(0, |block| {
            let offset = combined - block.start.combined;
            block.marks.partition_point(|mark| u64::from(mark.combined) <= offset)
        });
        let marks = self.blocks.range(index.min(self.blocks.len())..).enumerate().flat_map(move |(nth, block)| {
            let first = if nth == 0 { skipped } else { 0 };
            (first..block.marks.len()).map(move |mark| (block, mark))
        });
        marks.map(move |(block, mark)| {
            let (before, stream) = block.run(mark);
            let begin = block.start.combined + u64::from(before.combined);
            let end = block.start.combined + u64::from(block.marks[mark].combined);
            let cut = combined.saturating_sub(begin);
            Run { stream, from: block.start.of(stream) + before.of(stream) + cut, len: end - begin - cut }
        })
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let marks: usize = self.blocks.iter().map(|block| block.marks.capacity()).sum();
        marks * size_of::<Mark>() + self.blocks.capacity() * size_of::<Block>()
    }
}

impl Block {
    /// The place before run `index`, relative to the block, and the run's label.
    fn run(&self, index: usize) -> (Mark, Stream) {
        let before = index.checked_sub(1).map_or(Mark::default(), |previous| self.marks[previous]);
        let stream = if self.marks[index].stdout > before.stdout { Stream::Stdout } else { Stream::Stderr };
        (before, stream)
    }

    fn extend_to(&mut self, end: Position, stream: Stream) {
        // A block never holds more than `u16::MAX` bytes, so the differences fit.
        let mark = Mark {
            combined: (end.combined - self.start.combined) as u16,
            stdout: (end.stdout - self.start.stdout) as u16,
        };
        let last = self.marks.len().checked_sub(1);
        match last {
            Some(last) if self.run(last).1 == stream => self.marks[last] = mark,
            Some(_) | None => self.marks.push(mark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(is_stdout: bool) -> Stream {
        if is_stdout { Stream::Stdout } else { Stream::Stderr }
    }

    proptest! {
        #[test]
        fn every_place_is_found_again(
            pushes in proptest::collection::vec((any::<bool>(), 1_u64..9), 0..40),
            block_bytes in 1_u16..12,
            trim in 0_u64..200,
        ) {
            let mut order = Order::new(block_bytes);
            let mut labels = Vec::new();
            for (is_stdout, len) in pushes {
                order.push(stream(is_stdout), len);
                labels.extend(std::iter::repeat_n(stream(is_stdout), len as usize));
            }
            let total = labels.len() as u64;
            order.trim_to(trim);
            let start = trim.min(total);
            prop_assert_eq!(order.start().combined, start);
            let count = |label: Stream, upto: u64| labels[..upto as usize].iter().filter(|l| **l == label).count() as u64;
            for place in start..=total {
                let position = order.position_at(place);
                prop_assert_eq!(position.combined, place);
                prop_assert_eq!(position.stdout, count(Stream::Stdout, place));

                let mut seen = place;
                for run in order.runs_from(place) {
                    prop_assert_eq!(run.from, count(run.stream, seen));
                    for _ in 0..run.len {
                        prop_assert_eq!(labels[seen as usize], run.stream);
                        seen += 1;
                    }
                }
                prop_assert_eq!(seen, total);
                if place < total {
                    let label = labels[place as usize];
                    prop_assert_eq!(order.combined_of(label, count(label, place)), place);
                }
            }
        }
    }

    #[test]
    fn appends_of_one_label_are_one_run() {
        let mut order = Order::new(u16::MAX);
        for _ in 0..1000 {
            order.push(Stream::Stderr, 1);
        }
        let runs: Vec<_> = order.runs_from(0).collect();
        assert_eq!(runs, [Run { stream: Stream::Stderr, from: 0, len: 1000 }]);
    }
}
