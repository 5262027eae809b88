//! The whole way from lengths and costs to a schedule: steps, packing, alignment, dealing to ranks.
use crate::partition::partition;
use crate::weights::{Weight, Weights};
use crate::{Error, Groups, Lengths, Result, Steps, first_fit, split};
use std::borrow::Cow;
use std::num::NonZeroUsize;

/// How the samples of a step are packed into micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// First fit on tokens; the cap holds.
    FirstFit {
        /// The token cap of a micro-batch.
        max_tokens: i64,
    },
    /// Karmarkar–Karp on costs into as many parts as the cap would need; the cap may be exceeded.
    Flops {
        /// The token cap that decides the number of micro-batches.
        max_tokens: i64,
    },
    /// Runs of so many samples.
    Fixed {
        /// Samples per micro-batch.
        micro_batch_size: NonZeroUsize,
    },
}

/// What a plan is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Data-parallel ranks.
    pub dp_size: NonZeroUsize,
    /// Micro-batches per rank and step come in multiples of this.
    pub micro_batch_multiple: NonZeroUsize,
    /// The packing of a step.
    pub packing: Packing,
    /// Whether micro-batches are dealt to ranks by cost; otherwise in turn.
    pub balance_ranks: bool,
    /// The rollout that a sample belongs to; every sample is one when `None`.
    pub rollout_ids: Option<&'a [i64]>,
    /// Rollouts in a step; all when `None`.
    pub global_batch_size: Option<NonZeroUsize>,
}

/// Which samples every rank runs, in which micro-batches; rank by rank, then step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Sample indices, micro-batch by micro-batch.
    pub samples: Vec<i64>,
    /// Where each micro-batch ends in `samples`, after a leading 0.
    pub micro_batch_offsets: Vec<i64>,
    /// Tokens of each micro-batch.
    pub micro_batch_tokens: Vec<i64>,
    /// Micro-batches per rank in each step.
    pub micro_batches_per_step: Vec<i64>,
    /// Rollouts in each step.
    pub rollouts_per_step: Vec<i64>,
    /// Samples in no step, ascending.
    pub dropped: Vec<i64>,
}

/// Plans every step of `lengths`.
///
/// # Arguments
/// - `lengths`: tokens of every sample.
/// - `costs`: what every sample costs, in any unit; one for each length.
/// - `request`: ranks, packing and steps.
///
/// # Complexity
/// **O(n log n)** time and **O(n)** space for n samples.
pub fn plan(lengths: Lengths<'_>, costs: &Weights<'_>, request: &Request<'_>) -> Result<Schedule> {
    if costs.len() != lengths.len() {
        return Err(Error::Value(format!(
            "costs must hold one cost for each of the {} samples, got {}",
            lengths.len(),
            costs.len()
        )));
    }
    let steps = Steps::new(lengths.len(), request.rollout_ids, request.global_batch_size.map(NonZeroUsize::get))?;
    match costs {
        Weights::U64(costs) => plan_steps(lengths, costs, &steps, request),
        Weights::U128(costs) => plan_steps(lengths, costs, &steps, request),
        Weights::F64(costs) => plan_steps(lengths, costs, &steps, request),
    }
}

/// One step: its micro-batches, and which of them each rank runs.
struct Step<'a> {
    samples: &'a [u32],
    micro_batches: Groups,
    ranks: Groups,
}

fn plan_steps<W: Weight>(lengths: Lengths<'_>, costs: &[W], steps: &Steps, request: &Request<'_>) -> Result<Schedule> {
    let planned = steps
        .ranges
        .iter()
        .enumerate()
        .map(|(number, range)| {
            let samples = &steps.samples[range.clone()];
            let (lengths, costs) = (gather(&lengths, samples), gather(costs, samples));
            let mut micro_batches = pack(&lengths, &costs, request.packing);
            align(&mut micro_batches, &lengths, number, request)?;
            let ranks = deal(&micro_batches, &costs, request);
            Ok(Step { samples, micro_batches, ranks })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut schedule = Schedule { micro_batch_offsets: vec![0], ..Schedule::default() };
    for rank in 0..request.dp_size.get() {
        for step in &planned {
            for &micro_batch in step.ranks.get(rank) {
                let items = step.micro_batches.get(micro_batch as usize);
                let samples = items.iter().map(|&item| i64::from(step.samples[item as usize]));
                schedule.samples.extend(samples.clone());
                schedule.micro_batch_offsets.push(schedule.samples.len() as i64);
                schedule.micro_batch_tokens.push(samples.map(|sample| lengths[sample as usize]).sum());
            }
        }
    }
    schedule.micro_batches_per_step = planned.iter().map(|step| step.ranks.get(0).len() as i64).collect();
    schedule.rollouts_per_step = steps.rollouts.iter().map(|&rollouts| rollouts as i64).collect();
    schedule.dropped = steps.dropped.iter().map(|&sample| sample.into()).collect();
    Ok(schedule)
}

/// The values of some samples; borrowed where these stand in a row, as all do that have no rollout ids.
fn gather<'a, T: Copy>(values: &'a [T], samples: &[u32]) -> Cow<'a, [T]> {
    let first = samples.first().map_or(0, |&sample| sample as usize);
    if (first..).zip(samples).all(|(place, &sample)| place == sample as usize) {
        return Cow::Borrowed(&values[first..first + samples.len()]);
    }
    samples.iter().map(|&sample| values[sample as usize]).collect()
}

fn pack<W: Weight>(lengths: &[i64], costs: &[W], packing: Packing) -> Groups {
    match packing {
        Packing::FirstFit { max_tokens } => first_fit(lengths, max_tokens),
        Packing::Fixed { micro_batch_size } => Groups::runs(lengths.len(), micro_batch_size.get()),
        Packing::Flops { max_tokens } => {
            let tokens: i64 = lengths.iter().sum();
            let parts = tokens.unsigned_abs().div_ceil(max_tokens.unsigned_abs()).max(1);
            if parts >= lengths.len() as u64 {
                return Groups::runs(lengths.len(), 1);
            }
            partition(costs, parts as usize, false).ascending()
        }
    }
}

/// Brings the number of micro-batches up to a multiple of what the ranks need.
fn align(micro_batches: &mut Groups, lengths: &[i64], step: usize, request: &Request<'_>) -> Result<()> {
    let (dp_size, multiple) = (request.dp_size.get(), request.micro_batch_multiple.get());
    if lengths.len() < dp_size {
        return Err(Error::Schedule(format!(
            "step {step} must hold at least one sample for each of the dp_size = {dp_size} ranks, got {}",
            lengths.len()
        )));
    }
    let unit = dp_size.saturating_mul(multiple);
    let target = micro_batches.len().checked_next_multiple_of(unit).unwrap_or(usize::MAX);
    if !matches!(request.packing, Packing::Fixed { .. }) && target <= lengths.len() {
        split(micro_batches, target, lengths);
    }
    if micro_batches.iter().any(<[u32]>::is_empty) {
        return Err(Error::Schedule(format!(
            "lengths of step {step} must be > 0 where a micro-batch is split into {target}, got samples of 0 tokens"
        )));
    }
    if micro_batches.len() == target {
        return Ok(());
    }
    Err(Error::Schedule(format!(
        "micro-batches of step {step} must be a multiple of {unit} (dp_size = {dp_size} ranks x micro_batch_multiple = \
         {multiple}), got {} from {} samples",
        micro_batches.len(),
        lengths.len()
    )))
}

/// The micro-batches of every rank, ascending.
fn deal<W: Weight>(micro_batches: &Groups, costs: &[W], request: &Request<'_>) -> Groups {
    let (count, ranks) = (micro_batches.len(), request.dp_size.get());
    if !request.balance_ranks {
        let labels: Vec<u32> = (0..count).map(|micro_batch| (micro_batch % ranks) as u32).collect();
        return Groups::from_labels(&labels, ranks);
    }
    let sum = |items: &[u32]| items.iter().fold(W::default(), |sum, &item| sum.plus(costs[item as usize]));
    let sums: Vec<W> = micro_batches.iter().map(sum).collect();
    partition(&sums, ranks, true).ascending()
}
