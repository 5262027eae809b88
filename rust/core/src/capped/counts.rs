//! How many micro-batches a step gets.
use crate::Counts;
use crate::capped::draft::Draft;
use crate::capped::drafts::parts_by_cost;
use crate::capped::objective::WholeObjective;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::{MOST_COUNTED, NoPlan, StepProblem};

/// Numbers of micro-batches that are tried at most, the first of them one by one.
const MOST_COUNTS: usize = 16;
const ONE_BY_ONE: usize = 8;

/// Numbers of micro-batches beyond the fewest in which one rank's are made even.
const MOST_EVENED: usize = 32;

/// One rank's micro-batches are even where the costliest is at most one part in so many above that of Karmarkar-Karp.
const EVEN: u64 = 128;

impl StepProblem<'_> {
    /// The fewest micro-batches of all ranks, where the samples were packed into so many, of no fewer than `least`.
    pub fn fewest(&self, packed: usize, least: impl FnOnce() -> usize) -> Result<usize, NoPlan> {
        let Counts { exactly, at_least, .. } = self.counts;
        let of_rank = exactly.unwrap_or(at_least).get();
        let count = self.dp_size.saturating_mul(of_rank);
        if exactly.is_some() {
            let too_few = || NoPlan::TooFew { packed, is_bound: least() == packed };
            return if packed <= count { Ok(count) } else { Err(too_few()) };
        }
        let unit = self.dp_size.saturating_mul(self.multiple);
        Ok(packed.max(count).checked_next_multiple_of(unit).unwrap_or(usize::MAX))
    }

    /// Numbers of micro-batches that may make a short plan, from the fewest on: one by one first, then in larger steps.
    pub fn counts(&self, fewest: usize, most: usize) -> impl Iterator<Item = usize> {
        let unit = self.dp_size * self.multiple;
        let next = move |&(tried, count): &(usize, usize)| {
            let more = if tried < ONE_BY_ONE { 1 } else { count / 4 };
            Some((tried + 1, (count + more).checked_next_multiple_of(unit)?))
        };
        // A pipeline's starts look at more by themselves.
        let only_fewest = self.counts.exactly.is_some()
            || self.micro_batch_overhead.is_none()
            || self.is_one_row() // whose work is the same in any number
            || matches!(self.objective, WholeObjective::Pipeline(_));
        let counts = std::iter::successors(Some((1, fewest)), next).map(|(_, count)| count);
        counts.take(if only_fewest { 1 } else { MOST_COUNTS }).take_while(move |&count| count <= most)
    }

    /// Where one rank's micro-batches are made even: the fewest in which the costliest costs hardly more than in as many as
    /// Karmarkar–Karp by cost needs to keep the limits. `None` for several ranks, for so many samples that the
    /// fewest are even, and where the number is settled or no such is near.
    ///
    /// A plan of one number is asked for by `shortest`, for O(log k) of k numbers.
    pub fn even_count(
        &self,
        samples: &Samples,
        fewest: usize,
        shortest: impl Fn(usize) -> Option<Draft>,
    ) -> Option<usize> {
        let is_open = self.is_one_row() && self.counts.exactly.is_none() && self.micro_batch_overhead.is_none();
        if !is_open || fewest == samples.len() || samples.len() > MOST_COUNTED {
            return None;
        }
        let counts = (0..MOST_EVENED).map(|more| fewest + more * self.multiple);
        let counts: Vec<usize> = counts.take_while(|&count| count <= samples.len()).collect();
        let mut parts = (0..).zip(&counts).map(|(most, &count)| Some((most, parts_by_cost(samples, count)?)));
        let (most, parts): (usize, Vec<MicroBatch>) = parts.find_map(|found| found)?;
        let costliest = parts.iter().map(MicroBatch::cost).max()?;
        let is_even = |&count: &usize| shortest(count).is_some_and(|draft| draft.time <= costliest + costliest / EVEN);
        Some(counts[counts[..most].partition_point(|count| !is_even(count))])
    }
}
