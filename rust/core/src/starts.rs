//! First micro-batches that keep the limits, from which the search starts.
use crate::first_fit::first_fit;
use crate::micro_batch::{MicroBatch, Samples};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// First fit decreasing: longest sample first, each to the first micro-batch that has room.
///
/// **O(n log b)** time for b micro-batches, **O(n b)** with padding or a second budget.
pub(crate) fn first_fit_decreasing(samples: &Samples) -> Vec<MicroBatch> {
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_unstable_by_key(|&sample| Reverse((samples.room.length(sample), sample)));
    first_fit_of(samples, &order)
}

/// First fit in the caller's order; mixes dear and cheap samples where costs have little to do with lengths.
pub(crate) fn first_fit_as_given(samples: &Samples) -> Vec<MicroBatch> {
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_unstable_by_key(|&sample| samples.original[sample as usize]);
    first_fit_of(samples, &order)
}

fn first_fit_of(samples: &Samples, order: &[u32]) -> Vec<MicroBatch> {
    if let Some(max_tokens) = samples.room.only_cap() {
        let lengths: Vec<i64> = order.iter().map(|&sample| samples.room.length(sample).cast_signed()).collect();
        return first_fit(&lengths, max_tokens)
            .iter()
            .map(|bin| samples.batch(bin.iter().map(|&i| order[i as usize])))
            .collect();
    }
    let mut batches: Vec<MicroBatch> = Vec::new();
    for &sample in order {
        match batches.iter_mut().find(|batch| samples.accepts(batch, sample)) {
            Some(batch) => samples.add(batch, sample),
            None => batches.push(samples.batch([sample])),
        }
    }
    batches
}

/// Splits the dearest micro-batch of two samples or more until there are `target`, dearest sample first to the
/// cheaper half (at a tie the smaller, then the first). **O(m + log b)** for every split of m samples.
pub(crate) fn split_dearest(samples: &Samples, batches: &mut Vec<MicroBatch>, target: usize) {
    let entry = |(place, batch): (usize, &MicroBatch)| (batch.samples.len() > 1).then_some((batch.cost, place));
    let mut divisible: BinaryHeap<(u64, usize)> = batches.iter().enumerate().filter_map(entry).collect();
    while batches.len() < target
        && let Some((_, place)) = divisible.pop()
    {
        let mut halves = [MicroBatch::default(), MicroBatch::default()];
        for &sample in batches[place].samples.iter().rev() {
            let [first, second] = halves.each_ref().map(|half| (half.cost, half.samples.len()));
            samples.add(&mut halves[usize::from(second < first)], sample);
        }
        let [first, second] = halves;
        divisible.extend([(place, &first), (batches.len(), &second)].into_iter().filter_map(entry));
        batches[place] = first;
        batches.push(second);
    }
}

/// Deals rows of `width` micro-batches: a row takes the dearest samples left, each to the cheapest micro-batch that has
/// room, so that the micro-batches of a row cost nearly the same from the start.
///
/// A row that samples without room leave uneven is dealt again under a ceiling, one `evenness`-th of its mean cost
/// above that mean (or its dearest sample); what it leaves out falls to later rows. `None` when more than `rows` are
/// needed.
///
/// **O(n width log n)** time, and n indices are moved for every row.
pub(crate) fn deal_rows(samples: &Samples, width: usize, rows: usize, evenness: u64) -> Option<Vec<MicroBatch>> {
    let mut batches = Vec::with_capacity(width * rows);
    let mut left: Vec<u32> = (0..samples.len() as u32).rev().collect();
    for _ in 0..rows {
        let (mut row, mut rest) = deal_row(samples, &left, width, u64::MAX);
        let mean = row.iter().map(|batch| batch.cost).sum::<u64>() / width as u64;
        let ceiling = mean.max(samples.cost(left[0])) + mean / evenness;
        if !rest.is_empty() && row.iter().any(|batch| batch.cost > ceiling) {
            (row, rest) = deal_row(samples, &left, width, ceiling);
        }
        batches.extend(row.into_iter().filter(|batch| !batch.samples.is_empty()));
        left = rest;
        if left.is_empty() {
            return Some(batches);
        }
    }
    None
}

/// One row from samples in descending order of cost, and the samples it has no room for.
fn deal_row(samples: &Samples, order: &[u32], width: usize, ceiling: u64) -> (Vec<MicroBatch>, Vec<u32>) {
    let mut row = vec![MicroBatch::default(); width];
    let mut rest = Vec::new();
    let mut next = 0;
    while let Some(&sample) = order.get(next) {
        let cost = samples.cost(sample);
        let open = |batch: &&mut MicroBatch| {
            batch.samples.is_empty() || batch.cost + cost <= ceiling && samples.accepts(batch, sample)
        };
        if let Some(batch) = row.iter_mut().filter(open).min_by_key(|batch| (batch.cost, batch.samples.len())) {
            samples.add(batch, sample);
            next += 1;
            continue;
        }
        // On to the first sample that some micro-batch has room for. Bisection finds it where dearer samples are
        // longer; where they are not, it may pass one over, for a later row.
        let no_room = |batch: &MicroBatch| {
            let length = samples.room.longest_welcome(batch.load);
            let too_large = |sample: u32| length.is_none_or(|length| samples.room.length(sample) > length);
            order[next..].partition_point(|&sample| {
                too_large(sample) || samples.cost(sample) > ceiling - batch.cost.min(ceiling)
            })
        };
        let skipped = row.iter().map(no_room).min().unwrap_or(0).max(1);
        rest.extend(&order[next..next + skipped]);
        next += skipped;
    }
    (row, rest)
}

/// Deals all samples over `count` micro-batches, dearest first, each to the cheapest that has room; `None` when none
/// of the [`TRIES`] cheapest has. **O(n log b)** time for b micro-batches.
pub(crate) fn deal_to_cheapest(samples: &Samples, count: usize) -> Option<Vec<MicroBatch>> {
    let mut batches = vec![MicroBatch::default(); count];
    let mut cheapest: BinaryHeap<_> = (0..count).map(|place| Reverse((0, 0, place))).collect();
    let mut full = Vec::with_capacity(TRIES);
    for sample in (0..samples.len() as u32).rev() {
        let place = loop {
            let entry @ Reverse((_, _, place)) = cheapest.pop()?;
            if samples.accepts(&batches[place], sample) {
                break place;
            }
            full.push(entry);
            if full.len() == TRIES {
                return None;
            }
        };
        samples.add(&mut batches[place], sample);
        cheapest.push(Reverse((batches[place].cost, batches[place].samples.len(), place)));
        cheapest.extend(full.drain(..));
    }
    Some(batches)
}

/// Micro-batches without room that a sample tries.
const TRIES: usize = 64;
