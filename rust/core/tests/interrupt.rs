//! Every call that may take long can be stopped, and is the same when nobody does.
use flopbalance_core::{
    Cap, Capped, CostCurve, Error, Groups, ItemOrder, Layout, Lengths, Objective, Packing, PartSizes, Pipeline,
    Request, Result, Weights, first_fit, interruptible, karmarkar_karp, measure, moments, plan, simulate_pipeline,
    split,
};
use std::cell::Cell;
use std::num::{NonZeroU64, NonZeroUsize};

/// Long enough to be asked in any build.
const SAMPLES: usize = if cfg!(debug_assertions) { 400_000 } else { 4_000_000 };

fn lengths() -> Vec<i64> {
    (0..SAMPLES as i64).map(|i| i * i % 30_011 + 1).collect()
}

fn size(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap()
}

fn assert_stops<T: std::fmt::Debug>(what: &str, work: impl FnOnce() -> Result<T>) {
    let refused = interruptible(|| true, work).map(|_| "an answer").unwrap_err();
    assert_eq!(refused, Error::Interrupted, "{what}");
}

#[test]
fn the_parts_stop() {
    let lengths = lengths();
    let checked = Lengths::new(&lengths).unwrap();
    let integers: Vec<u64> = lengths.iter().map(|&length| length as u64).collect();
    let wide: Vec<u128> = lengths.iter().map(|&length| (length as u128) << 64).collect();
    let floats: Vec<f64> = lengths.iter().map(|&length| (length as f64).sqrt()).collect();
    let weights = [Weights::from_u64(integers), Weights::from_u128(wide).unwrap(), Weights::from_f64(floats).unwrap()];
    for weights in &weights {
        for (parts, sizes) in [(8, PartSizes::Equal), (SAMPLES / 2, PartSizes::Equal), (SAMPLES / 4, PartSizes::Free)] {
            assert_stops("partition", || karmarkar_karp(weights, size(parts), sizes, ItemOrder::Joined));
        }
    }
    assert_stops("first fit", || first_fit(checked, 32_768));
    let all: Vec<i64> = (0..SAMPLES as i64).collect();
    let mut bins = Groups::from_sizes(&all, &[SAMPLES as i64], SAMPLES).unwrap();
    assert_stops("split", || split(&mut bins, SAMPLES, checked));
}

#[test]
fn plans_stop() {
    let lengths = lengths();
    let costs = Weights::from_u64(lengths.iter().map(|&length| (length * length) as u64).collect::<Vec<_>>());
    let cap = Cap::new(NonZeroU64::new(32_768).unwrap());
    let pipeline = Pipeline::new(NonZeroU64::new(4).unwrap(), NonZeroU64::MIN, None).unwrap();
    let mut through_four = Capped::new(Objective::Pipeline(pipeline));
    through_four.micro_batch_overhead = Some(1e9);
    let capped = |objective| Packing::Capped(cap, Capped::new(objective));
    let packings = [
        Packing::FirstFit(cap),
        Packing::Flops(cap),
        capped(Objective::Step),
        capped(Objective::MicroBatch),
        Packing::Capped(cap, through_four),
        capped(Objective::PipelinedRows(pipeline)),
    ];
    for packing in packings {
        for global_batch_size in [None, NonZeroUsize::new(4096)] {
            let mut request = Request::new(size(8), packing);
            request.global_batch_size = global_batch_size;
            assert_stops("plan", || plan(Lengths::new(&lengths)?, &costs, &request));
        }
    }
}

#[test]
fn measures_and_costs_stop() {
    let lengths = vec![i64::from(u32::MAX); SAMPLES];
    let all: Vec<i64> = (0..lengths.len() as i64).collect();
    let ends: Vec<i64> = (0..=lengths.len() as i64).collect();
    let counts = [lengths.len() as i64];
    let layout = Layout::new(&all, &ends, &counts, size(1)).unwrap();
    let costs = vec![1.0; lengths.len()];
    assert_stops("measure", || (0..9).try_for_each(|_| measure(&layout, &costs, &Pipeline::default(), 0.0).map(drop)));
    let long = Pipeline::new(NonZeroU64::new(256).unwrap(), NonZeroU64::MIN, None).unwrap();
    assert_stops("simulate_pipeline", || simulate_pipeline(&Weights::from_u64(vec![1; SAMPLES]), &long));
    let steps = vec![1; lengths.len()];
    let layout = Layout::new(&all, &ends, &steps, size(1)).unwrap();
    assert_stops("measure of short steps", || measure(&layout, &costs, &long, 0.0));
    let curve = CostCurve::new(1, 1, 1, vec![(512, 7)]);
    assert_stops("curve", || (0..9).try_for_each(|_| curve.flops_rounded(&lengths).map(drop)));
    assert_stops("moments", || (0..9).try_for_each(|_| moments(&lengths, &[1024, 4096]).map(drop)));
}

#[test]
fn a_call_that_nobody_stops_is_the_same() {
    thread_local!(static ASKED: Cell<u32> = const { Cell::new(0) });
    let weights = Weights::from_u64(lengths().into_iter().map(|length| length as u64).collect::<Vec<_>>());
    let partition = || karmarkar_karp(&weights, size(8), PartSizes::Free, ItemOrder::Joined);
    let watched = interruptible(
        || {
            ASKED.set(ASKED.get() + 1);
            false
        },
        partition,
    );
    assert!(watched.is_ok() && watched == partition());
    assert!(ASKED.get() > 0);
}

#[test]
fn a_call_within_a_question_has_a_watch_of_its_own() {
    let small = || karmarkar_karp(&Weights::from_u64(vec![3, 2, 1]), size(2), PartSizes::Free, ItemOrder::Joined);
    let weights = Weights::from_u64(lengths().into_iter().map(|length| length as u64).collect::<Vec<_>>());
    let within = || {
        let answered = interruptible(
            || false,
            || karmarkar_karp(&Weights::from_u64(vec![3, 2, 1]), size(2), PartSizes::Free, ItemOrder::Joined),
        );
        answered.is_ok()
    };
    let stopped = interruptible(within, || karmarkar_karp(&weights, size(8), PartSizes::Free, ItemOrder::Joined));
    assert_eq!(stopped, Err(Error::Interrupted));
    assert!(small().is_ok());
}

#[test]
#[should_panic(expected = "mine")]
fn other_panics_go_on() {
    let _ = interruptible(|| false, || -> Result<()> { panic!("mine") });
}
