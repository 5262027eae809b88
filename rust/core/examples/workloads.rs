//! Fixed workloads, one a run, whose instructions are counted: `workloads NAME`.
use std::hint::black_box;
use std::num::NonZeroUsize;

use flopbalance_core::{
    Capped, Leftover, Lengths, Limits, Objective, Packing, Published, Request, Result, Weights, first_fit,
    karmarkar_karp, plan,
};

const SAMPLES: usize = 19_968;
/// Of a step that is planned within the cap.
const CAPPED_SAMPLES: usize = 4_096;
const CAP: i64 = 36_864;

fn main() -> Result<()> {
    let lengths = lengths();
    let weights: Vec<u64> = lengths.iter().map(|&length| length.unsigned_abs()).collect();
    let weights = Weights::from_u64(weights);
    match std::env::args().nth(1).as_deref() {
        Some("equal-64") => drop(black_box(karmarkar_karp(&weights, count(64), true)?)),
        Some("unequal-64") => drop(black_box(karmarkar_karp(&weights, count(64), false)?)),
        Some("unequal-3000") => drop(black_box(karmarkar_karp(&weights, count(3000), false)?)),
        Some("first-fit") => drop(black_box(first_fit(&lengths, CAP))),
        Some("plan") => whole_plan(&lengths, Packing::Published(Published::Flops { max_tokens: CAP }))?,
        Some("capped-step") => whole_plan(&lengths[..CAPPED_SAMPLES], capped(Objective::Step))?,
        Some("capped-micro-batch") => whole_plan(&lengths[..CAPPED_SAMPLES], capped(Objective::MicroBatch))?,
        Some("capped-pipeline") => {
            let objective = Objective::Pipeline { stages: 4, micro_batch_overhead: 0 };
            whole_plan(&lengths[..CAPPED_SAMPLES], capped(objective))?;
        }
        other => panic!("no such workload: {other:?}"),
    }
    Ok(())
}

fn whole_plan(lengths: &[i64], packing: Packing<'_>) -> Result<()> {
    let costs: Vec<u64> = lengths.iter().map(|&s| (s * s + 24_576 * s).unsigned_abs()).collect();
    let request = Request {
        dp_size: count(64),
        micro_batch_multiple: count(1),
        packing,
        balance_ranks: true,
        rollout_ids: None,
        global_batch_size: None,
        leftover: Leftover::Drop,
    };
    drop(black_box(plan(Lengths::new(lengths)?, &Weights::from_u64(costs), &request)?));
    Ok(())
}

fn capped(objective: Objective) -> Packing<'static> {
    let limits = Limits { max_tokens: CAP, padded: false, extra: None };
    Packing::Capped(Capped { limits, objective, overhead_share: 0.0001, effort: 256, repeat: false })
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
