//! The partitioner against the four-line naive method, which touches every set at every merge.
use flopbalance_core::{Weight, Weights, karmarkar_karp};
use proptest::prelude::*;
use std::num::NonZeroUsize;

/// Every state is k item lists; nothing is remembered, every sum is added up anew from left to right.
fn naive<W: Weight>(weights: &[W], k: usize, equal_size: bool) -> Vec<Vec<u32>> {
    type State = Vec<Vec<u32>>;
    let sum = |set: &[u32]| set.iter().fold(W::default(), |sum, &i| sum + weights[i as usize]);
    let set_order =
        |a: &Vec<u32>, b: &Vec<u32>| sum(a).order(sum(b)).then(a.len().cmp(&b.len())).then(a.first().cmp(&b.first()));
    let state_order = |a: &State, b: &State| {
        let spread = |state: &State| sum(&state[0]) - sum(&state[k - 1]);
        spread(a).order(spread(b)).then_with(|| set_order(&a[0], &b[0]))
    };
    let mut items: Vec<u32> = (0..weights.len() as u32).collect();
    items.sort_by(|&a, &b| weights[a as usize].order(weights[b as usize]));
    let mut states: Vec<State> = items
        .chunks(if equal_size { k } else { 1 })
        .map(|run| {
            let mut state: State = run.iter().rev().map(|&item| vec![item]).collect();
            state.resize(k, Vec::new());
            state
        })
        .collect();
    while states.len() > 1 {
        states.sort_by(state_order);
        let (mut a, b) = (states.pop().unwrap(), states.pop().unwrap());
        for (set, other) in a.iter_mut().zip(b.into_iter().rev()) {
            set.extend(other);
        }
        a.sort_by(|x, y| set_order(y, x));
        states.push(a);
    }
    states.pop().unwrap()
}

fn fast(weights: &Weights<'_>, k: usize, equal_size: bool) -> Vec<Vec<u32>> {
    let groups = karmarkar_karp(weights, NonZeroUsize::new(k).unwrap(), equal_size).unwrap();
    groups.iter().map(<[u32]>::to_vec).collect()
}

fn agree(weights: &Weights<'_>, k: usize, equal_size: bool) {
    let expected = match weights {
        Weights::U64(weights) => naive(weights, k, equal_size),
        Weights::U128(weights) => naive(weights, k, equal_size),
        Weights::F64(weights) => naive(weights, k, equal_size),
    };
    assert_eq!(fast(weights, k, equal_size), expected, "k = {k}, equal_size = {equal_size}, {weights:?}");
}

fn in_both_modes(weights: &Weights<'_>, k: usize) {
    agree(weights, k.clamp(1, weights.len()), false);
    if let Some(k) = (1..=k.min(weights.len())).rev().find(|&k| weights.len().is_multiple_of(k)) {
        agree(weights, k, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn many_ties(weights in prop::collection::vec(0_u64..6, 1..70), k in 1_usize..20) {
        in_both_modes(&Weights::from_u64(weights), k);
    }

    #[test]
    fn wide_range(weights in prop::collection::vec(any::<u32>(), 1..60), shifts in prop::collection::vec(0_u32..32, 60), k in 1_usize..60) {
        let weights: Vec<u64> = weights.iter().zip(shifts).map(|(&w, shift)| u64::from(w >> shift)).collect();
        in_both_modes(&Weights::from_u64(weights), k);
    }

    #[test]
    fn sums_beyond_64_bits(weights in prop::collection::vec(any::<u64>(), 3..40), k in 1_usize..12) {
        in_both_modes(&Weights::from_u64(weights), k);
    }

    #[test]
    fn floats_whose_sums_round(mut weights in prop::collection::vec(0.0_f64..1.0, 2..60), k in 1_usize..12) {
        weights[0] = 1e9;
        in_both_modes(&Weights::from_f64("w", &weights).unwrap(), k);
    }

    #[test]
    fn equal_weights(weight in 0_u64..3, n in 1_usize..60, k in 1_usize..60) {
        in_both_modes(&Weights::from_u64(vec![weight; n]), k);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Enough sets that runs spill into heaps, and that heaps are used up and sorted again.
    #[test]
    fn many_parts(weights in prop::collection::vec(any::<u32>(), 400..900), power in 1_u32..5, k in 50_usize..300) {
        let skewed = weights.iter().map(|&w| (f64::from(w) / f64::from(u32::MAX)).powi(power.cast_signed() * 3)).map(|w| (w * 1e9) as u64);
        in_both_modes(&Weights::from_u64(skewed.collect::<Vec<u64>>()), k);
    }
}

#[test]
fn examples_of_the_published_behaviour() {
    let parts = |weights: &[u64], k, equal| {
        let mut sets = fast(&Weights::from_u64(weights.to_vec()), k, equal);
        for set in &mut sets {
            set.sort_unstable();
        }
        sets
    };
    assert_eq!(parts(&[8, 7, 6, 5, 4], 2, false), [vec![1, 3, 4], vec![0, 2]]);
    assert_eq!(parts(&[5; 6], 3, false), [[0, 5], [1, 4], [2, 3]]);
    assert_eq!(parts(&[0; 5], 3, false), [vec![0, 3], vec![1, 2], vec![4]]);
    assert_eq!(parts(&[8, 7, 6, 5, 4, 3], 2, true), [[0, 3, 4], [1, 2, 5]]);
}

#[test]
fn impossible_counts_are_refused() {
    let refused = |n, k: usize, equal| {
        let weights = Weights::from_u64(vec![1; n]);
        karmarkar_karp(&weights, NonZeroUsize::new(k).unwrap(), equal).unwrap_err().to_string()
    };
    assert_eq!(refused(2, 3, false), "k_partitions must be <= the number of items, 2, got 3");
    assert!(refused(5, 2, true).contains("must divide the number of items, 5"));
}
