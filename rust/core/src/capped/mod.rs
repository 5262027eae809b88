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
//! two micro-batches helps, which need not be the optimum; rows are then searched on, by numbers at random that are the same
//! each time. There is no clock, and more effort only continues the search.
mod anneal;
mod bins;
mod cheapest;
mod clock;
mod counts;
mod draft;
mod drafts;
mod even_samples;
mod exact_fit;
mod exact_plan;
mod fewest;
mod level_ranks;
mod level_rows;
mod limits;
mod objective;
mod ramps;
mod rooms;
mod samples;
mod starts;
mod trade;
mod trials;

use crate::interrupt::Work;
use crate::{Capped, Counts, Groups};
use anneal::PROPOSALS;
use draft::Draft;
use drafts::{STARTS, drafts};
use even_samples::plan_even_samples;
pub(crate) use fewest::least_batches;
use fewest::{in_fewest_rows, least};
pub(crate) use limits::Caps;
pub(crate) use objective::WholeObjective;
use samples::Samples;
use starts::first_fit_decreasing;
use trade::Search;

/// One step to plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepProblem<'a> {
    /// Tokens of every sample, as they count against the cap.
    pub lengths: &'a [i64],
    /// Costs; their total, times the stages and parts of a pipeline, below 2^62.
    pub costs: &'a [u64],
    /// What a micro-batch may hold.
    pub caps: Caps<'a>,
    /// Data-parallel ranks.
    pub dp_size: usize,
    /// Micro-batches per rank come in multiples of this.
    pub multiple: usize,
    /// How many they are beside that.
    pub counts: Counts,
    /// What is to be short.
    pub objective: WholeObjective,
    /// What every micro-batch costs beside its samples; with one, there may be more of them than the fewest.
    pub micro_batch_overhead: Option<u64>,
    /// Look-ups per sample, of 16,384 at most, that the search may spend on each of its starts.
    pub effort: u64,
}

impl StepProblem<'_> {
    /// One rank waits for no other: its micro-batches are made even, as one row.
    fn is_one_row(&self) -> bool {
        self.dp_size == 1 && self.objective.pipeline().is_none()
    }

    /// Whether the costliest micro-batch of every row is to be cheap.
    fn in_rows(&self) -> bool {
        self.objective.in_rows() || self.is_one_row()
    }

    /// Micro-batches of a row.
    fn width(&self, count: usize) -> usize {
        if self.is_one_row() { count } else { self.dp_size }
    }

    /// What a rank's time gains from the overheads of so many micro-batches of all ranks.
    fn overheads(&self, count: usize) -> u64 {
        self.micro_batch_overhead.unwrap_or(0) * (count / self.dp_size) as u64
    }

    /// No plan of so many micro-batches is shorter.
    fn bound(&self, count: usize) -> u64 {
        if self.is_one_row() {
            return self.objective.bound(self.costs, count, count, 0) + self.overheads(count);
        }
        self.objective.bound(self.costs, self.dp_size, count, self.micro_batch_overhead.unwrap_or(0))
    }

    /// Differences below this are not worth a look, whatever the overhead.
    fn tolerance(&self, count: usize) -> u64 {
        (self.objective.bound(self.costs, self.width(count), count, 0) >> TOLERANCE).max(1)
    }
}

/// Why a step has no plan. `packed` micro-batches are what the limits need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlan {
    /// It has fewer samples than the `needed` micro-batches.
    Shortage { packed: usize, needed: usize },
    /// It must have fewer micro-batches than were found to do, or than a bound allows.
    TooFew { packed: usize, is_bound: bool },
}

/// Plans one step: the micro-batches of every rank, rank by rank, as many on each.
///
/// No micro-batch of two samples or more exceeds a limit, none is empty, and there are as few as were found to do, rounded
/// up to a multiple of `dp_size * multiple` (for a pipeline, at least as many). The ranks get
/// their parts, heaviest first, in the order of `least_first`: by what they were given in earlier steps.
///
/// # Errors
/// [`NoPlan`] when the step holds fewer samples than that, or needs more micro-batches than it may have.
///
/// # Complexity
/// **O(n log² n)** time for the starts and at most `effort` look-ups per sample for each.
///
/// # Literature
/// D. S. Johnson, *Near-optimal bin packing algorithms*, 1973 (first fit decreasing); R. L. Graham, *Bounds on
/// multiprocessing timing anomalies*, 1969 (costliest first to the cheapest); N. Karmarkar and R. M. Karp, 1982.
pub(crate) fn plan_step(problem: &StepProblem<'_>, least_first: &[usize]) -> Result<Groups, NoPlan> {
    if problem.counts.even_samples && problem.dp_size > 1 {
        return plan_even_samples(problem, least_first);
    }
    let samples = Samples::new(problem.lengths, problem.costs, &problem.caps);
    let in_rows = problem.in_rows();
    // A plan of more rows starts from one of fewer.
    let row = if in_rows { problem.dp_size } else { problem.dp_size.saturating_mul(problem.multiple) };
    let packed = in_fewest_rows(&samples, first_fit_decreasing(&samples), row);
    let count = problem.fewest(packed.len(), || least(&samples))?;
    if count > samples.len() {
        return Err(NoPlan::Shortage { packed: packed.len(), needed: count });
    }
    let packed = if count < samples.len() { packed } else { vec![] }; // all alone: nothing to start from
    let search = |count: usize, effort: u64| {
        let bound = problem.bound(count);
        let lookups = effort.saturating_mul(samples.len().min(MOST_COUNTED) as u64);
        Search { samples: &samples, lookups, bound, tolerance: problem.tolerance(count), work: Work::default() }
    };
    // The shortest of some starts, each improved, and how long the shortest was before.
    let shortest = |count: usize, fewer: Option<&Draft>, starts: usize, effort: u64| {
        let drafts = drafts(problem, &samples, &packed, fewer, count);
        let start = drafts.first().map_or(u64::MAX, |draft| draft.time);
        let mut best: Option<Draft> = None;
        for mut draft in drafts.into_iter().take(starts) {
            let count = draft.batches.len();
            let mut search = search(count, effort);
            let least = search.bound + search.tolerance;
            if best.as_ref().is_some_and(|best| best.time < least) {
                continue;
            }
            draft.improve(problem, &mut search);
            if best.as_ref().is_none_or(|best| draft.time < best.time) {
                best = Some(draft);
            }
        }
        (start, best)
    };
    let anneal = |draft: Option<Draft>, effort: u64| {
        let mut draft = draft?;
        let (count, samples) = (draft.batches.len(), samples.len() as u64);
        let rounds = effort.saturating_mul(samples.min(MOST_ANNEALED)) / (PROPOSALS * samples);
        draft.anneal(problem, rounds, || search(count, 0));
        Some(draft)
    };
    // The same for every effort, so that more of it starts from the same plans.
    let fewest_rows = packed.len().next_multiple_of(problem.dp_size);
    let fewer = if in_rows && problem.dp_size > 1 && (1..count).contains(&fewest_rows) {
        let fewer = shortest(fewest_rows, None, STARTS, EFFORT_OF_DESCENT).1;
        anneal(fewer, Capped::EFFORT - EFFORT_OF_DESCENT)
    } else {
        None
    };
    let effort = if in_rows { problem.effort.min(EFFORT_OF_DESCENT) } else { problem.effort };
    let counts = match problem.even_count(&samples, count, |count| shortest(count, None, STARTS, effort).1) {
        Some(even) => vec![even],
        None => problem.counts(count, samples.len()).collect(),
    };
    let (mut shortest_start, mut best) = (u64::MAX, None::<Draft>);
    for count in counts {
        if problem.bound(count) >= shortest_start {
            break;
        }
        let (start, draft) = shortest(count, fewer.as_ref(), if best.is_none() { STARTS } else { 1 }, effort);
        shortest_start = shortest_start.min(start);
        best = best.into_iter().chain(draft).min_by_key(|draft| draft.time);
    }
    if in_rows {
        best = anneal(best, problem.effort - effort);
    }
    if problem.effort > EFFORT_OF_DESCENT {
        best = best.map(|draft| draft.exact(problem, &samples));
    }
    Ok(best.map_or_else(Groups::default, |draft| draft.groups(problem, &samples, least_first)))
}

/// Look-ups for each sample that go into the descent of rows, what is more into the search behind it; and into a plan of
/// fewer rows, from which one of more starts.
const EFFORT_OF_DESCENT: u64 = 64;

/// Samples beyond this many add nothing to the rounds behind the descent: rows of so many are hardly shorter for them.
const MOST_ANNEALED: u64 = 1 << 11;

/// Samples beyond this many add nothing to the effort: larger steps are even from the start, and end in time.
const MOST_COUNTED: usize = 1 << 14;

/// Improvements below the bound divided by two this many times are left alone.
const TOLERANCE: u32 = 15;
