//! First micro-batches that keep the limits, from which the search starts.
use crate::capped::bins::Bins;
use crate::capped::cheapest::{Cheapest, Entry};
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};
use crate::interrupt::Work;
use crate::packing::pack_first_fit;
use crate::partition::sorted_by;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// First fit decreasing: longest sample first, each to the first micro-batch that has room. With a second budget, the
/// fewest micro-batches of several orders: by length, by the second amount, by the larger share of the two caps.
///
/// **O(n log b)** time for b micro-batches.
pub(crate) fn first_fit_decreasing(samples: &Samples) -> Vec<MicroBatch> {
    let room = &samples.room;
    let by_length = sorted_by(&samples.as_given(), |sample| u64::MAX - room.length(sample));
    let batches = first_fit_of(samples, &by_length);
    if !room.has_extra() {
        return batches;
    }
    let by_extra = sorted_by(&by_length, |sample| u64::MAX - room.extra_of(sample));
    let by_share = sorted_by(&samples.as_given(), |sample| u128::MAX - room.larger_share(sample));
    let others = [by_extra, by_share].map(|order| first_fit_of(samples, &order));
    others.into_iter().fold(batches, |best, other| if other.len() < best.len() { other } else { best })
}

/// Steps of [`Work`] in placing a sample.
const STEPS_PER_SAMPLE: usize = 32;

/// First fit in the caller's order; mixes costly and cheap samples where costs have little to do with lengths.
pub(crate) fn first_fit_as_given(samples: &Samples) -> Vec<MicroBatch> {
    first_fit_of(samples, &samples.as_given())
}

fn first_fit_of(samples: &Samples, order: &[u32]) -> Vec<MicroBatch> {
    let mut labels = vec![0; samples.len()];
    if let Some(max_tokens) = samples.room.only_cap() {
        let lengths: Vec<i64> = order.iter().map(|&sample| samples.room.length(sample) as i64).collect();
        let bins = pack_first_fit(&lengths, max_tokens);
        for (label, bin) in (0..).zip(bins.iter()) {
            for &i in bin {
                labels[order[i as usize] as usize] = label;
            }
        }
        return samples.batches(&labels, bins.len());
    }
    let mut bins = Bins::new(&samples.room);
    let mut work = Work::default();
    for &sample in order {
        work.did(STEPS_PER_SAMPLE);
        labels[sample as usize] = bins.put(sample);
    }
    samples.batches(&labels, bins.len())
}

/// Splits the costliest micro-batch of two samples or more until there are `target`, costliest sample first to the
/// cheaper half (at a tie the smaller, then the first). **O(m + log b)** for every split of m samples.
pub(crate) fn split_costliest(samples: &Samples, batches: &mut Vec<MicroBatch>, target: usize) {
    let entry = |(position, batch): (usize, &MicroBatch)| (batch.samples.len() > 1).then_some((batch.cost(), position));
    let mut divisible: BinaryHeap<(u64, usize)> = batches.iter().enumerate().filter_map(entry).collect();
    let mut work = Work::default();
    while batches.len() < target {
        let Some((_, position)) = divisible.pop() else { return };
        work.did(STEPS_PER_SAMPLE * batches[position].samples.len());
        let mut halves = [MicroBatch::default(), MicroBatch::default()];
        for &sample in batches[position].samples.iter().rev() {
            let [first, second] = halves.each_ref().map(|half| (half.cost(), half.samples.len()));
            samples.push(&mut halves[usize::from(second < first)], sample);
        }
        let [first, second] = halves.map(MicroBatch::reversed);
        divisible.extend([(position, &first), (batches.len(), &second)].into_iter().filter_map(entry));
        batches[position] = first;
        batches.push(second);
    }
}

/// Deals rows of `width` micro-batches: a row takes the costliest samples left, each to the cheapest micro-batch that has
/// room, so that the micro-batches of a row cost nearly the same from the start.
///
/// A row that samples without room leave uneven is dealt again under a ceiling, one `evenness`-th of its mean cost
/// above that mean (or its costliest sample); what it leaves out falls to later rows. `None` when more than `rows` are
/// needed.
///
/// **O(n log² n)** time.
pub(crate) fn deal_rows(
    samples: &Samples,
    cheapest: &mut Cheapest,
    width: usize,
    rows: usize,
    evenness: u64,
) -> Option<Vec<MicroBatch>> {
    let mut labels = vec![0; samples.len()];
    let mut batches = 0;
    let mut left = Left::new(samples.len());
    for _ in 0..rows {
        let mut row = Row::deal(samples, &mut left, cheapest, width, u64::MAX);
        let mean = row.loads.iter().map(|load| load.cost).sum::<u64>() / width as u64;
        let costliest = left.from(0).map_or(0, |position| samples.cost(left.order[position]));
        let ceiling = mean.max(costliest) + mean / evenness;
        if row.placed.len() < left.count && row.loads.iter().any(|load| load.cost > ceiling) {
            row = Row::deal(samples, &mut left, cheapest, width, ceiling);
        }
        for (sample, position) in row.placed {
            left.remove(sample);
            labels[sample as usize] = batches + position;
        }
        batches += row.loads.len() as u32;
        if left.count == 0 {
            return Some(samples.batches(&labels, batches as usize));
        }
    }
    None
}

/// How often a row looks on after a sample without room and finds another.
const PATIENCE: usize = 64;

/// The samples that no row has taken yet.
struct Left {
    /// All samples in descending order of cost.
    order: Vec<u32>,
    /// For every position where to look on; the position itself while its sample is left.
    next: Vec<u32>,
    count: usize,
}

impl Left {
    fn new(count: usize) -> Self {
        Self { order: (0..count as u32).rev().collect(), next: (0..=count as u32).collect(), count }
    }

    /// The first position from here on whose sample is left; paths are halved on the way.
    fn from(&mut self, mut position: usize) -> Option<usize> {
        while self.next[position] as usize != position {
            self.next[position] = self.next[self.next[position] as usize];
            position = self.next[position] as usize;
        }
        (position < self.order.len()).then_some(position)
    }

    fn remove(&mut self, sample: u32) {
        let position = self.order.len() - 1 - sample as usize;
        self.next[position] = position as u32 + 1;
        self.count -= 1;
    }
}

/// A row of samples that are left.
#[derive(Default)]
struct Row {
    /// What each micro-batch holds; those that stay empty are left out.
    loads: Vec<Load>,
    /// Samples, and the position of their micro-batch.
    placed: Vec<(u32, u32)>,
}

impl Row {
    /// Costliest first, each to the cheapest micro-batch that has room and ends no higher than the ceiling; the first of a
    /// micro-batch always has.
    fn deal(samples: &Samples, left: &mut Left, cheapest: &mut Cheapest, width: usize, ceiling: u64) -> Self {
        let mut row = Self::default();
        let (mut start, mut missed, mut patience) = (0, false, PATIENCE);
        let mut work = Work::default();
        while patience > 0 {
            let Some(position) = left.from(start) else { break };
            let sample = left.order[position];
            start = position + 1;
            work.did(STEPS_PER_SAMPLE);
            if row.place(samples, sample, cheapest, width, ceiling) {
                missed = false;
                continue;
            }
            // On to the first sample that some micro-batch has room for. Bisection finds it where costlier samples are
            // longer; where they are not, it may pass one over, for a later row.
            let (mut class, mut most) = (0, 0);
            start += left.order[start..].partition_point(|&sample| {
                let needs = (class.max(cheapest.class_of(sample)), most.max(samples.cost(sample)));
                let fits = cheapest.from(needs.0).is_some_and(|first| first.cost() + needs.1 <= ceiling);
                if fits {
                    (class, most) = needs; // from here on by those that have room for this one too
                }
                !fits
            });
            patience -= usize::from(missed);
            missed = true;
        }
        cheapest.clear();
        row
    }

    /// Whether there was a micro-batch for the sample.
    fn place(&mut self, samples: &Samples, sample: u32, cheapest: &mut Cheapest, width: usize, ceiling: u64) -> bool {
        let position = if self.loads.len() < width {
            self.loads.push(Load::default());
            self.loads.len() - 1
        } else {
            let first = cheapest.from(cheapest.class_of(sample));
            let full = |first: Entry| !samples.accepts(self.loads[first.position()], sample);
            let first = if first.is_some_and(full) { self.scan(samples, sample) } else { first };
            let Some(first) = first.filter(|first| first.cost() + samples.cost(sample) <= ceiling) else {
                return false;
            };
            first.position()
        };
        let load = samples.room.with(self.loads[position], sample);
        self.loads[position] = load;
        cheapest.set(&samples.room, load, position as u32);
        self.placed.push((sample, position as u32));
        true
    }

    /// The least of the micro-batches with room for a sample, or of [`MOST_SCANNED`] of them.
    fn scan(&self, samples: &Samples, sample: u32) -> Option<Entry> {
        let start = sample as usize % self.loads.len();
        let positions = (start..self.loads.len()).chain(0..start).take(MOST_SCANNED);
        let with_room = positions.filter(|&position| samples.accepts(self.loads[position], sample));
        with_room.map(|position| Entry::new(self.loads[position], position as u32)).min()
    }
}

/// Micro-batches of a row that are compared one by one where the cheapest is full by the second budget.
const MOST_SCANNED: usize = 1 << 10;

/// Deals all samples over `count` micro-batches, costliest first, each to the cheapest that has room; `None` when none
/// of the [`TRIES`] cheapest has. **O(n log b)** time for b micro-batches.
pub(crate) fn deal_to_cheapest(samples: &Samples, count: usize) -> Option<Vec<MicroBatch>> {
    let mut labels = vec![0; samples.len()];
    let mut loads = vec![Load::default(); count];
    let mut cheapest: BinaryHeap<_> = (0..count).map(|position| Reverse((0, 0, position))).collect();
    let mut full = Vec::with_capacity(TRIES);
    let mut work = Work::default();
    for sample in (0..samples.len() as u32).rev() {
        work.did(STEPS_PER_SAMPLE);
        let position = loop {
            let entry @ Reverse((_, _, position)) = cheapest.pop()?;
            if samples.accepts(loads[position], sample) {
                break position;
            }
            full.push(entry);
            if full.len() == TRIES {
                return None;
            }
        };
        let load = samples.room.with(loads[position], sample);
        loads[position] = load;
        labels[sample as usize] = position as u32;
        cheapest.push(Reverse((load.cost, load.samples, position)));
        cheapest.extend(full.drain(..));
    }
    Some(samples.batches(&labels, count))
}

/// Micro-batches without room that a sample tries.
const TRIES: usize = 64;
