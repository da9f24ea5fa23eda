//! One label's bytes: a head that stays, and a tail that grows at its end and is trimmed at its start.
//!
//! Decides nothing about what is kept; [`super::kept`] does. Offsets count this label's bytes.

use std::collections::VecDeque;

/// The bytes of one label. The tail begins where the head ends, until it is trimmed.
pub(super) struct Lane {
    head: Vec<u8>,
    slab_bytes: usize,
    /// Where the kept tail begins.
    start: u64,
    /// Where it ends: how many bytes there ever were.
    end: u64,
    /// Where the first slab begins; at or before `start`.
    base: u64,
    /// All full, but for the last.
    slabs: VecDeque<Vec<u8>>,
}

impl Lane {
    /// An empty lane whose tail takes memory in pieces of `slab_bytes`.
    pub(super) fn new(slab_bytes: usize) -> Self {
        Self { head: Vec::new(), slab_bytes, start: 0, end: 0, base: 0, slabs: VecDeque::new() }
    }

    /// Where the head ends.
    pub(super) fn head_end(&self) -> u64 {
        self.head.len() as u64
    }

    /// Where the kept tail begins.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// How many bytes there ever were.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds to the head, whose size may reach `limit`. Only while the tail never held a byte.
    pub(super) fn push_head(&mut self, bytes: &[u8], limit: usize) {
        debug_assert_eq!(self.end, self.head_end(), "the head comes before the tail");
        extend_within(&mut self.head, bytes, limit);
        self.end = self.head_end();
        self.start = self.end;
    }

    /// Adds to the tail.
    pub(super) fn push_tail(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.slabs.back().map_or(0, |slab| self.slab_bytes - slab.len());
            if room == 0 {
                if self.slabs.is_empty() {
                    self.base = self.end;
                }
                self.slabs.push_back(Vec::new());
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(slab) = self.slabs.back_mut() {
                extend_within(slab, now, self.slab_bytes);
            }
            self.end += now.len() as u64;
            bytes = later;
        }
    }

    /// Drops the tail's bytes before `offset`. Bytes that are gone already change nothing.
    pub(super) fn trim_to(&mut self, offset: u64) {
        self.start = self.start.max(offset.min(self.end));
        while let Some(slab) = self.slabs.front() {
            let slab_end = self.base + slab.len() as u64;
            if slab_end > self.start {
                break;
            }
            self.base = slab_end;
            self.slabs.pop_front();
        }
    }

    /// Appends the bytes from `from` to `to`, all of which are kept, to `out`.
    pub(super) fn copy(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        let head_to = to.min(self.head_end());
        if from < head_to {
            out.extend_from_slice(&self.head[from as usize..head_to as usize]);
        }
        let mut at = from.max(self.head_end());
        debug_assert!(at >= to || (self.start <= at && to <= self.end), "bytes that are kept");
        while at < to {
            let offset = (at - self.base) as usize;
            let slab = &self.slabs[offset / self.slab_bytes];
            let begin = offset % self.slab_bytes;
            let len = (slab.len() - begin).min((to - at) as usize);
            out.extend_from_slice(&slab[begin..begin + len]);
            at += len as u64;
        }
    }

    /// Bytes of memory that are held.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let slabs: usize = self.slabs.iter().map(Vec::capacity).sum();
        self.head.capacity() + slabs + self.slabs.capacity() * size_of::<Vec<u8>>()
    }
}

/// Extends `vec` as `extend_from_slice` does, but never allocates beyond `limit`, which its length stays within.
fn extend_within(vec: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = vec.len() + bytes.len();
    if needed > vec.capacity() {
        let capacity = (vec.capacity() * 2).min(limit).max(needed);
        vec.reserve_exact(capacity - vec.len());
    }
    vec.extend_from_slice(bytes);
}
