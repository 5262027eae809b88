//! The cheapest micro-batch of a row that has room for a sample.
use crate::capped::limits::{Load, Room};
use crate::capped::samples::Samples;
use crate::partition::sorted_by;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A micro-batch's cost, its samples and its position in the row: the least is the one to fill.
pub(crate) type Entry = (u64, u32, u32);

/// The entry of a micro-batch that is there.
pub(crate) fn entry(load: Load, position: u32) -> Entry {
    (load.cost, load.samples as u32, position)
}

const NONE: Entry = (u64::MAX, u32::MAX, u32::MAX);

/// The micro-batches of a row in classes by the longest sample that they have room for, under a tree of minima: those
/// with room for a length are a run of classes up to the last. Every step takes **O(log n)** time for n samples.
pub(crate) struct Cheapest {
    /// The different lengths of the samples, ascending: class `i` has room for `lengths[i]` and not for `lengths[i + 1]`.
    lengths: Vec<u64>,
    /// For every sample the first class with room for it.
    class_of: Vec<u32>,
    classes: Vec<BinaryHeap<Reverse<Entry>>>,
    /// For every position of the row the class and entry of its micro-batch; other entries of a class are out of date.
    held: Vec<(usize, Entry)>,
    /// `tree[tree.len() / 2 + i]` is the least of class `i`, `tree[i]` the lesser of `tree[2 * i]` and `tree[2 * i + 1]`.
    tree: Vec<Entry>,
}

impl Cheapest {
    /// No micro-batch yet of a row of `width`.
    pub fn new(samples: &Samples, width: usize) -> Self {
        let (mut lengths, mut class_of) = (Vec::new(), vec![0; samples.len()]);
        for sample in sorted_by(&samples.as_given(), |sample| samples.room.length(sample)) {
            let length = samples.room.length(sample);
            if lengths.last() != Some(&length) {
                lengths.push(length);
            }
            class_of[sample as usize] = lengths.len() as u32 - 1;
        }
        Self {
            classes: vec![BinaryHeap::new(); lengths.len()],
            held: vec![(0, NONE); width],
            tree: vec![NONE; 2 * lengths.len().next_power_of_two()],
            class_of,
            lengths,
        }
    }

    /// The first class with room for a sample.
    pub fn class_of(&self, sample: u32) -> u32 {
        self.class_of[sample as usize]
    }

    /// The least of the micro-batches of this class and the following.
    pub fn from(&self, class: u32) -> Option<Entry> {
        let first = self.tree.len() / 2 + class as usize;
        let (mut node, mut least) = (first, self.tree[first]);
        while node > 1 {
            // What follows a left child is beside it; a right one has nothing new.
            least = least.min(self.tree[if node % 2 == 0 { node + 1 } else { first }]);
            node /= 2;
        }
        (least != NONE).then_some(least)
    }

    /// Adds a micro-batch, unless it has room for none of the samples.
    pub fn add(&mut self, room: &Room, load: Load, position: u32) {
        let Some(longest) = room.longest_welcome(load) else { return };
        if let Some(class) = self.lengths.partition_point(|&length| length <= longest).checked_sub(1) {
            let entry = entry(load, position);
            self.held[position as usize] = (class, entry);
            self.classes[class].push(Reverse(entry));
            self.update(class);
        }
    }

    /// Takes out a micro-batch.
    pub fn remove(&mut self, position: u32) {
        let (class, _) = std::mem::replace(&mut self.held[position as usize], (0, NONE));
        self.update(class);
    }

    /// Takes out all.
    pub fn clear(&mut self) {
        while let Some((_, _, position)) = self.from(0) {
            self.remove(position);
        }
    }

    /// Brings the tree up to date with a class.
    fn update(&mut self, class: usize) {
        let entries = &mut self.classes[class];
        while entries.peek().is_some_and(|&Reverse(entry)| self.held[entry.2 as usize] != (class, entry)) {
            entries.pop();
        }
        let mut node = self.tree.len() / 2 + class;
        self.tree[node] = entries.peek().map_or(NONE, |&Reverse(least)| least);
        while node > 1 {
            node /= 2;
            let least = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == least {
                break;
            }
            self.tree[node] = least;
        }
    }
}
