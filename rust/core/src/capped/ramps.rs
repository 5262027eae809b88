//! Starts for pipelines: micro-batches in the order in which ranks run them, small ones at both ends.
//!
//! Equal micro-batches leave every stage but the first idle while the pipeline fills. If each is larger than the one before
//! it by what its way to the last stage takes longer than that one's way back, the last stage never waits: a ramp of factor
//! 1 + 2 / (p - 1), which halves the bubble. The same holds from the end, with forward and back exchanged.
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

/// Drafts of ever more micro-batches, an eighth more each time, for as long as some of them are among the shortest.
pub(super) fn pipeline_drafts(
    problem: &StepProblem<'_>,
    samples: &Samples,
    mut packed: Vec<MicroBatch>,
    count: usize,
) -> Vec<Draft> {
    split_costliest(samples, &mut packed, count);
    let mut drafts = Vec::new();
    keep_shortest(&mut drafts, Draft::new(packed, problem));
    let mut clock = Clock::of(problem.objective);
    let mean = problem.costs.iter().sum::<u64>() / problem.dp_size as u64;
    let more = std::iter::successors(Some(count), |&count| {
        (count + count / 8 + 1).checked_next_multiple_of(problem.dp_size * problem.multiple)
    });
    let mut patience = PATIENCE;
    for count in more.take_while(|&count| count <= samples.len()) {
        let longest = drafts.last().map_or(u64::MAX, |draft| draft.time);
        if patience == 0 || drafts.len() == STARTS && problem.bound(count) >= longest {
            break;
        }
        let targets = ramps(&mut clock, mean, count / problem.dp_size);
        if let Some(batches) = deal_to_ramps(samples, problem.dp_size, &targets, &mut clock) {
            keep_shortest(&mut drafts, Draft::in_order(batches, problem));
        }
        if let Some(mut batches) = deal_to_cheapest(samples, count) {
            split_costliest(samples, &mut batches, count);
            keep_shortest(&mut drafts, Draft::new(batches, problem));
        }
        let shorter = drafts.last().is_some_and(|draft| draft.time < longest);
        patience = if shorter { PATIENCE } else { patience - 1 };
    }
    drafts
}

/// Where ramps may start and end, as shares of the largest micro-batch.
const SHARES: [f64; 6] = [1.0, 0.75, 0.5, 0.35, 0.25, 0.15];

/// The costs of so many micro-batches, in their order, with which a rank of a total cost ends first: of all pairs of
/// ramps the best.
pub(crate) fn ramps(clock: &mut Clock, total: u64, count: usize) -> Vec<u64> {
    let further = (clock.stages() - 1).max(1) as f64;
    let mut best = (u64::MAX, Vec::new());
    for first in SHARES {
        for last in SHARES {
            let up = (0..count).map(|place| first * (1.0 + 2.0 / further).powi(place as i32));
            let down = (0..count).rev().map(|place| last * (1.0 + 0.5 / further).powi(place as i32));
            let shape: Vec<f64> = up.zip(down).map(|(up, down)| up.min(down).min(1.0)).collect();
            let sum: f64 = shape.iter().sum();
            let costs: Vec<u64> = shape.iter().map(|share| (share / sum * total as f64) as u64).collect();
            let time = clock.time_of(costs.iter().copied());
            if time < best.0 {
                best = (time, costs);
            }
        }
    }
    best.1
}

/// Deals all samples to ranks, costliest first, each to the rank that ends first so far, there to the micro-batch that lacks
/// most of its target. `None` when a sample finds no room.
pub(crate) fn deal_to_ramps(
    samples: &Samples,
    ranks: usize,
    targets: &[u64],
    clock: &mut Clock,
) -> Option<Vec<MicroBatch>> {
    let count = targets.len();
    let bubble = clock.time_of(targets.iter().copied()) - clock.parts() * targets.iter().sum::<u64>();
    let mut dealt: Vec<Rank> = (0..ranks).map(|_| Rank::new(targets)).collect();
    let mut first_done: BinaryHeap<_> = (0..ranks).map(|rank| Reverse((bubble, rank))).collect();
    let mut labels = vec![0; samples.len()];
    let mut empty = ranks * count;
    let mut work = Work::default();
    let mut full = Vec::new();
    for sample in (0..samples.len() as u32).rev() {
        work.did(STEPS_PER_SAMPLE);
        if sample as usize + 1 == empty {
            // The cheapest fill what is empty, the largest target first.
            let mut places: Vec<(u64, usize)> = Vec::new();
            for (rank, dealt) in dealt.iter().enumerate() {
                let of_rank = (0..count).filter(|&place| dealt.loads[place].samples == 0);
                places.extend(of_rank.map(|place| (targets[place], rank * count + place)));
            }
            places.sort_unstable();
            for (label, (_, place)) in labels.iter_mut().zip(places) {
                *label = place as u32;
            }
            break;
        }
        let (rank, place) = loop {
            let entry @ Reverse((_, rank)) = first_done.pop()?;
            if let Some(place) = dealt[rank].place(samples, sample) {
                break (rank, place);
            }
            full.push(entry);
            if full.len() == TRIES {
                return None;
            }
        };
        let dealt = &mut dealt[rank];
        empty -= usize::from(dealt.loads[place].samples == 0);
        dealt.add(samples, sample, place);
        labels[sample as usize] = (rank * count + place) as u32;
        let alone = clock.parts() * clock.stages() * dealt.costliest + (dealt.sum - dealt.costliest);
        first_done.push(Reverse(((clock.parts() * dealt.sum + bubble).max(alone), rank)));
        first_done.extend(full.drain(..));
    }
    let mut by_target: Vec<usize> = (0..count).collect();
    by_target.sort_by_key(|&place| (targets[place], Reverse((2 * place).abs_diff(count)), place));
    let mut batches = samples.batches(&labels, ranks * count);
    for of_rank in batches.chunks_mut(count) {
        let mut costs: Vec<MicroBatch> = of_rank.iter_mut().map(std::mem::take).collect();
        costs.sort_by_key(MicroBatch::cost);
        for (&place, batch) in by_target.iter().zip(costs) {
            of_rank[place] = batch;
        }
    }
    Some(batches)
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

    /// Takes out the micro-batch with room that lacks most.
    fn place(&mut self, samples: &Samples, sample: u32) -> Option<usize> {
        let mut full = Vec::new();
        let found = loop {
            let Some(entry @ (_, Reverse(place))) = self.lacking.pop() else { break None };
            if samples.accepts(self.loads[place], sample) {
                break Some((entry, place));
            }
            full.push(entry);
            if full.len() == TRIES {
                break None;
            }
        };
        self.lacking.extend(full);
        let (entry, place) = found?;
        self.lacking.push(((entry.0 - samples.cost(sample) as i64), Reverse(place)));
        Some(place)
    }

    fn add(&mut self, samples: &Samples, sample: u32, place: usize) {
        self.loads[place] = samples.room.with(self.loads[place], sample);
        self.sum += samples.cost(sample);
        self.costliest = self.costliest.max(self.loads[place].cost);
    }
}
