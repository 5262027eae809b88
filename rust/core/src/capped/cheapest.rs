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
    /// For every run of lengths that are equal but for their lowest bits, the first class in it or behind it; the number of
    /// classes at the end.
    runs: Vec<u32>,
    lowest_bits: u32,
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
        let all: Vec<u32> = (0..samples.len() as u32).collect();
        let by_length = sorted_by(&all, |sample| samples.room.length(sample));
        let mut lengths: Vec<u64> = by_length.iter().map(|&sample| samples.room.length(sample)).collect();
        lengths.dedup();
        // About as many runs as classes.
        let bits = |count: u64| u64::BITS - count.leading_zeros();
        let longest = lengths.last().copied().unwrap_or(0);
        let lowest_bits = bits(longest).saturating_sub(bits(lengths.len() as u64));
        let mut runs = vec![0; (longest >> lowest_bits) as usize + 2];
        let mut class_of = vec![0; samples.len()];
        let (mut class, mut work) = (0, Work::default());
        for &sample in &by_length {
            work.did(1);
            class += u32::from(lengths[class as usize] < samples.room.length(sample));
            class_of[sample as usize] = class;
        }
        let mut class = 0;
        for (run, first) in (0..).zip(&mut runs) {
            while lengths.get(class as usize).is_some_and(|&length| length >> lowest_bits < run) {
                class += 1;
            }
            *first = class;
        }
        Self {
            classes: vec![BinaryHeap::new(); lengths.len()],
            held: vec![(0, Entry::NONE); width],
            tree: vec![Entry::NONE; 2 * lengths.len().next_power_of_two()],
            class_of,
            runs,
            lowest_bits,
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

    /// Adds a micro-batch in place of the one at its position, or takes that out where none of the samples has room in it.
    pub fn set(&mut self, room: &Room, load: Load, position: u32) {
        let class = room.longest_welcome(load).and_then(|longest| self.last_class(longest));
        let Some(class) = class else { return self.remove(position as usize) };
        let entry = Entry::new(load, position);
        let (before, _) = std::mem::replace(&mut self.held[position as usize], (class, entry));
        self.classes[class].push(Reverse(entry));
        self.update(class);
        if before != class {
            self.update(before);
        }
    }

    /// The class of micro-batches with room for this length and no longer one; `None` where it is below all.
    fn last_class(&self, longest: u64) -> Option<usize> {
        let run = usize::try_from(longest >> self.lowest_bits).ok().filter(|&run| run + 1 < self.runs.len());
        let Some(run) = run else { return self.lengths.len().checked_sub(1) };
        let [first, next] = [self.runs[run], self.runs[run + 1]].map(|class| class as usize);
        (first + self.lengths[first..next].partition_point(|&length| length <= longest)).checked_sub(1)
    }

    /// Takes out a micro-batch.
    fn remove(&mut self, position: usize) {
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
            let samples = Samples::new(&lengths, &costs, &Caps { padded, ..Caps::new(20) });
            let mut row: [Option<Load>; 6] = [None; 6];
            let mut cheapest = Cheapest::new(&samples, row.len());
            for (position, sample, clear) in steps {
                let sample = sample.index(lengths.len()) as u32;
                // A micro-batch takes the sample, or stays as it is when it is full.
                let before = row[position].unwrap_or_default();
                let load = Some(samples.room.with(before, sample)).filter(|&load| samples.room.holds(load));
                if row[position].is_some() || load.is_some() {
                    row[position] = Some(load.unwrap_or(before));
                }
                if let Some(load) = row[position] {
                    cheapest.set(&samples.room, load, position as u32);
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
