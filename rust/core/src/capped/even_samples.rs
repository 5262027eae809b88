//! As many samples on every rank, but for one: parts of equal counts first, then every rank within the cap for itself.
use crate::Groups;
use crate::capped::fewest::in_fewest_rows;
use crate::capped::samples::Samples;
use crate::capped::starts::first_fit_decreasing;
use crate::capped::{Caps, NoPlan, StepProblem, plan_step};
use crate::partition::refined;
use std::cmp::Reverse;
use std::num::NonZeroUsize;

/// Plans a step whose ranks get numbers of samples that differ by at most one.
///
/// Ranks get parts that are even by cost; where these need more micro-batches than the step does, parts that are even by
/// tokens are tried as well. Every rank is then planned alone, in as many micro-batches as the rank that needs the most.
pub(super) fn plan_even_samples(problem: &StepProblem<'_>, least_first: &[usize]) -> Result<Groups, NoPlan> {
    let ranks = problem.dp_size;
    let packed = problem.packed(problem.multiple.saturating_mul(ranks));
    let fewest = problem.fewest(packed, || 0)?;
    if fewest > problem.costs.len() {
        return Err(NoPlan::Shortage { packed, needed: fewest });
    }
    let by_cost = refined(problem.costs, ranks);
    let mut best = (problem.most_of_a_rank(&by_cost), by_cost);
    if best.0 > fewest / ranks {
        let tokens: Vec<u128> = problem.lengths.iter().map(|&length| length as u128).collect();
        let by_tokens = refined(&tokens, ranks);
        let most = problem.most_of_a_rank(&by_tokens);
        if most < best.0 {
            best = (most, by_tokens);
        }
    }
    let (packed, parts) = best;
    let too_few = |_| NoPlan::TooFew { packed: packed * ranks, is_bound: false };
    let of_rank = problem.of_a_rank().fewest(packed, || 0).map_err(too_few)?;
    if of_rank > problem.costs.len() / ranks {
        return Err(NoPlan::Shortage { packed: packed * ranks, needed: of_rank * ranks });
    }
    let mut heaviest_first: Vec<(u64, &[u32])> = parts.iter().map(|part| (problem.cost_of(part), part)).collect();
    heaviest_first.sort_by_key(|&(cost, _)| Reverse(cost));
    let mut of_ranks = vec![Groups::default(); ranks];
    for (&(_, part), &rank) in heaviest_first.iter().zip(least_first) {
        of_ranks[rank] = problem.plan_rank(part, of_rank)?;
    }
    let mut planned = Groups::default();
    for micro_batch in of_ranks.iter().flat_map(Groups::iter) {
        planned.push(micro_batch.iter().copied());
    }
    Ok(planned)
}

impl StepProblem<'_> {
    /// What a rank is asked for that is planned alone.
    fn of_a_rank(&self) -> Self {
        Self { dp_size: 1, objective: self.objective.of_a_rank(), ..*self }
    }

    /// Micro-batches that the limits need, as few as are found where they come in rows of so many.
    fn packed(&self, row: usize) -> usize {
        let samples = Samples::new(self.lengths, self.costs, &self.caps);
        in_fewest_rows(&samples, first_fit_decreasing(&samples), row).len()
    }

    /// The most that a rank needs.
    fn most_of_a_rank(&self, parts: &Groups) -> usize {
        parts.iter().map(|part| self.with_samples(part, |rank| rank.packed(rank.multiple))).max().unwrap_or(0)
    }

    fn cost_of(&self, part: &[u32]) -> u64 {
        part.iter().map(|&sample| self.costs[sample as usize]).sum()
    }

    /// The micro-batches of a rank with these samples, exactly so many.
    fn plan_rank(&self, part: &[u32], of_rank: usize) -> Result<Groups, NoPlan> {
        let mut planned = self.with_samples(part, |mut rank| {
            rank.counts.exactly = NonZeroUsize::new(of_rank);
            plan_step(&rank, &[0])
        })?;
        for item in &mut planned.items {
            *item = part[*item as usize];
        }
        Ok(planned)
    }

    /// Hands over a rank's problem with some of the samples.
    fn with_samples<T>(&self, part: &[u32], work: impl FnOnce(StepProblem<'_>) -> T) -> T {
        fn gather<V: Copy>(values: &[V], part: &[u32]) -> Vec<V> {
            part.iter().map(|&sample| values[sample as usize]).collect()
        }
        let (lengths, costs) = (gather(self.lengths, part), gather(self.costs, part));
        let extra = self.caps.extra.map(|(amounts, cap)| (gather(amounts, part), cap));
        let caps = Caps { extra: extra.as_ref().map(|(amounts, cap)| (&amounts[..], *cap)), ..self.caps };
        work(StepProblem { lengths: &lengths, costs: &costs, caps, ..self.of_a_rank() })
    }
}
