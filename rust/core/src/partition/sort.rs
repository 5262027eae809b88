//! Order by (weight, index), in linear time.
use crate::interrupt::{Work, pieces};
use crate::weights::Weight;

/// Below this many items a comparison sort is faster than counting digits.
const SMALL: usize = 1024;
/// Of keys that differ in more bits than two digits have, a round settles that many.
const DIGIT_BITS: u32 = 11;

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    key: u64,
    index: u32,
}

/// Indices of `weights`, ascending by (weight, index).
///
/// Computes in **O(n)** time and space for weights of 64 bits, in **O(n log n)** for wider ones.
pub(crate) fn ascending<W: Weight>(weights: &[W]) -> Vec<u32> {
    in_order(weights, |_, index| index)
}

/// The same with what is made of each weight and its index.
///
/// Every weight is read once: another thread may write to an array meanwhile.
pub(crate) fn in_order<W: Weight, T>(weights: &[W], make: impl Fn(W, u32) -> T) -> Vec<T> {
    let Some(keys) = keys(weights) else {
        let mut order: Vec<u32> = (0..weights.len() as u32).collect();
        let mut work = Work::default();
        order.sort_by(|&a, &b| {
            work.did(1);
            weights[a as usize].order(weights[b as usize])
        });
        return order.into_iter().map(|index| make(weights[index as usize], index)).collect();
    };
    let differing = differing_bits(keys.iter().copied());
    if keys.len() >= SMALL && differing <= 2 * DIGIT_BITS {
        let common = keys[0] & !low(differing);
        let words = in_two_passes(keys, differing);
        return collect(&words, |&word| make(W::of_radix_key(common | word >> u32::BITS), word as u32));
    }
    let mut entries: Vec<Entry> = (0..).zip(keys).map(|(index, key)| Entry { key, index }).collect();
    let mut scratch = vec![Entry::default(); if entries.len() < SMALL { 0 } else { entries.len() }];
    sort(&mut entries, &mut scratch);
    collect(&entries, |entry| make(W::of_radix_key(entry.key), entry.index))
}

fn keys<W: Weight>(weights: &[W]) -> Option<Vec<u64>> {
    let mut keys = Vec::with_capacity(weights.len());
    for weight in weights {
        keys.push(weight.radix_key()?);
    }
    Some(keys)
}

/// The lowest bits in which keys differ.
fn differing_bits(keys: impl Iterator<Item = u64>) -> u32 {
    let (all, any) = keys.fold((u64::MAX, 0), |(all, any), key| (all & key, any | key));
    u64::BITS - (all ^ any).leading_zeros()
}

/// The same items in ascending order of a key; equal ones keep their order.
pub(crate) fn sorted_by<W: Weight>(items: &[u32], key: impl Fn(u32) -> W) -> Vec<u32> {
    let keys = collect(items, |&item| key(item));
    collect(&ascending(&keys), |&index| items[index as usize])
}

fn collect<T, U>(values: &[T], make: impl Fn(&T) -> U) -> Vec<U> {
    let mut collected = Vec::with_capacity(values.len());
    for piece in pieces(values) {
        collected.extend(piece.iter().map(&make));
    }
    collected
}

/// Words of the lowest bits of a key, in which all differ, and its index: by two digits of half of these bits, both counted
/// at once.
fn in_two_passes(keys: Vec<u64>, differing: u32) -> Vec<u64> {
    let bits = differing.div_ceil(2);
    let digits = |key: u64| [key & low(bits), key >> bits & low(differing - bits)];
    let mut starts = [vec![0_u32; 1 << bits], vec![0; 1 << bits]];
    for piece in pieces(&keys) {
        for &key in piece {
            let [first, second] = digits(key);
            starts[0][first as usize] += 1;
            starts[1][second as usize] += 1;
        }
    }
    for counts in &mut starts {
        count_to_start(counts);
    }
    let mut words = vec![0; keys.len()];
    let mut index = 0;
    for piece in pieces(&keys) {
        for &key in piece {
            words[next(&mut starts[0], digits(key)[0])] = (key & low(differing)) << u32::BITS | index;
            index += 1;
        }
    }
    let mut sorted = keys;
    for piece in pieces(&words) {
        for &word in piece {
            sorted[next(&mut starts[1], digits(word >> u32::BITS)[1])] = word;
        }
    }
    sorted
}

fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn count_to_start(counts: &mut [u32]) {
    let mut next = 0;
    for count in counts {
        next += std::mem::replace(count, next);
    }
}

fn next(starts: &mut [u32], digit: u64) -> usize {
    let place = &mut starts[digit as usize];
    *place += 1;
    *place as usize - 1
}

/// Sorts entries that stand in ascending order of index: two stable counting passes over the highest bits
/// in which the keys differ, then the runs that still tie, each on its own highest bits. Every round settles
/// 22 bits, so three settle a key.
fn sort(entries: &mut [Entry], scratch: &mut [Entry]) {
    if entries.len() < SMALL {
        entries.sort_unstable();
        return;
    }
    let differing = differing_bits(entries.iter().map(|entry| entry.key));
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
    let digit = |entry: &Entry| entry.key >> shift & low(DIGIT_BITS);
    let mut starts = [0_u32; 1 << DIGIT_BITS];
    for piece in pieces(from) {
        for entry in piece {
            starts[digit(entry) as usize] += 1;
        }
    }
    count_to_start(&mut starts);
    for piece in pieces(from) {
        for entry in piece {
            to[next(&mut starts, digit(entry))] = *entry;
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
        fn equals_a_stable_comparison_sort(
            bits in 1_u32..=64, common in any::<u64>(), seed in any::<u64>(), n in 0_usize..5000,
        ) {
            let mut state = seed | 1;
            let common = if bits == 64 { 0 } else { common << bits };
            let weights: Vec<u64> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    common | (state ^ state >> 29) >> (64 - bits)
                })
                .collect();
            prop_assert_eq!(ascending(&weights), by_comparison(&weights));
            let pairs = in_order(&weights, |weight, index| (weight, index));
            prop_assert!(pairs.iter().all(|&(weight, index)| weight == weights[index as usize]));
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
