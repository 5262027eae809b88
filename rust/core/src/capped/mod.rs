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
mod draft;
mod drafts;
mod fewest;
mod level_ranks;
mod level_rows;
mod limits;
mod objective;
mod samples;
mod starts;
mod trade;

use crate::Groups;
use crate::interrupt::Work;
use drafts::drafts;
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
/// No micro-batch of two samples or more exceeds a limit, none is empty, and there are as few as were found to do, rounded
/// up to a multiple of `dp_size * multiple` (for a pipeline, at least as many). The ranks get
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
    let unit = problem.dp_size.saturating_mul(problem.multiple);
    let packed = in_fewest_rows(&samples, first_fit_decreasing(&samples), unit);
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

/// Samples beyond this many add nothing to the effort: larger steps are even from the start, and end in time.
const MOST_COUNTED: usize = 1 << 14;

/// Improvements below the bound divided by two this many times are left alone.
const TOLERANCE: u32 = 15;
