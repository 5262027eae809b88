//! As few micro-batches as can be found: first fit decreasing opens another row sooner than it must, and a row is one more
//! micro-batch on every rank.
//!
//! Whether so many micro-batches hold all samples is hard to say. A bound says in a pass where they do not; where it leaves
//! the question open, packings are tried: Karmarkar–Karp by tokens, whose parts are so even that they fit wherever samples
//! are many and short; the micro-batches there are, of which the emptiest are dissolved into the others; and for a small
//! step, all.
use crate::capped::exact_fit::exact_fit;
use crate::capped::samples::{MicroBatch, Samples};
use crate::interrupt::Work;
use crate::partition::{ItemOrder, partition};
use std::cmp::Reverse;

/// Packs samples into fewer rows of `width` micro-batches than `packed` takes, as long as one fewer is found.
///
/// **O(n log n)** time for each row.
pub(crate) fn in_fewest_rows(samples: &Samples, mut packed: Vec<MicroBatch>, width: usize) -> Vec<MicroBatch> {
    let rows = |batches: usize| batches.div_ceil(width);
    if rows(packed.len()) <= 1 {
        return packed;
    }
    let least = rows(least(samples));
    while least < rows(packed.len()) {
        let target = (rows(packed.len()) - 1) * width;
        let fewer = even_parts(samples, target)
            .or_else(|| dissolve(samples, &packed, target))
            .or_else(|| exact_fit(samples, target));
        match fewer {
            Some(fewer) => packed = fewer,
            None => break,
        }
    }
    packed
}

/// No packing of the samples has fewer micro-batches.
pub(crate) fn least(samples: &Samples) -> usize {
    let amounts = samples.room.amounts().map(|(amounts, cap)| (amounts.iter().copied(), cap));
    least_batches(samples.len(), samples.room.max_samples(), amounts)
}

/// No packing has fewer micro-batches of so many samples at most, and of amounts with a cap each. Samples above half a cap
/// never share one; what they leave of it is of no use to samples that need more, wherever one draws that line (Martello and
/// Toth's bound L2, for every cap).
///
/// **O(n log n)** time.
pub(crate) fn least_batches<A: Iterator<Item = u64>>(
    samples: usize,
    max_samples: u64,
    amounts: impl Iterator<Item = (A, u64)>,
) -> usize {
    let by_count = (samples as u64).div_ceil(max_samples) as usize;
    amounts.map(|(amounts, cap)| least_bins(amounts, cap)).fold(by_count.max(1), usize::max)
}

fn least_bins(amounts: impl Iterator<Item = u64>, cap: u64) -> usize {
    let mut descending: Vec<u64> = amounts.collect();
    descending.sort_unstable_by_key(|&amount| Reverse(amount));
    let sums: Vec<u128> = std::iter::once(0)
        .chain(descending.iter().scan(0, |sum, &amount| {
            *sum += u128::from(amount);
            Some(*sum)
        }))
        .collect();
    let large = descending.partition_point(|&amount| amount > cap / 2);
    let mut work = Work::default();
    let more = (large..descending.len()).map(|last| {
        work.did(STEPS_PER_LINE);
        let line = descending[last];
        let without_room = descending[..large].partition_point(|&amount| amount > cap.saturating_sub(line));
        let rest = u128::from(cap) * (large - without_room) as u128 - (sums[large] - sums[without_room]);
        let beyond = (sums[last + 1] - sums[large]).saturating_sub(rest);
        beyond.div_ceil(u128::from(cap.max(1))) as usize // with a cap of 0 nothing is beyond it
    });
    large + more.max().unwrap_or(0)
}

/// Steps of [`Work`] in drawing a line.
const STEPS_PER_LINE: usize = 16;

/// Karmarkar–Karp by tokens into so many parts, where a cap on tokens is the only limit; what is above the cap in one part
/// is traded for what is shorter in another.
fn even_parts(samples: &Samples, parts: usize) -> Option<Vec<MicroBatch>> {
    let cap = samples.room.only_cap()? as u64;
    let (alone, others): (Vec<u32>, Vec<u32>) =
        samples.as_given().into_iter().partition(|&sample| samples.room.length(sample) >= cap);
    let parts = parts.checked_sub(alone.len())?.min(others.len());
    if parts == 0 && !others.is_empty() {
        return None;
    }
    let mut batches: Vec<MicroBatch> = alone.into_iter().map(|sample| samples.batch(vec![sample])).collect();
    let first = batches.len();
    if parts > 0 {
        let lengths: Vec<u64> = others.iter().map(|&sample| samples.room.length(sample)).collect();
        batches.extend(
            partition(&lengths, parts, false, ItemOrder::Ascending).iter().filter(|part| !part.is_empty()).map(
                |part| {
                    let mut part: Vec<u32> = part.iter().map(|&item| others[item as usize]).collect();
                    part.sort_unstable();
                    samples.batch(part)
                },
            ),
        );
    }
    bring_below(samples, &mut batches[first..], cap).then_some(batches)
}

/// Trades samples until no micro-batch is above the cap; `false` when no single trade brings less above it.
fn bring_below(samples: &Samples, batches: &mut [MicroBatch], cap: u64) -> bool {
    let length = |sample: Option<u32>| sample.map_or(0, |sample| samples.room.length(sample));
    let above = |tokens: u64| tokens.saturating_sub(cap);
    let (mut looked_at, mut work) = (0, Work::default());
    loop {
        let fullest = (0..batches.len()).max_by_key(|&position| (batches[position].load.tokens(), Reverse(position)));
        let Some(fullest) = fullest.filter(|&position| batches[position].load.tokens() > cap) else { return true };
        let tokens = |position: usize| batches[position].load.tokens();
        let mut best: Option<(u64, u32, usize, Option<u32>)> = None;
        for (other, batch) in batches.iter().enumerate().filter(|&(other, _)| other != fullest) {
            let now = above(tokens(fullest)) + above(tokens(other));
            let pairs = batches[fullest].samples.len() * (batch.samples.len() + 1);
            work.did(pairs);
            looked_at += pairs;
            if looked_at > MOST_LOOKED_AT {
                return false;
            }
            for &give in &batches[fullest].samples {
                for take in batch.samples.iter().copied().map(Some).chain([None]) {
                    let Some(less) = length(Some(give)).checked_sub(length(take)) else { continue };
                    let after = above(tokens(fullest) - less) + above(tokens(other) + less);
                    let gain = now.saturating_sub(after);
                    if gain > best.map_or(0, |(gain, ..)| gain) {
                        best = Some((gain, give, other, take));
                    }
                }
            }
        }
        let Some((_, give, other, take)) = best else { return false };
        samples.remove(&mut batches[fullest], give);
        samples.add(&mut batches[other], give);
        if let Some(take) = take {
            samples.remove(&mut batches[other], take);
            samples.add(&mut batches[fullest], take);
        }
    }
}

/// Samples that may be looked at for one packing, so that it takes some milliseconds at most.
const MOST_LOOKED_AT: usize = 1 << 21;

/// Takes the emptiest micro-batches apart until `target` are left, and puts their samples into the others, longest first:
/// where one has room, or in the place of a shorter one, which then looks for a place of its own.
fn dissolve(samples: &Samples, packed: &[MicroBatch], target: usize) -> Option<Vec<MicroBatch>> {
    let mut fullest_first: Vec<&MicroBatch> = packed.iter().collect();
    fullest_first.sort_by_key(|batch| Reverse(batch.load.tokens()));
    let (kept, dissolved) = fullest_first.split_at_checked(target)?;
    let mut batches: Vec<MicroBatch> = kept.iter().copied().cloned().collect();
    let mut homeless: Vec<u32> = dissolved.iter().flat_map(|batch| &batch.samples).copied().collect();
    homeless.sort_unstable_by_key(|&sample| Reverse(size(samples, sample)));
    let (mut looked_at, mut work) = (0, Work::default());
    for mut sample in homeless {
        loop {
            looked_at += samples.len();
            if looked_at > MOST_LOOKED_AT {
                return None;
            }
            work.did(samples.len());
            if let Some(position) = fullest_with_room(samples, &batches, sample) {
                samples.add(&mut batches[position], sample);
                break;
            }
            let (position, smaller) = smallest_to_replace(samples, &batches, sample)?;
            samples.remove(&mut batches[position], smaller);
            samples.add(&mut batches[position], sample);
            sample = smaller;
        }
    }
    Some(batches)
}

/// By which samples are larger and smaller; no two are alike, so that replacing comes to an end.
fn size(samples: &Samples, sample: u32) -> (u64, u64, u32) {
    (samples.room.length(sample), samples.room.extra_of(sample), sample)
}

fn fullest_with_room(samples: &Samples, batches: &[MicroBatch], sample: u32) -> Option<usize> {
    let with_room = (0..batches.len()).filter(|&position| samples.accepts(batches[position].load, sample));
    with_room.max_by_key(|&position| (batches[position].load.tokens(), Reverse(position)))
}

/// The smallest sample whose place another can take, and the micro-batch in which it is.
fn smallest_to_replace(samples: &Samples, batches: &[MicroBatch], sample: u32) -> Option<(usize, u32)> {
    let mut smallest: Option<(usize, u32)> = None;
    let mut limit = size(samples, sample);
    for (position, batch) in batches.iter().enumerate() {
        for &other in &batch.samples {
            if size(samples, other) < limit && samples.swaps(batch, Some(other), Some(sample)) {
                (smallest, limit) = (Some((position, other)), size(samples, other));
            }
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capped::limits::Caps;
    use crate::capped::starts::first_fit_decreasing;
    use proptest::prelude::*;

    fn samples(lengths: &[i64], max_tokens: i64, padded: bool, extra: Option<(&[i64], i64)>) -> Samples {
        Samples::new(lengths, &vec![1; lengths.len()], &Caps { padded, extra, ..Caps::new(max_tokens) })
    }

    fn plain(lengths: &[i64], max_tokens: i64) -> Samples {
        samples(lengths, max_tokens, false, None)
    }

    fn rows(samples: &Samples, width: usize) -> usize {
        in_fewest_rows(samples, first_fit_decreasing(samples), width).len()
    }

    #[test]
    fn two_are_found_where_first_fit_decreasing_needs_three() {
        let samples = plain(&[6, 8, 17, 21, 7, 4], 32);
        assert_eq!((first_fit_decreasing(&samples).len(), rows(&samples, 1), least(&samples)), (3, 2, 2));
    }

    #[test]
    fn the_bound_counts_large_samples_and_what_no_room_of_theirs_holds() {
        assert_eq!(least(&plain(&[6, 6, 6, 4], 10)), 3);
        // 5 does not fit beside 6, so that two bins of fives come on top.
        assert_eq!(least(&plain(&[6, 6, 5, 5, 5], 10)), 4);
        assert_eq!(least(&plain(&[30, 30, 1], 10)), 3);
        assert_eq!(least(&plain(&[0, 0], 10)), 1);
        assert_eq!(least(&samples(&[1; 6], 6, false, Some((&[3, 0, 3, 0, 3, 0], 4)))), 3);
    }

    #[test]
    fn samples_without_room_take_the_place_of_smaller_ones() {
        let samples = plain(&[7, 1, 6, 2, 3], 10);
        let packed = samples_of(&samples, &[&[7, 1], &[6, 2], &[3]]);
        let dissolved = dissolve(&samples, &packed, 2)
            .map(|batches| batches.iter().map(|batch| batch.load.tokens()).collect::<Vec<_>>());
        assert_eq!(dissolved, Some(vec![10, 9]));
        assert!(dissolve(&samples, &packed, 1).is_none());
    }

    /// Micro-batches of samples of these lengths.
    fn samples_of(samples: &Samples, lengths: &[&[u64]]) -> Vec<MicroBatch> {
        let mut left: Vec<u32> = (0..samples.len() as u32).collect();
        let mut take = |length: u64| {
            let position = left.iter().position(|&sample| samples.room.length(sample) == length).unwrap();
            left.remove(position)
        };
        lengths
            .iter()
            .map(|lengths| {
                let mut batch: Vec<u32> = lengths.iter().map(|&length| take(length)).collect();
                batch.sort_unstable();
                samples.batch(batch)
            })
            .collect()
    }

    /// The fewest micro-batches, by trying everything.
    fn fewest(samples: &Samples, batches: &mut Vec<MicroBatch>, next: u32) -> usize {
        if next as usize == samples.len() {
            return batches.len();
        }
        let mut best = usize::MAX;
        for position in 0..batches.len() {
            if samples.accepts(batches[position].load, next) {
                samples.push(&mut batches[position], next);
                best = best.min(fewest(samples, batches, next + 1));
                samples.remove(&mut batches[position], next);
            }
        }
        batches.push(samples.batch(vec![next]));
        best = best.min(fewest(samples, batches, next + 1));
        batches.pop();
        best
    }

    proptest! {
        #[test]
        fn packings_keep_every_sample_and_limit_and_are_no_fewer_than_the_fewest(
            given in proptest::collection::vec((0_i64..13, 0_i64..9), 1..8),
            cap in 1_i64..24, max_extra in 1_i64..16, kind in 0..3, width in 1_usize..3,
        ) {
            let (lengths, amounts): (Vec<i64>, Vec<i64>) = given.into_iter().unzip();
            let samples = samples(&lengths, cap, kind == 1, (kind == 2).then_some((&amounts[..], max_extra)));
            let packed = first_fit_decreasing(&samples);
            let before = packed.len();
            let batches = in_fewest_rows(&samples, packed, width);
            prop_assert!(batches.iter().all(|batch| samples.room.holds(batch.load) && !batch.samples.is_empty()));
            let mut all: Vec<u32> = batches.iter().flat_map(|batch| batch.samples.clone()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..samples.len() as u32).collect::<Vec<_>>());
            let fewest = fewest(&samples, &mut vec![], 0);
            prop_assert!(least(&samples) <= fewest && fewest <= batches.len());
            prop_assert!(batches.len().div_ceil(width) <= before.div_ceil(width));
        }
    }
}
