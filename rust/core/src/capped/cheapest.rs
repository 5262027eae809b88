//! The cheapest micro-batch of a row that has room for a sample.
use crate::capped::limits::{Load, Room};
use crate::capped::samples::Samples;
use crate::interrupt::Work;
use crate::partition::sorted_by;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A micro-batch's cost, samples and position in the row, in 64, 32 and 32 bits: the least is the one to fill.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u128);

impl Entry {
    const NONE: Self = Self(u128::MAX);

    pub fn new(load: Load, position: u32) -> Self {
        Self(u128::from(load.cost) << 64 | u128::from(load.samples) << 32 | u128::from(position))
    }

    pub fn cost(self) -> u64 {
        (self.0 >> 64) as u64
    }

    pub fn position(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The micro-batches of a row in classes by the longest sample that they have room for, under a tree of minima: those
/// with room for a length are a run of classes up to the last. Every step takes **O(log n)** time for n samples, over
/// many steps: an entry that is out of date is passed over once.
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

/// Steps of [`Work`] in a bisection.
const STEPS_PER_CLASS: usize = 16;

impl Cheapest {
    /// No micro-batch yet of a row of `width`.
    pub fn new(samples: &Samples, width: usize) -> Self {
        let all = 0..samples.len() as u32;
        let by_length = sorted_by(&all.clone().collect::<Vec<_>>(), |sample| samples.room.length(sample));
        let mut lengths: Vec<u64> = by_length.iter().map(|&sample| samples.room.length(sample)).collect();
        lengths.dedup();
        let mut work = Work::default();
        let class = |sample| {
            work.did(STEPS_PER_CLASS);
            lengths.partition_point(|&length| length < samples.room.length(sample)) as u32
        };
        Self {
            classes: vec![BinaryHeap::new(); lengths.len()],
            held: vec![(0, Entry::NONE); width],
            tree: vec![Entry::NONE; 2 * lengths.len().next_power_of_two()],
            class_of: all.map(class).collect(),
            lengths,
        }
    }

    /// The first class with room for a sample.
    pub fn class_of(&self, sample: u32) -> u32 {
        self.class_of[sample as usize]
    }

    /// The least of the micro-batches of this class and the following.
    pub fn from(&self, class: u32) -> Option<Entry> {
        let (class, first) = (class as usize, self.tree[1]);
        if first == Entry::NONE {
            return None;
        }
        if self.held[first.position()].0 >= class {
            return Some(first); // as it is nearly always
        }
        let mut node = self.tree.len() / 2 + class;
        let mut least = self.tree[node];
        while node > 1 {
            if node % 2 == 0 {
                least = least.min(self.tree[node + 1]);
            }
            node /= 2;
        }
        (least != Entry::NONE).then_some(least)
    }

    /// Adds a micro-batch, unless it has room for none of the samples.
    pub fn add(&mut self, room: &Room, load: Load, position: u32) {
        let Some(longest) = room.longest_welcome(load) else { return };
        if let Some(class) = self.lengths.partition_point(|&length| length <= longest).checked_sub(1) {
            let entry = Entry::new(load, position);
            self.held[position as usize] = (class, entry);
            self.classes[class].push(Reverse(entry));
            self.update(class);
        }
    }

    /// Takes out a micro-batch.
    pub fn remove(&mut self, position: usize) {
        let (class, _) = std::mem::replace(&mut self.held[position], (0, Entry::NONE));
        self.update(class);
    }

    /// Takes out all.
    pub fn clear(&mut self) {
        while let Some(first) = self.from(0) {
            self.remove(first.position());
        }
    }

    /// Brings the tree up to date with a class.
    fn update(&mut self, class: usize) {
        let entries = &mut self.classes[class];
        while entries.peek().is_some_and(|&Reverse(entry)| self.held[entry.position()] != (class, entry)) {
            entries.pop();
        }
        let mut node = self.tree.len() / 2 + class;
        self.tree[node] = entries.peek().map_or(Entry::NONE, |&Reverse(least)| least);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capped::limits::Caps;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_scan_of_the_row(
            lengths in prop::collection::vec(0_i64..12, 1..40),
            padded in any::<bool>(),
            steps in prop::collection::vec((0_usize..6, any::<prop::sample::Index>(), any::<bool>()), 0..80),
        ) {
            let costs: Vec<u64> = lengths.iter().map(|&length| length.unsigned_abs() * 7 % 5).collect();
            let samples = Samples::new(&lengths, &costs, &Caps { max_tokens: 20, padded, extra: None });
            let mut row: [Option<Load>; 6] = [None; 6];
            let mut cheapest = Cheapest::new(&samples, row.len());
            for (position, sample, clear) in steps {
                let sample = sample.index(lengths.len()) as u32;
                // A micro-batch takes the sample, or goes when it is full.
                if row[position].is_some() {
                    cheapest.remove(position);
                }
                let load = samples.room.with(row[position].unwrap_or_default(), sample);
                row[position] = samples.room.holds(load).then_some(load);
                if let Some(load) = row[position] {
                    cheapest.add(&samples.room, load, position as u32);
                }
                if clear && position == 0 {
                    cheapest.clear();
                    row = [None; 6];
                }
                for sample in 0..lengths.len() as u32 {
                    let open = (0..6).filter_map(|position| Some((row[position]?, position)));
                    let open = open.filter(|&(load, _)| samples.accepts(load, sample));
                    let first = open.min_by_key(|&(load, position)| (load.cost, load.samples, position));
                    let found = cheapest.from(cheapest.class_of(sample));
                    prop_assert_eq!(found.map(Entry::position), first.map(|(_, position)| position));
                    prop_assert_eq!(found.map(Entry::cost), first.map(|(load, _)| load.cost));
                }
            }
        }
    }
}
