//! Starts for pipelines: micro-batches in the order in which ranks run them, small ones at both ends.
//!
//! Equal micro-batches leave every stage but the first idle while the pipeline fills. If each is larger than the one before
//! it by what its way to the last stage takes longer than that one's way back, the last stage never waits: a ramp of factor
//! 1 + 2 / (p - 1), which takes a fifth to a third off the bubble. The same holds from the end, with forward and back exchanged.
use crate::Pipeline;
use crate::capped::StepProblem;
use crate::capped::clock::Clock;
use crate::capped::draft::Draft;
use crate::capped::drafts::{STARTS, keep_shortest};
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::starts::{deal_to_cheapest, split_costliest};
use crate::interrupt::Work;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Counts of micro-batches in a row that make no draft shorter before more of them are given up.
const PATIENCE: usize = 4;

/// Look-ups per sample, and of so many more samples, in the time of which drafts are made.
const LOOKUPS: usize = 128;
const AT_LEAST: usize = 4096;

/// Drafts of ever more micro-batches, a twelfth more each time, for as long as some of them are among the shortest.
pub(super) fn pipeline_drafts(
    problem: &StepProblem<'_>,
    pipeline: Pipeline,
    samples: &Samples,
    packed: &[MicroBatch],
    count: usize,
) -> Vec<Draft> {
    let mut packed = packed.to_vec();
    split_costliest(samples, &mut packed, count);
    let mut drafts = Vec::new();
    keep_shortest(&mut drafts, Draft::new(packed, problem));
    let mut clock = Clock::of(problem);
    let mean = problem.costs.iter().sum::<u64>() / problem.dp_size as u64;
    let unit = problem.dp_size * problem.multiple;
    let more =
        std::iter::successors(Some(count), |&count| (count + (count / 12).max(1)).checked_next_multiple_of(unit));
    let more = more.take(if problem.counts.exactly.is_some() { 1 } else { usize::MAX });
    let (mut patience, mut lookups) = (PATIENCE, LOOKUPS.saturating_mul(samples.len() + AT_LEAST));
    for count in more.take_while(|&count| count <= samples.len()) {
        let longest = drafts.last().map_or(u64::MAX, |draft| draft.time);
        // The pairs of ramps are simulated once, two drafts on every rank.
        let simulated = SHARES.len() * SHARES.len() + 2 * problem.dp_size;
        let Some(left) = lookups.checked_sub(simulated.saturating_mul(clock.lookups(count / problem.dp_size))) else {
            break;
        };
        lookups = left;
        if patience == 0 || drafts.len() == STARTS && problem.bound(count) >= longest {
            break;
        }
        let targets = ramps(&pipeline, &mut clock, mean, count / problem.dp_size);
        let mut made = false;
        let mut keep = |draft| {
            keep_shortest(&mut drafts, draft);
            made = true;
        };
        if let Some(batches) = deal_to_ramps(samples, problem.dp_size, &targets, &mut clock) {
            keep(Draft::in_order(batches, problem));
        }
        if let Some(mut batches) = deal_to_cheapest(samples, count) {
            split_costliest(samples, &mut batches, count);
            keep(Draft::new(batches, problem));
        }
        let shorter = drafts.last().is_some_and(|draft| draft.time < longest);
        patience = if shorter { PATIENCE } else { patience - usize::from(made) };
    }
    drafts
}

/// Where ramps may start and end, as shares of the largest micro-batch.
const SHARES: [f64; 6] = [1.0, 0.75, 0.5, 0.35, 0.25, 0.15];

/// The costs of so many micro-batches, in their order, with which a rank of a total cost ends first: of all pairs of
/// ramps the best.
fn ramps(pipeline: &Pipeline, clock: &mut Clock, total: u64, count: usize) -> Vec<u64> {
    let further = (pipeline.stages() - 1).max(1) as f64;
    let ramp =
        |first: f64, factor: f64| std::iter::successors(Some(first), move |share| Some(share * factor)).take(count);
    let of_shares = |first: f64, last: f64| -> Vec<u64> {
        let mut shape: Vec<f64> = ramp(last, 1.0 + 0.5 / further).map(|share| share.min(1.0)).collect();
        shape.reverse();
        shape.iter_mut().zip(ramp(first, 1.0 + 2.0 / further)).for_each(|(share, up)| *share = share.min(up));
        let largest = total as f64 / shape.iter().sum::<f64>();
        shape.iter().map(|share| (share * largest) as u64).collect()
    };
    let all = SHARES.iter().flat_map(|&first| SHARES.map(|last| of_shares(first, last)));
    all.min_by_key(|costs| clock.time_of(costs.iter().copied())).unwrap_or_default()
}

/// Deals all samples to ranks, costliest first, each to the rank that ends first so far, there to the micro-batch that lacks
/// most of its target; then brings the micro-batches of every rank into the order of the targets. `None` when a sample finds
/// no room.
///
/// **O(n log n)** time.
fn deal_to_ramps(samples: &Samples, ranks: usize, targets: &[u64], clock: &mut Clock) -> Option<Vec<MicroBatch>> {
    let pipeline = *clock.pipeline()?;
    let count = targets.len();
    let bubble = clock.time_of(targets.iter().copied()) - pipeline.parts() * targets.iter().sum::<u64>();
    let mut dealt: Vec<Rank> = (0..ranks).map(|_| Rank::new(targets)).collect();
    let mut first_done: BinaryHeap<_> = (0..ranks).map(|rank| Reverse((bubble, rank))).collect();
    let mut labels = vec![0; samples.len()];
    let (mut empty, mut full, mut work) = (ranks * count, Vec::new(), Work::default());
    for sample in (0..samples.len() as u32).rev() {
        if sample as usize + 1 == empty {
            break;
        }
        work.did(STEPS_PER_SAMPLE);
        let (rank, place) = loop {
            let entry @ Reverse((_, rank)) = first_done.pop()?;
            if let Some(place) = dealt[rank].take(samples, sample) {
                break (rank, place);
            }
            full.push(entry);
            if full.len() == TRIES {
                return None;
            }
        };
        let Rank { loads, sum, costliest, .. } = &dealt[rank];
        empty -= usize::from(loads[place].samples == 1);
        labels[sample as usize] = (rank * count + place) as u32;
        first_done.push(Reverse(((pipeline.parts() * sum + bubble).max(pipeline.least(*sum, 0, *costliest)), rank)));
        first_done.extend(full.drain(..));
    }
    // The cheapest are one each for the micro-batches that are empty.
    let places = |(rank, dealt): (usize, &Rank)| {
        let empty = (0..count).filter(|&place| dealt.loads[place].samples == 0);
        empty.map(|place| (rank * count + place) as u32).collect::<Vec<_>>()
    };
    for (label, place) in labels.iter_mut().zip(dealt.iter().enumerate().flat_map(places)) {
        *label = place;
    }
    drop(dealt);
    let mut batches = samples.batches(&labels, ranks * count);
    let order = by_target(targets);
    for of_rank in batches.chunks_mut(count) {
        of_rank.sort_by_key(MicroBatch::cost);
        let mut ordered = vec![MicroBatch::default(); count];
        for (&place, batch) in order.iter().zip(of_rank.iter_mut()) {
            ordered[place] = std::mem::take(batch);
        }
        of_rank.swap_with_slice(&mut ordered);
    }
    Some(batches)
}

/// Places from the lowest target up; of equal ones, as between two ramps, those farther from the middle first.
fn by_target(targets: &[u64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..targets.len()).collect();
    places.sort_by_key(|&place| (targets[place], Reverse((2 * place).abs_diff(targets.len()))));
    places
}

/// Steps of [`Work`] in dealing a sample.
const STEPS_PER_SAMPLE: usize = 32;

/// Ranks, and micro-batches of a rank, without room that a sample tries.
const TRIES: usize = 16;

/// The micro-batches of a rank, as far as they are dealt.
struct Rank {
    loads: Vec<Load>,
    /// What each lacks of its target, and its place.
    lacking: BinaryHeap<(i64, Reverse<usize>)>,
    sum: u64,
    costliest: u64,
}

impl Rank {
    fn new(targets: &[u64]) -> Self {
        Self {
            loads: vec![Load::default(); targets.len()],
            lacking: targets.iter().enumerate().map(|(place, &target)| (target as i64, Reverse(place))).collect(),
            sum: 0,
            costliest: 0,
        }
    }

    /// Puts a sample into the micro-batch with room that lacks most; returns its place.
    fn take(&mut self, samples: &Samples, sample: u32) -> Option<usize> {
        let mut full = Vec::new();
        let found = loop {
            let Some(entry @ (_, Reverse(place))) = self.lacking.pop() else { break None };
            if samples.accepts(self.loads[place], sample) {
                break Some(entry);
            }
            full.push(entry);
            if full.len() == TRIES {
                break None;
            }
        };
        self.lacking.extend(full);
        let (lacks, Reverse(place)) = found?;
        let cost = samples.cost(sample);
        self.lacking.push((lacks - cost as i64, Reverse(place)));
        self.loads[place] = samples.room.with(self.loads[place], sample);
        self.sum += cost;
        self.costliest = self.costliest.max(self.loads[place].cost);
        Some(place)
    }
}
