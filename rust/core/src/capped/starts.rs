//! First micro-batches that keep the limits, from which the search starts.
use crate::capped::samples::{MicroBatch, Samples};
use crate::packing::{FULL, Rooms, pack_first_fit};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// First fit decreasing: longest sample first, each to the first micro-batch that has room. With a second budget, the
/// fewest micro-batches of several orders: by length, by the second amount, by the larger share of the two caps.
///
/// **O(n log b)** time for b micro-batches; see [`Rooms`] for a second budget.
pub(crate) fn first_fit_decreasing(samples: &Samples) -> Vec<MicroBatch> {
    let room = &samples.room;
    let decreasing = |key: &dyn Fn(u32) -> (u128, u64, Reverse<u32>)| {
        let mut order: Vec<u32> = (0..samples.len() as u32).collect();
        order.sort_by_cached_key(|&sample| Reverse(key(sample)));
        first_fit_of(samples, &order)
    };
    let given = |sample: u32| Reverse(samples.original[sample as usize]);
    let by_length = decreasing(&|sample| (room.length(sample).into(), 0, given(sample)));
    if !room.has_extra() {
        return by_length;
    }
    let others = [
        decreasing(&|sample| (room.extra_of(sample).into(), room.length(sample), given(sample))),
        decreasing(&|sample| (room.larger_share(sample), 0, given(sample))),
    ];
    others.into_iter().fold(by_length, |best, other| if other.len() < best.len() { other } else { best })
}

/// First fit in the caller's order; mixes costly and cheap samples where costs have little to do with lengths.
pub(crate) fn first_fit_as_given(samples: &Samples) -> Vec<MicroBatch> {
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_unstable_by_key(|&sample| samples.original[sample as usize]);
    first_fit_of(samples, &order)
}

fn first_fit_of(samples: &Samples, order: &[u32]) -> Vec<MicroBatch> {
    if let Some(max_tokens) = samples.room.only_cap() {
        let lengths: Vec<i64> = order.iter().map(|&sample| samples.room.length(sample) as i64).collect();
        return pack_first_fit(&lengths, max_tokens)
            .iter()
            .map(|bin| samples.batch(bin.iter().map(|&i| order[i as usize])))
            .collect();
    }
    let room = &samples.room;
    let [mut lengths, mut extras] = [Rooms::new(), Rooms::new()];
    let mut batches: Vec<MicroBatch> = Vec::new();
    for &sample in order {
        let [length, extra] = [room.length(sample), room.extra_of(sample)].map(|amount| amount as i64);
        let position = lengths.first_with_both(length, &extras, extra).unwrap_or_else(|| {
            batches.push(MicroBatch::default());
            extras.open();
            lengths.open()
        });
        samples.add(&mut batches[position], sample);
        let load = batches[position].load;
        for (rooms, left) in [(&mut lengths, room.longest_welcome(load)), (&mut extras, room.most_extra(load))] {
            rooms.set(position, left.map_or(FULL, |left| left as i64));
        }
    }
    batches
}

/// Splits the costliest micro-batch of two samples or more until there are `target`, costliest sample first to the
/// cheaper half (at a tie the smaller, then the first). **O(m + log b)** for every split of m samples.
pub(crate) fn split_costliest(samples: &Samples, batches: &mut Vec<MicroBatch>, target: usize) {
    let entry = |(position, batch): (usize, &MicroBatch)| (batch.samples.len() > 1).then_some((batch.cost, position));
    let mut divisible: BinaryHeap<(u64, usize)> = batches.iter().enumerate().filter_map(entry).collect();
    while batches.len() < target {
        let Some((_, position)) = divisible.pop() else { return };
        let mut halves = [MicroBatch::default(), MicroBatch::default()];
        for &sample in batches[position].samples.iter().rev() {
            let [first, second] = halves.each_ref().map(|half| (half.cost, half.samples.len()));
            samples.add(&mut halves[usize::from(second < first)], sample);
        }
        let [first, second] = halves;
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
/// **O(n width log n)** time; `None` too where n · width is above [`MOST_SCANNED`].
pub(crate) fn deal_rows(samples: &Samples, width: usize, rows: usize, evenness: u64) -> Option<Vec<MicroBatch>> {
    if samples.len().saturating_mul(width) > MOST_SCANNED {
        return None;
    }
    let mut batches = Vec::with_capacity(width * rows);
    let mut left = Left::new(samples.len());
    for _ in 0..rows {
        let mut row = deal_row(samples, &mut left, width, u64::MAX);
        let placed = |row: &[MicroBatch]| row.iter().map(|batch| batch.samples.len()).sum::<usize>();
        let mean = row.iter().map(|batch| batch.cost).sum::<u64>() / width as u64;
        let costliest = left.from(0).map_or(0, |position| samples.cost(left.order[position]));
        let ceiling = mean.max(costliest) + mean / evenness;
        if placed(&row) < left.count && row.iter().any(|batch| batch.cost > ceiling) {
            row = deal_row(samples, &mut left, width, ceiling);
        }
        row.iter().flat_map(|batch| &batch.samples).for_each(|&sample| left.remove(sample));
        batches.extend(row.into_iter().filter(|batch| !batch.samples.is_empty()));
        if left.count == 0 {
            return Some(batches);
        }
    }
    None
}

/// Pairs of a sample and a micro-batch of its row, beyond which rows take too long to be worth it.
const MOST_SCANNED: usize = 1 << 27;

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

/// One row of samples that are left, costliest first.
fn deal_row(samples: &Samples, left: &mut Left, width: usize, ceiling: u64) -> Vec<MicroBatch> {
    let mut row = vec![MicroBatch::default(); width];
    let (mut start, mut missed, mut patience) = (0, false, PATIENCE);
    while patience > 0 {
        let Some(position) = left.from(start) else { break };
        let sample = left.order[position];
        start = position + 1;
        let cost = samples.cost(sample);
        let open = |batch: &&mut MicroBatch| {
            batch.samples.is_empty() || batch.cost + cost <= ceiling && samples.accepts(batch, sample)
        };
        if let Some(batch) = row.iter_mut().filter(open).min_by_key(|batch| (batch.cost, batch.samples.len())) {
            samples.add(batch, sample);
            missed = false;
            continue;
        }
        // On to the first sample that some micro-batch has room for. Bisection finds it where costlier samples are
        // longer; where they are not, it may pass one over, for a later row.
        let no_room = |batch: &MicroBatch| {
            let length = samples.room.longest_welcome(batch.load);
            let too_large = |sample: u32| length.is_none_or(|length| samples.room.length(sample) > length);
            left.order[start..].partition_point(|&sample| {
                too_large(sample) || samples.cost(sample) > ceiling - batch.cost.min(ceiling)
            })
        };
        start += row.iter().map(no_room).min().unwrap_or(0);
        patience -= usize::from(missed);
        missed = true;
    }
    row
}

/// Deals all samples over `count` micro-batches, costliest first, each to the cheapest that has room; `None` when none
/// of the [`TRIES`] cheapest has. **O(n log b)** time for b micro-batches.
pub(crate) fn deal_to_cheapest(samples: &Samples, count: usize) -> Option<Vec<MicroBatch>> {
    let mut batches = vec![MicroBatch::default(); count];
    let mut cheapest: BinaryHeap<_> = (0..count).map(|position| Reverse((0, 0, position))).collect();
    let mut full = Vec::with_capacity(TRIES);
    for sample in (0..samples.len() as u32).rev() {
        let position = loop {
            let entry @ Reverse((_, _, position)) = cheapest.pop()?;
            if samples.accepts(&batches[position], sample) {
                break position;
            }
            full.push(entry);
            if full.len() == TRIES {
                return None;
            }
        };
        samples.add(&mut batches[position], sample);
        cheapest.push(Reverse((batches[position].cost, batches[position].samples.len(), position)));
        cheapest.extend(full.drain(..));
    }
    Some(batches)
}

/// Micro-batches without room that a sample tries.
const TRIES: usize = 64;
