//! Planning one step so that the token cap holds and the ranks wait as little as possible.
//!
//! Naively: pack by first fit decreasing; split the costliest micro-batch until every rank gets as many; sort by cost;
//! deal; then trade samples between the costliest and the cheapest as long as that helps. Three things make it good:
//!
//! - *Starts.* Rows dealt under the cap, costliest sample first, cost nearly the same within a row before any search;
//!   first fit decreasing is kept for caps so tight that rows do not fit.
//! - *Look-ups.* A trade of a wanted gain is found by bisection over costs, not among all pairs.
//! - *Bounds.* No plan beats the mean cost of a rank or the costliest sample; the search stops there.
//!
//! The search is a descent: it ends where no trade, no exchange of micro-batches between two ranks and no new deal of
//! two micro-batches helps, which need not be the optimum. It has no clock and no randomness, and more effort only
//! continues it.
mod bins;
mod cheapest;
mod level_ranks;
mod level_rows;
mod limits;
mod objective;
mod samples;
mod starts;
mod trade;

use crate::Groups;
use crate::interrupt::Work;
use crate::partition::partition;
use cheapest::Cheapest;
use level_ranks::{Ranks, level_ranks};
use level_rows::{Rows, row_time, sort_into_rows};
pub(crate) use limits::Caps;
pub(crate) use objective::WholeObjective;
use samples::{MicroBatch, Samples};
use starts::{deal_rows, deal_to_cheapest, first_fit_as_given, first_fit_decreasing, split_costliest};
use std::cmp::Reverse;
use trade::Search;

/// One step to plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepProblem<'a> {
    /// Tokens of every sample, as they count against the cap.
    pub lengths: &'a [i64],
    /// Costs; their total, times the stages of a pipeline, below 2^62.
    pub costs: &'a [u64],
    /// What a micro-batch may hold.
    pub caps: Caps<'a>,
    /// Data-parallel ranks.
    pub dp_size: usize,
    /// Micro-batches per rank come in multiples of this.
    pub multiple: usize,
    /// What is to be short.
    pub objective: WholeObjective,
    /// Look-ups per sample, of 16,384 at most, that the search may spend on each of its starts.
    pub effort: u64,
}

impl StepProblem<'_> {
    /// No plan of so many micro-batches is shorter, their overhead left out.
    fn bound(&self, count: usize) -> u64 {
        self.objective.bound(self.costs, self.dp_size, count)
    }

    fn overhead(&self, count: usize) -> u64 {
        self.objective.overhead(count / self.dp_size)
    }
}

/// A step has fewer samples than micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// Micro-batches that the limits need.
    pub packed: usize,
    /// Micro-batches after alignment, and so the samples that would do.
    pub needed: usize,
}

/// Plans one step: the micro-batches of every rank, rank by rank, as many on each.
///
/// No micro-batch of two samples or more exceeds a limit, none is empty, and there are as few as first fit decreasing
/// needs, rounded up to a multiple of `dp_size * multiple` (for a pipeline, at least as many). The ranks get
/// their parts, heaviest first, in the order of `least_first`: by what they were given in earlier steps.
///
/// # Errors
/// [`Shortage`] when the step holds fewer samples than that.
///
/// # Complexity
/// **O(n log² n)** time for the starts and at most `effort` look-ups per sample for each.
///
/// # Literature
/// D. S. Johnson, *Near-optimal bin packing algorithms*, 1973 (first fit decreasing); R. L. Graham, *Bounds on
/// multiprocessing timing anomalies*, 1969 (costliest first to the cheapest); N. Karmarkar and R. M. Karp, 1982.
pub(crate) fn plan_step(problem: &StepProblem<'_>, least_first: &[usize]) -> Result<Groups, Shortage> {
    let samples = Samples::new(problem.lengths, problem.costs, &problem.caps);
    let packed = first_fit_decreasing(&samples);
    let unit = problem.dp_size.saturating_mul(problem.multiple);
    let count = packed.len().max(1).checked_next_multiple_of(unit).unwrap_or(usize::MAX);
    if count > samples.len() {
        return Err(Shortage { packed: packed.len(), needed: count });
    }
    let mut drafts = drafts(problem, &samples, packed, count);
    let mut best = u64::MAX;
    for draft in &mut drafts {
        let bound = problem.bound(draft.batches.len());
        let tolerance = (bound >> TOLERANCE).max(1);
        if best < bound + problem.overhead(draft.batches.len()) + tolerance {
            continue;
        }
        let lookups = problem.effort.saturating_mul(samples.len().min(MOST_COUNTED) as u64);
        draft.improve(problem, &mut Search { samples: &samples, lookups, bound, tolerance, work: Work::default() });
        best = best.min(draft.time);
    }
    let best = drafts.iter().min_by_key(|draft| draft.time);
    Ok(best.map_or_else(Groups::default, |draft| draft.groups(problem, &samples, least_first)))
}

/// How many starts are improved, the shortest first.
const STARTS: usize = 3;

/// Samples beyond this many add nothing to the effort: larger steps are even from the start, and end in time.
const MOST_COUNTED: usize = 1 << 14;

/// Improvements below the bound divided by two this many times are left alone.
const TOLERANCE: u32 = 15;

/// The shortest of several starts, each with as many micro-batches as its objective may want.
fn drafts(problem: &StepProblem<'_>, samples: &Samples, packed: Vec<MicroBatch>, count: usize) -> Vec<Draft> {
    if count == samples.len() {
        // Alone in its micro-batch, every sample is where any start puts it.
        let alone: Vec<u32> = (0..count as u32).collect();
        return vec![Draft::new(samples.batches(&alone, count), problem)];
    }
    if let WholeObjective::Pipeline { .. } = problem.objective {
        return pipeline_drafts(problem, samples, packed, count);
    }
    let mut drafts = Vec::new();
    let mut add = |mut batches: Vec<MicroBatch>| {
        split_costliest(samples, &mut batches, count);
        keep_shortest(&mut drafts, Draft::new(batches, problem));
    };
    let width = problem.dp_size;
    let mut cheapest = Cheapest::new(samples, width);
    for evenness in [EVEN, EVEN / 4] {
        deal_rows(samples, &mut cheapest, width, count / width, evenness).into_iter().for_each(&mut add);
    }
    drop(cheapest);
    deal_to_cheapest(samples, count).into_iter().for_each(&mut add);
    Some(first_fit_as_given(samples)).filter(|batches| batches.len() <= count).into_iter().for_each(&mut add);
    add(packed);
    drafts
}

/// Adds a draft and leaves the shortest, the first of equals.
fn keep_shortest(drafts: &mut Vec<Draft>, draft: Draft) {
    drafts.push(draft);
    drafts.sort_by_key(|draft| draft.time);
    drafts.truncate(STARTS);
}

/// Starts of ever more micro-batches, except those whose bound is no better than what is there to improve already.
fn pipeline_drafts(
    problem: &StepProblem<'_>,
    samples: &Samples,
    mut packed: Vec<MicroBatch>,
    count: usize,
) -> Vec<Draft> {
    split_costliest(samples, &mut packed, count);
    let mut drafts = vec![Draft::new(packed, problem)];
    let more = std::iter::successors(Some(count), |&count| {
        (count + count / 4 + 1).checked_next_multiple_of(problem.dp_size * problem.multiple)
    });
    for count in more.take_while(|&count| count <= samples.len()) {
        let worth_while = |bound: u64| {
            drafts.len() < STARTS || drafts.last().is_none_or(|last| bound + problem.overhead(count) < last.time)
        };
        if !worth_while(problem.bound(count)) {
            continue;
        }
        if let Some(mut batches) = deal_to_cheapest(samples, count) {
            split_costliest(samples, &mut batches, count);
            let costliest = batches.iter().map(MicroBatch::cost).max().unwrap_or(0);
            if worth_while(problem.objective.stages() * costliest) {
                keep_shortest(&mut drafts, Draft::new(batches, problem));
            }
        }
    }
    drafts
}

/// Rows within one part in so many of their mean are even.
const EVEN: u64 = 400;

/// Micro-batches on their ranks.
struct Draft {
    batches: Vec<MicroBatch>,
    ranks: Ranks,
    /// By the objective.
    time: u64,
}

impl Draft {
    /// Deals micro-batches to ranks, as many to each.
    fn new(mut batches: Vec<MicroBatch>, problem: &StepProblem<'_>) -> Self {
        sort_into_rows(&mut batches);
        let costs: Vec<u64> = batches.iter().map(MicroBatch::cost).collect();
        let parts = partition(&costs, problem.dp_size, true);
        let ranks = Ranks::new(&parts, problem.objective.stages());
        let time = match problem.objective {
            WholeObjective::MicroBatch => row_time(&batches, problem.dp_size),
            _ => ranks.time(&batches) + problem.overhead(batches.len()),
        };
        Self { batches, ranks, time }
    }

    fn improve(&mut self, problem: &StepProblem<'_>, search: &mut Search<'_>) {
        if problem.objective == WholeObjective::MicroBatch {
            Rows::new(&mut self.batches, problem.dp_size).level(search);
            *self = Self::new(std::mem::take(&mut self.batches), problem);
        } else {
            level_ranks(search, &mut self.batches, &mut self.ranks);
            self.time = self.ranks.time(&self.batches) + problem.overhead(self.batches.len());
        }
    }

    /// The plan: parts to ranks, micro-batches in the order in which a rank runs them, samples by index.
    fn groups(&self, problem: &StepProblem<'_>, samples: &Samples, least_first: &[usize]) -> Groups {
        let cost = |position: u32| self.batches[position as usize].cost();
        let mut parts: Vec<(u64, &[u32])> =
            self.ranks.iter().map(|part| (part.iter().copied().map(cost).sum(), part)).collect();
        parts.sort_by_key(|&(sum, _)| Reverse(sum));
        let mut of_rank = vec![parts[0].1; problem.dp_size];
        for (&(_, part), &rank) in parts.iter().zip(least_first) {
            of_rank[rank] = part;
        }
        let mut groups = Groups::default();
        for part in of_rank {
            let mut part = part.to_vec();
            part.sort_by_key(|&position| Reverse((cost(position), position)));
            if matches!(problem.objective, WholeObjective::Pipeline { .. }) {
                part = cheap_at_both_ends(&part);
            }
            for position in part {
                let start = groups.items.len();
                groups.items.extend(
                    self.batches[position as usize].samples.iter().map(|&sample| samples.original[sample as usize]),
                );
                groups.items[start..].sort_unstable();
                groups.ranges.push(start as u32..groups.items.len() as u32);
            }
        }
        groups
    }
}

/// From descending order: every other one ascending, then the rest descending.
fn cheap_at_both_ends(descending: &[u32]) -> Vec<u32> {
    let up = descending.iter().rev().step_by(2);
    let down = descending.iter().rev().skip(1).step_by(2);
    up.copied().chain(down.copied().rev()).collect()
}
