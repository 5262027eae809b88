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
mod clock;
mod draft;
mod drafts;
mod fewest;
mod level_ranks;
mod level_rows;
mod limits;
mod objective;
mod ramps;
mod samples;
mod starts;
mod trade;

use crate::interrupt::Work;
use crate::{Counts, Groups};
use draft::Draft;
use drafts::{STARTS, drafts};
use fewest::in_fewest_rows;
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
    /// No plan of so many micro-batches is shorter.
    fn bound(&self, count: usize) -> u64 {
        self.objective.bound(self.costs, self.dp_size, count, self.micro_batch_overhead.unwrap_or(0))
    }

    /// Differences below this are not worth a look, whatever the overhead.
    fn tolerance(&self, count: usize) -> u64 {
        (self.objective.bound(self.costs, self.dp_size, count, 0) >> TOLERANCE).max(1)
    }

    /// The fewest micro-batches of all ranks, where the limits need so many.
    fn fewest(&self, packed: usize) -> Result<usize, NoPlan> {
        let Counts { exactly, at_least } = self.counts;
        let of_rank = exactly.unwrap_or(at_least).get();
        let count = self.dp_size.saturating_mul(of_rank);
        if exactly.is_some() {
            return if packed <= count { Ok(count) } else { Err(NoPlan::TooFew { packed }) };
        }
        let unit = self.dp_size.saturating_mul(self.multiple);
        Ok(packed.max(count).checked_next_multiple_of(unit).unwrap_or(usize::MAX))
    }

    /// Numbers of micro-batches that may make a short plan, from the fewest on: one by one first, then in larger steps.
    fn counts(&self, fewest: usize, most: usize) -> impl Iterator<Item = usize> {
        let unit = self.dp_size * self.multiple;
        let next = move |&(tried, count): &(usize, usize)| {
            let more = if tried < ONE_BY_ONE { 1 } else { count / 4 };
            Some((tried + 1, (count + more).checked_next_multiple_of(unit)?))
        };
        // A pipeline's starts look at more by themselves.
        let only_fewest = self.counts.exactly.is_some()
            || self.micro_batch_overhead.is_none()
            || matches!(self.objective, WholeObjective::Pipeline(_));
        let counts = std::iter::successors(Some((1, fewest)), next).map(|(_, count)| count);
        counts.take(if only_fewest { 1 } else { MOST_COUNTS }).take_while(move |&count| count <= most)
    }
}

/// Why a step has no plan. `packed` micro-batches are what the limits need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlan {
    /// It has fewer samples than the `needed` micro-batches.
    Shortage { packed: usize, needed: usize },
    /// It must have fewer micro-batches than that.
    TooFew { packed: usize },
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
    let samples = Samples::new(problem.lengths, problem.costs, &problem.caps);
    let unit = problem.dp_size.saturating_mul(problem.multiple);
    let packed = in_fewest_rows(&samples, first_fit_decreasing(&samples), unit);
    let count = problem.fewest(packed.len())?;
    if count > samples.len() {
        return Err(NoPlan::Shortage { packed: packed.len(), needed: count });
    }
    let packed = if count < samples.len() { packed } else { vec![] }; // all alone: nothing to start from
    let mut best: Option<Draft> = None;
    let mut shortest_start = u64::MAX;
    for count in problem.counts(count, samples.len()) {
        // Which numbers are tried must not depend on the effort: the search could miss one that it finds with less.
        if problem.bound(count) >= shortest_start {
            break;
        }
        let starts = if best.is_none() { STARTS } else { 1 };
        let drafts = drafts(problem, &samples, &packed, count);
        shortest_start = drafts.iter().map(|draft| draft.time).fold(shortest_start, u64::min);
        for mut draft in drafts.into_iter().take(starts) {
            let bound = problem.bound(draft.batches.len());
            let tolerance = problem.tolerance(draft.batches.len());
            if best.as_ref().is_some_and(|best| best.time < bound + tolerance) {
                continue;
            }
            let lookups = problem.effort.saturating_mul(samples.len().min(MOST_COUNTED) as u64);
            draft.improve(problem, &mut Search { samples: &samples, lookups, bound, tolerance, work: Work::default() });
            if best.as_ref().is_none_or(|best| draft.time < best.time) {
                best = Some(draft);
            }
        }
    }
    Ok(best.map_or_else(Groups::default, |draft| draft.groups(problem, &samples, least_first)))
}

/// Numbers of micro-batches that are tried at most, the first of them one by one.
const MOST_COUNTS: usize = 16;
const ONE_BY_ONE: usize = 8;

/// Samples beyond this many add nothing to the effort: larger steps are even from the start, and end in time.
const MOST_COUNTED: usize = 1 << 14;

/// Improvements below the bound divided by two this many times are left alone.
const TOLERANCE: u32 = 15;
