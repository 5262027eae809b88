//! The partitioner against the four-line naive method, which touches every set at every merge.
use flopbalance_core::{Error, ItemOrder, PartSizes, Weights, karmarkar_karp};
use proptest::prelude::*;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::ops::{Add, Sub};

/// A number that is balanced, with a total order.
trait Number: Copy + Debug + Default + PartialOrd + Add<Output = Self> + Sub<Output = Self> {
    fn order(self, other: Self) -> std::cmp::Ordering {
        self.partial_cmp(&other).expect("no weight is NaN")
    }
    fn weights(numbers: &[Self]) -> Weights<'_>;
    /// Whether sums differ by their order, and the largest that a sum in another order may be.
    const ROUNDS: bool = false;
    fn rounded_up(sum: Self) -> Self {
        sum
    }
}

impl Number for u64 {
    fn weights(numbers: &[Self]) -> Weights<'_> {
        Weights::from_u64(numbers)
    }
}

impl Number for u128 {
    fn weights(numbers: &[Self]) -> Weights<'_> {
        Weights::from_u128(numbers.to_vec()).unwrap()
    }
}

impl Number for f64 {
    fn weights(numbers: &[Self]) -> Weights<'_> {
        Weights::from_f64(numbers).unwrap()
    }
    const ROUNDS: bool = true;
    fn rounded_up(sum: Self) -> Self {
        sum * (1.0 + 1e-14)
    }
}

/// Every state is k item lists; nothing is remembered, every sum is added up anew from left to right.
fn naive<W: Number>(weights: &[W], k: usize, equal_size: bool) -> Vec<Vec<u32>> {
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

fn fast(weights: &Weights<'_>, k: usize, sizes: PartSizes) -> Vec<Vec<u32>> {
    let groups = |order| karmarkar_karp(weights, NonZeroUsize::new(k).unwrap(), sizes, order).unwrap();
    let joined = groups(ItemOrder::Joined);
    assert_eq!(groups(ItemOrder::Ascending), joined.clone().ascending());
    joined.iter().map(<[u32]>::to_vec).collect()
}

fn agree<W: Number>(numbers: &[W], k: usize, equal_size: bool) {
    let sizes = if equal_size { PartSizes::Equal } else { PartSizes::Free };
    let answer = fast(&W::weights(numbers), k, sizes);
    assert_eq!(answer, naive(numbers, k, equal_size), "k = {k}, equal_size = {equal_size}, {numbers:?}");
}

fn in_every_mode<W: Number>(numbers: &[W], k: usize) {
    let k = k.clamp(1, numbers.len());
    agree(numbers, k, false);
    bounded_agrees(numbers, k);
    if let Some(k) = (1..=k).rev().find(|k| numbers.len() % k == 0) {
        agree(numbers, k, true);
        refined_keeps_its_laws(numbers, k);
    }
}

/// Parts of bounded size are the equal-sized ones of the same weights and some of nothing, which are left out.
fn bounded_agrees<W: Number>(numbers: &[W], k: usize) {
    let missing = numbers.len().next_multiple_of(k) - numbers.len();
    let filled = [&vec![W::default(); missing][..], numbers].concat();
    let expected: Vec<Vec<u32>> = naive(&filled, k, true)
        .into_iter()
        .map(|part| part.into_iter().filter_map(|item| item.checked_sub(u32::try_from(missing).unwrap())).collect())
        .collect();
    assert_eq!(fast(&W::weights(numbers), k, PartSizes::Bounded), expected, "k = {k}, {numbers:?}");
}

/// Costliest first to the lightest part with room for one more item; the largest sum.
fn greedy<W: Number>(numbers: &[W], k: usize) -> W {
    let mut items = numbers.to_vec();
    items.sort_by(|&a, &b| b.order(a));
    let mut parts = vec![(W::default(), 0); k];
    for item in items {
        let with_room = parts.iter_mut().filter(|part| part.1 < numbers.len() / k);
        let part = with_room.min_by(|a, b| a.0.order(b.0)).unwrap();
        *part = (part.0 + item, part.1 + 1);
    }
    parts.into_iter().map(|part| part.0).max_by(|&a, &b| a.order(b)).unwrap()
}

/// Refined parts are equal-sized, no heavier than those of either method, and no exchange of two items helps.
fn refined_keeps_its_laws<W: Number>(numbers: &[W], k: usize) {
    let parts = fast(&W::weights(numbers), k, PartSizes::Refined);
    let mut items = parts.concat();
    items.sort_unstable();
    assert_eq!(items, (0..u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    assert!(parts.iter().all(|part| part.len() == numbers.len() / k && part.is_sorted()), "{parts:?}");
    let weight = |item: u32| numbers[item as usize];
    let sum = |part: &[u32]| {
        let mut weights: Vec<W> = part.iter().map(|&item| weight(item)).collect();
        weights.sort_by(|&a, &b| a.order(b));
        weights.into_iter().fold(W::default(), |sum, weight| sum + weight)
    };
    let heaviest = sum(&parts[0]);
    assert!(parts.is_sorted_by(|a, b| sum(a) >= sum(b)), "{parts:?}");
    let differenced = naive(numbers, k, true).iter().map(|part| sum(part)).max_by(|&a, &b| a.order(b)).unwrap();
    assert!(heaviest <= differenced && heaviest <= W::rounded_up(greedy(numbers, k)), "k = {k}, {numbers:?}");
    if W::ROUNDS {
        return;
    }
    for light in &parts[1..] {
        let lighter = sum(light);
        for (&ours, &theirs) in parts[0].iter().flat_map(|ours| light.iter().map(move |theirs| (ours, theirs))) {
            let [ours, theirs] = [ours, theirs].map(weight);
            let helps = heaviest - ours + theirs < heaviest && lighter - theirs + ours < heaviest;
            assert!(!helps, "k = {k}, {numbers:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn many_ties(weights in prop::collection::vec(0_u64..6, 1..70), k in 1_usize..20) {
        in_every_mode(&weights, k);
    }

    #[test]
    fn wide_range(weights in prop::collection::vec(any::<u32>(), 1..60), shifts in prop::collection::vec(0_u32..32, 60), k in 1_usize..60) {
        let weights: Vec<u64> = weights.iter().zip(shifts).map(|(&w, shift)| u64::from(w >> shift)).collect();
        in_every_mode(&weights, k);
    }

    #[test]
    fn sums_beyond_64_bits(weights in prop::collection::vec(any::<u64>(), 3..40), k in 1_usize..12) {
        let weights: Vec<u128> = weights.into_iter().map(u128::from).collect();
        in_every_mode(&weights, k);
    }

    #[test]
    fn floats_whose_sums_round(mut weights in prop::collection::vec(0.0_f64..1.0, 2..60), k in 1_usize..12) {
        weights[0] = 1e9;
        in_every_mode(&weights, k);
    }

    #[test]
    fn equal_weights(weight in 0_u64..3, n in 1_usize..60, k in 1_usize..60) {
        in_every_mode(&vec![weight; n], k);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Enough sets that runs spill into heaps, and that heaps are used up and sorted again.
    #[test]
    fn many_parts(weights in prop::collection::vec(any::<u32>(), 400..900), power in 1_u32..5, k in 50_usize..300) {
        let skewed = weights.iter().map(|&w| (f64::from(w) / f64::from(u32::MAX)).powi(power.cast_signed() * 3)).map(|w| (w * 1e9) as u64);
        in_every_mode(&skewed.collect::<Vec<u64>>(), k);
    }
}

#[test]
fn examples_of_the_published_behaviour() {
    let parts = |weights: &[u64], k, sizes| {
        let mut sets = fast(&Weights::from_u64(weights), k, sizes);
        for set in &mut sets {
            set.sort_unstable();
        }
        sets
    };
    assert_eq!(parts(&[8, 7, 6, 5, 4], 2, PartSizes::Free), [vec![1, 3, 4], vec![0, 2]]);
    assert_eq!(parts(&[5; 6], 3, PartSizes::Free), [[0, 5], [1, 4], [2, 3]]);
    assert_eq!(parts(&[0; 5], 3, PartSizes::Free), [vec![0, 3], vec![1, 2], vec![4]]);
    assert_eq!(parts(&[8, 7, 6, 5, 4, 3], 2, PartSizes::Equal), [[0, 3, 4], [1, 2, 5]]);
    assert_eq!(parts(&[8, 7, 6, 5, 4], 2, PartSizes::Bounded), [vec![1, 3, 4], vec![0, 2]]);
}

#[test]
fn refined_parts_are_even_where_equal_ones_are_not() {
    let parts = |sizes| fast(&Weights::from_u64(vec![36, 4, 4, 36, 100, 36]), 2, sizes);
    assert_eq!(parts(PartSizes::Equal), [[4, 0, 1], [5, 3, 2]]);
    assert_eq!(parts(PartSizes::Refined), [[1, 2, 4], [0, 3, 5]]);
}

#[test]
fn impossible_counts_are_refused() {
    let refused = |n, k: usize, sizes| {
        let weights = Weights::from_u64(vec![1; n]);
        karmarkar_karp(&weights, NonZeroUsize::new(k).unwrap(), sizes, ItemOrder::Joined).unwrap_err()
    };
    for sizes in [PartSizes::Free, PartSizes::Equal, PartSizes::Bounded, PartSizes::Refined] {
        let error = refused(2, 3, sizes);
        assert_eq!(error, Error::TooManyParts { parts: 3, weights: 2 });
        assert_eq!(error.to_string(), "parts must be <= the number of items, 2, got 3");
        assert_eq!(refused(0, 1, sizes), Error::NoWeights);
    }
    for sizes in [PartSizes::Equal, PartSizes::Refined] {
        let error = refused(5, 2, sizes);
        assert_eq!(error, Error::UnevenParts { parts: 2, weights: 5 });
        assert!(error.to_string().contains("must divide the number of items, 5"));
    }
}

#[test]
fn a_negative_zero_weighs_nothing() {
    // Its bits are those of a large number; as one, it would be the heaviest.
    let parts = |zero: f64| fast(&Weights::from_f64(&[0.1, zero, 1e300, zero][..]).unwrap(), 2, PartSizes::Free);
    assert_eq!(parts(-0.0), parts(0.0));
}
