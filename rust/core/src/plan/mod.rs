//! The whole way from lengths and costs to a schedule: steps, packing, alignment, dealing to ranks.
use crate::partition::partition;
use crate::weights::{Weight, Weights, exponent_above, whole};
use crate::{
    Error, Groups, Leftover, Lengths, Limits, Objective, Result, Shortage, StepProblem, Steps, first_fit, plan_step,
    split,
};
use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

/// How the samples of a step are packed into micro-batches, and these dealt to ranks.
#[derive(Clone, Copy, Debug)]
pub enum Packing<'a> {
    /// As trainers do today, index for index.
    Published(Published),
    /// Within the cap, and balanced for an objective; see [`plan_step`].
    Capped(Capped<'a>),
}

/// The published ways to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
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

/// What [`plan_step`] is asked for in every step.
#[derive(Clone, Copy, Debug)]
pub struct Capped<'a> {
    /// What a micro-batch may hold.
    pub limits: Limits<'a>,
    /// What is to be short; the overhead of a pipeline is set from `overhead_share`.
    pub objective: Objective,
    /// What every micro-batch costs beside its samples, as a share of what all samples cost together.
    pub overhead_share: f64,
    /// Look-ups per sample and start.
    pub effort: u64,
    /// Whether a step of too few samples repeats its cheapest; otherwise it is refused.
    pub repeat: bool,
}

/// What a plan is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Data-parallel ranks.
    pub dp_size: NonZeroUsize,
    /// Micro-batches per rank and step come in multiples of this.
    pub micro_batch_multiple: NonZeroUsize,
    /// The packing of a step.
    pub packing: Packing<'a>,
    /// Whether micro-batches are dealt to ranks by cost; otherwise in turn.
    pub balance_ranks: bool,
    /// The rollout that a sample belongs to; every sample is one when `None`.
    pub rollout_ids: Option<&'a [i64]>,
    /// Rollouts in a step; all when `None`.
    pub global_batch_size: Option<NonZeroUsize>,
    /// What happens to rollouts that fill no step.
    pub leftover: Leftover,
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
    /// Which of `samples` stand there once more only to fill a micro-batch.
    pub is_padding: Vec<bool>,
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
    let size = request.global_batch_size.map(NonZeroUsize::get);
    let steps = Steps::new(lengths.len(), request.rollout_ids, size, request.leftover)?;
    match (request.packing, costs) {
        (Packing::Capped(how), Weights::U64(costs)) => {
            // Repeated samples may carry a sum of theirs past 64 bits.
            let costs: Vec<u128> = costs.iter().map(|&cost| cost.into()).collect();
            plan_capped(lengths, &costs, &steps, request, &how)
        }
        (Packing::Capped(how), Weights::U128(costs)) => plan_capped(lengths, costs, &steps, request, &how),
        (Packing::Capped(how), Weights::F64(costs)) => plan_capped(lengths, costs, &steps, request, &how),
        (Packing::Published(how), Weights::U64(costs)) => plan_published(lengths, costs, &steps, request, how),
        (Packing::Published(how), Weights::U128(costs)) => plan_published(lengths, costs, &steps, request, how),
        (Packing::Published(how), Weights::F64(costs)) => plan_published(lengths, costs, &steps, request, how),
    }
}

/// One step: its micro-batches, and which of them each rank runs.
struct Step<'a> {
    /// The samples of the step, then those that it repeats.
    samples: Cow<'a, [u32]>,
    micro_batches: Groups,
    ranks: Groups,
}

fn plan_published<W: Weight>(
    lengths: Lengths<'_>,
    costs: &[W],
    steps: &Steps,
    request: &Request<'_>,
    packing: Published,
) -> Result<Schedule> {
    let plan_step = |(number, range): (usize, &Range<usize>)| {
        let samples = &steps.samples[range.clone()];
        let (lengths, costs) = (gather(&lengths, samples), gather(costs, samples));
        let mut micro_batches = pack(&lengths, &costs, packing);
        let splits = !matches!(packing, Published::Fixed { .. });
        align(&mut micro_batches, &lengths, number, request, splits)?;
        let ranks = deal(&micro_batches, &costs, request);
        Ok(Step { samples: samples.into(), micro_batches, ranks })
    };
    let planned = steps.ranges.iter().enumerate().map(plan_step).collect::<Result<Vec<_>>>()?;
    Ok(schedule(lengths, steps, &planned, request))
}

/// A step of more micro-batches than samples is a slip rather than a wish.
const MOST_REPEATED: usize = 1 << 24;

fn plan_capped<W: Weight>(
    lengths: Lengths<'_>,
    costs: &[W],
    steps: &Steps,
    request: &Request<'_>,
    how: &Capped<'_>,
) -> Result<Schedule> {
    let Capped { limits, objective, overhead_share, effort, repeat } = *how;
    let (dp_size, multiple) = (request.dp_size.get(), request.micro_batch_multiple.get());
    let total: f64 = costs.iter().map(|&cost| cost.float()).sum();
    let overhead = (overhead_share * total).min(f64::MAX);
    let stages = objective.stages();
    let doublings = stages.next_power_of_two().trailing_zeros() as i32;
    let mut carried = vec![W::default(); dp_size];
    let mut plan_once = |samples: &[u32]| -> std::result::Result<Groups, Shortage> {
        let extra = limits.extra.map(|(amounts, cap)| (gather(amounts, samples), cap));
        // Whole numbers for this step alone, so that no other step decides what is rounded here.
        let overheads = exponent_above(overhead) + exponent_above(samples.len() as f64 + stages as f64);
        let (whole, scale) = whole(&gather(costs, samples), doublings, (overhead > 0.0).then_some(overheads));
        let mut objective = objective;
        if let Objective::Pipeline { micro_batch_overhead, .. } = &mut objective {
            *micro_batch_overhead = (overhead * 2_f64.powi(scale)).round() as u64;
        }
        let problem = StepProblem {
            lengths: &gather(&lengths, samples),
            costs: &whole,
            limits: Limits { extra: extra.as_ref().map(|(amounts, cap)| (&amounts[..], *cap)), ..limits },
            dp_size,
            multiple,
            objective,
            effort,
        };
        let mut least_first: Vec<usize> = (0..dp_size).collect();
        least_first.sort_by(|&one, &other| carried[one].order(carried[other]));
        let planned = plan_step(&problem, &least_first)?;
        let per_rank = planned.len() / dp_size;
        for (rank, carried) in carried.iter_mut().enumerate() {
            let places = (rank * per_rank..(rank + 1) * per_rank).flat_map(|micro_batch| planned.get(micro_batch));
            let costs = places.map(|&place| costs[samples[place as usize] as usize]);
            *carried = costs.fold(*carried, W::saturating_plus);
        }
        Ok(planned)
    };
    let plan_step = |(number, range): (usize, &Range<usize>)| {
        let mut samples = Cow::from(&steps.samples[range.clone()]);
        let mut planned = plan_once(&samples);
        if let Some(shortage) = planned.as_ref().err().filter(|_| repeat) {
            if shortage.needed > MOST_REPEATED {
                return Err(Error::Schedule(format!(
                    "step {number} must need at most {MOST_REPEATED} micro-batches where samples are repeated, got {} \
                     (dp_size = {dp_size} ranks x micro_batch_multiple = {multiple})",
                    shortage.needed
                )));
            }
            let mut cheapest = samples.to_vec();
            cheapest.sort_by(|&one, &other| {
                let [one, other] =
                    [one, other].map(|sample| (costs[sample as usize], lengths[sample as usize], sample));
                one.0.order(other.0).then_with(|| (one.1, one.2).cmp(&(other.1, other.2)))
            });
            let missing = shortage.needed - samples.len();
            samples.to_mut().extend(cheapest.iter().cycle().take(missing));
            planned = plan_once(&samples);
        }
        let micro_batches = planned.map_err(|shortage| {
            Error::Schedule(format!(
                "step {number} must hold at least {} samples, one for each micro-batch (the cap needs {}, dp_size = \
                 {dp_size} ranks x micro_batch_multiple = {multiple} a multiple of {}), got {}",
                shortage.needed,
                shortage.packed,
                dp_size.saturating_mul(multiple),
                samples.len()
            ))
        })?;
        let ranks = Groups::runs(micro_batches.len(), micro_batches.len() / dp_size);
        Ok(Step { samples, micro_batches, ranks })
    };
    let planned = steps.ranges.iter().enumerate().map(plan_step).collect::<Result<Vec<_>>>()?;
    Ok(schedule(lengths, steps, &planned, request))
}

/// The planned steps, rank by rank.
fn schedule(lengths: Lengths<'_>, steps: &Steps, planned: &[Step<'_>], request: &Request<'_>) -> Schedule {
    let mut schedule = Schedule { micro_batch_offsets: vec![0], ..Schedule::default() };
    for rank in 0..request.dp_size.get() {
        for (step, range) in planned.iter().zip(&steps.ranges) {
            for &micro_batch in step.ranks.get(rank) {
                let items = step.micro_batches.get(micro_batch as usize);
                let samples = items.iter().map(|&item| i64::from(step.samples[item as usize]));
                schedule.samples.extend(samples.clone());
                schedule.is_padding.extend(items.iter().map(|&item| item as usize >= range.len()));
                schedule.micro_batch_offsets.push(schedule.samples.len() as i64);
                schedule.micro_batch_tokens.push(samples.map(|sample| lengths[sample as usize]).sum());
            }
        }
    }
    schedule.micro_batches_per_step = planned.iter().map(|step| step.ranks.get(0).len() as i64).collect();
    schedule.rollouts_per_step = steps.rollouts.iter().map(|&rollouts| rollouts as i64).collect();
    schedule.dropped = steps.dropped.iter().map(|&sample| sample.into()).collect();
    schedule
}

/// The values of some samples; borrowed where these stand in a row, as all do that have no rollout ids.
fn gather<'a, T: Copy>(values: &'a [T], samples: &[u32]) -> Cow<'a, [T]> {
    let first = samples.first().map_or(0, |&sample| sample as usize);
    if (first..).zip(samples).all(|(place, &sample)| place == sample as usize) {
        return Cow::Borrowed(&values[first..first + samples.len()]);
    }
    samples.iter().map(|&sample| values[sample as usize]).collect()
}

fn pack<W: Weight>(lengths: &[i64], costs: &[W], packing: Published) -> Groups {
    match packing {
        Published::FirstFit { max_tokens } => first_fit(lengths, max_tokens),
        Published::Fixed { micro_batch_size } => Groups::runs(lengths.len(), micro_batch_size.get()),
        Published::Flops { max_tokens } => {
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
fn align(micro_batches: &mut Groups, lengths: &[i64], step: usize, request: &Request<'_>, splits: bool) -> Result<()> {
    let (dp_size, multiple) = (request.dp_size.get(), request.micro_batch_multiple.get());
    if lengths.len() < dp_size {
        return Err(Error::Schedule(format!(
            "step {step} must hold at least one sample for each of the dp_size = {dp_size} ranks, got {}",
            lengths.len()
        )));
    }
    let unit = dp_size.saturating_mul(multiple);
    let target = micro_batches.len().checked_next_multiple_of(unit).unwrap_or(usize::MAX);
    if splits && target <= lengths.len() {
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
    let sum = |items: &[u32]| items.iter().fold(W::default(), |sum, &item| sum + costs[item as usize]);
    let sums: Vec<W> = micro_batches.iter().map(sum).collect();
    partition(&sums, ranks, true).ascending()
}
