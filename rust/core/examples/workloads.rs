//! Fixed workloads, one a run, whose instructions are counted: `workloads NAME`.
use std::hint::black_box;
use std::num::{NonZeroU64, NonZeroUsize};

use flopbalance_core::{
    Cap, Capped, ItemOrder, Lengths, Objective, Packing, PartSizes, Pipeline, Request, Result, Weights, first_fit,
    karmarkar_karp, plan,
};

const SAMPLES: usize = 19_968;
/// Of a step that is planned within the cap.
const CAPPED_SAMPLES: usize = 4_096;
const CAP: u64 = 36_864;
/// Of a micro-batch in a pipeline, about a tenth of a sample.
const OVERHEAD: f64 = 2e7;

fn main() -> Result<()> {
    let lengths = lengths();
    let weights: Vec<u64> = lengths.iter().map(|&length| length.unsigned_abs()).collect();
    let weights = Weights::from_u64(weights);
    match std::env::args().nth(1).as_deref() {
        Some("equal-64") => parts(&weights, 64, PartSizes::Equal)?,
        Some("unequal-64") => parts(&weights, 64, PartSizes::Free)?,
        Some("unequal-3000") => parts(&weights, 3000, PartSizes::Free)?,
        Some("first-fit") => drop(black_box(first_fit(Lengths::new(&lengths)?, CAP))),
        Some("plan") => whole_plan(&lengths, Packing::Flops(cap()))?,
        Some("capped-step") => whole_plan(&lengths[..CAPPED_SAMPLES], capped(Objective::Step))?,
        Some("capped-micro-batch") => whole_plan(&lengths[..CAPPED_SAMPLES], capped(Objective::MicroBatch))?,
        Some("capped-pipeline") => {
            let stages = NonZeroU64::MIN.saturating_add(3);
            let mut how = Capped::new(Objective::Pipeline(Pipeline::new(stages, NonZeroU64::MIN, None)?));
            how.micro_batch_overhead = Some(OVERHEAD);
            whole_plan(&lengths[..CAPPED_SAMPLES], Packing::Capped(cap(), how))?;
        }
        other => panic!("no such workload: {other:?}"),
    }
    Ok(())
}

fn parts(weights: &Weights<'_>, k: usize, sizes: PartSizes) -> Result<()> {
    drop(black_box(karmarkar_karp(weights, count(k), sizes, ItemOrder::Ascending)?));
    Ok(())
}

fn whole_plan(lengths: &[i64], packing: Packing<'_>) -> Result<()> {
    let costs: Vec<u64> = lengths.iter().map(|&s| (s * s + 24_576 * s).unsigned_abs()).collect();
    let request = Request::new(count(64), packing);
    drop(black_box(plan(Lengths::new(lengths)?, &Weights::from_u64(costs), &request)?));
    Ok(())
}

fn capped(objective: Objective) -> Packing<'static> {
    Packing::Capped(cap(), Capped::new(objective))
}

fn cap() -> Cap {
    Cap::new(NonZeroU64::new(CAP).expect("the cap is not zero"))
}

fn count(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("the counts above are not zero")
}

/// Lengths of every magnitude up to 32,768, from a fixed linear congruential generator.
fn lengths() -> Vec<i64> {
    let mut state: u64 = 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(state >> 33).expect("31 bits")
    };
    (0..SAMPLES).map(|_| 1 + next() % (1 << (8 + next() % 8))).collect()
}
