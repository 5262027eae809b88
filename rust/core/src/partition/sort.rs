//! Ascending order by (weight, index), in linear time.
use crate::interrupt::{Work, pieces};
use crate::weights::Weight;

/// Below this many items a comparison sort is faster than counting digits.
const SMALL: usize = 1024;
const DIGIT_BITS: u32 = 11;
const BUCKETS: usize = 1 << DIGIT_BITS;

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: u64,
    index: u32,
}

/// Indices of `weights`, ascending by (weight, index).
///
/// Computes in **O(n)** time and space for weights of 64 bits, in **O(n log n)** for wider ones.
pub(crate) fn ascending<W: Weight>(weights: &[W]) -> Vec<u32> {
    let entries: Option<Vec<Entry>> =
        (0..).zip(weights).map(|(index, weight)| weight.radix_key().map(|key| Entry { key, index })).collect();
    if let Some(mut entries) = entries {
        let mut scratch = vec![Entry::default(); if entries.len() < SMALL { 0 } else { entries.len() }];
        sort(&mut entries, &mut scratch);
        return entries.into_iter().map(|entry| entry.index).collect();
    }
    let mut order: Vec<u32> = (0..weights.len() as u32).collect();
    let mut work = Work::default();
    order.sort_by(|&a, &b| {
        work.did(1);
        weights[a as usize].order(weights[b as usize])
    });
    order
}

/// The same items in ascending order of a key; equal ones keep their order.
pub(crate) fn sorted_by<W: Weight>(items: &[u32], key: impl Fn(u32) -> W) -> Vec<u32> {
    let keys: Vec<W> = pieces(items).flatten().map(|&item| key(item)).collect();
    pieces(&ascending(&keys)).flatten().map(|&index| items[index as usize]).collect()
}

/// Sorts entries that stand in ascending order of index: two stable counting passes over the highest bits
/// in which the keys differ, then the runs that still tie, each on its own highest bits. Every round settles
/// 22 bits, so three settle a key.
fn sort(entries: &mut [Entry], scratch: &mut [Entry]) {
    if entries.len() < SMALL {
        entries.sort_unstable();
        return;
    }
    let (all, any) = entries.iter().fold((u64::MAX, 0), |(all, any), entry| (all & entry.key, any | entry.key));
    let differing = u64::BITS - (all ^ any).leading_zeros();
    if differing == 0 {
        return;
    }
    let shift = differing.saturating_sub(2 * DIGIT_BITS);
    let scratch = &mut scratch[..entries.len()];
    counting_pass(entries, scratch, shift);
    counting_pass(scratch, entries, shift + DIGIT_BITS);
    if shift > 0 {
        for run in entries.chunk_by_mut(|a, b| a.key >> shift == b.key >> shift) {
            if run.len() > 1 {
                sort(run, scratch);
            }
        }
    }
}

fn counting_pass(from: &[Entry], to: &mut [Entry], shift: u32) {
    let digit = |entry: &Entry| (entry.key >> shift) as usize & (BUCKETS - 1);
    let mut starts = [0_u32; BUCKETS];
    for piece in pieces(from) {
        for entry in piece {
            starts[digit(entry)] += 1;
        }
    }
    let mut next = 0;
    for start in &mut starts {
        next += std::mem::replace(start, next);
    }
    for piece in pieces(from) {
        for entry in piece {
            let position = &mut starts[digit(entry)];
            to[*position as usize] = *entry;
            *position += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_comparison(weights: &[u64]) -> Vec<u32> {
        let mut order: Vec<u32> = (0..weights.len() as u32).collect();
        order.sort_by_key(|&i| weights[i as usize]);
        order
    }

    proptest! {
        #[test]
        fn equals_a_stable_comparison_sort(bits in 1_u32..=64, seed in any::<u64>(), n in 0_usize..5000) {
            let mut state = seed | 1;
            let weights: Vec<u64> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state ^ state >> 29) >> (64 - bits)
                })
                .collect();
            prop_assert_eq!(ascending(&weights), by_comparison(&weights));
        }
    }

    #[test]
    fn settles_ties_in_the_high_bits() {
        let mut weights: Vec<u64> = (0..5000).map(|i| i * 7919 % 3001).collect();
        weights[17] = u64::MAX;
        assert_eq!(ascending(&weights), by_comparison(&weights));
        let wide: Vec<u128> = weights.iter().map(|&w| u128::from(w) << 64).collect();
        assert_eq!(ascending(&wide), by_comparison(&weights));
    }
}
