//! Micro-batches on their ranks: a start, its search, and the plan that comes of it.
use crate::Groups;
use crate::capped::StepProblem;
use crate::capped::anneal::{PROPOSALS, anneal};
use crate::capped::clock::Clock;
use crate::capped::exact_plan::{Ends, FEW, exact_plan};
use crate::capped::level_ranks::{Ranks, level_ranks};
use crate::capped::level_rows::{Rows, sort_into_rows};
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::trade::Search;
use crate::partition::{ItemOrder, partition};
use std::cmp::Reverse;

/// Micro-batches on their ranks.
pub(crate) struct Draft {
    pub batches: Vec<MicroBatch>,
    ranks: Ranks,
    /// By the objective.
    pub time: u64,
}

impl Draft {
    /// Deals micro-batches to ranks, as many to each.
    pub fn new(mut batches: Vec<MicroBatch>, problem: &StepProblem<'_>) -> Self {
        sort_into_rows(&mut batches);
        let costs: Vec<u64> = batches.iter().map(MicroBatch::cost).collect();
        let parts = partition(&costs, problem.dp_size, true, ItemOrder::Joined);
        let mut ranks = Ranks::new(&parts);
        if problem.objective.pipeline().is_some() {
            ranks.iter_mut().for_each(cheap_at_both_ends);
        }
        Self::on_ranks(batches, ranks, problem)
    }

    /// Micro-batches that stand rank by rank in the order in which ranks run them.
    pub fn in_order(batches: Vec<MicroBatch>, problem: &StepProblem<'_>) -> Self {
        let ranks = Ranks::in_order(batches.len(), problem.dp_size);
        Self::on_ranks(batches, ranks, problem)
    }

    /// Where rows count, micro-batches that are sorted into them.
    fn on_ranks(batches: Vec<MicroBatch>, ranks: Ranks, problem: &StepProblem<'_>) -> Self {
        let mut clock = Clock::of(problem);
        let time = if problem.is_one_row() {
            batches[0].cost() + problem.overheads(batches.len())
        } else if problem.in_rows() {
            let mut peaks: Vec<u32> = (0..batches.len() as u32).step_by(problem.dp_size).collect();
            cheap_at_both_ends(&mut peaks);
            clock.time(&batches, &peaks)
        } else {
            ranks.time(&batches, &mut clock)
        };
        Self { batches, ranks, time }
    }

    pub fn improve(&mut self, problem: &StepProblem<'_>, search: &mut Search<'_>) {
        if problem.in_rows() {
            let width = problem.width(self.batches.len());
            Rows::new(&mut self.batches, width).level(search);
            *self = Self::new(std::mem::take(&mut self.batches), problem);
        } else {
            let mut clock = Clock::of(problem);
            level_ranks(search, &mut self.batches, &mut self.ranks, &mut clock);
            self.time = self.ranks.time(&self.batches, &mut clock);
        }
    }

    /// The shortest of all, where samples are [`FEW`] and ranks are no pipelines.
    pub fn exact(self, problem: &StepProblem<'_>, samples: &Samples) -> Self {
        if samples.len() > FEW || problem.objective.pipeline().is_some() {
            return self;
        }
        let count = self.batches.len();
        let load = |&position: &u32| self.batches[position as usize].load;
        let loads: Vec<Load> = self.ranks.iter().flatten().map(load).collect();
        if problem.in_rows() {
            let rows = exact_plan(samples, &loads, Ends::InRows(problem.width(count)));
            rows.map_or(self, |batches| Self::new(batches, problem))
        } else {
            let on_ranks = exact_plan(samples, &loads, Ends::OnRanks(count / problem.dp_size));
            on_ranks.map_or(self, |batches| Self::in_order(batches, problem))
        }
    }

    /// Rounds of a search that climbs out of where the descent of rows ends; each starts from the best so far. `search`
    /// makes the descent behind a round.
    pub fn anneal<'s>(&mut self, problem: &StepProblem<'_>, rounds: u64, search: impl Fn() -> Search<'s>) {
        let width = problem.width(self.batches.len());
        for seed in 1..=rounds {
            let mut search = search();
            if self.time < search.bound + search.tolerance {
                return;
            }
            let proposals = PROPOSALS * search.samples.len() as u64;
            search.lookups = proposals;
            let mut batches = self.batches.clone();
            anneal(search.samples, &mut batches, width, proposals, seed);
            sort_into_rows(&mut batches);
            Rows::new(&mut batches, width).level(&mut search);
            let other = Self::new(batches, problem);
            if other.time < self.time {
                *self = other;
            }
        }
    }

    /// The plan: parts to ranks, micro-batches in the order in which a rank runs them, samples by index.
    pub fn groups(&self, problem: &StepProblem<'_>, samples: &Samples, least_first: &[usize]) -> Groups {
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
            if problem.objective.pipeline().is_none() {
                part.sort_by_key(|&position| Reverse((cost(position), position)));
            }
            for position in part {
                let of_batch = self.batches[position as usize].samples.iter();
                let mut of_batch: Vec<u32> = of_batch.map(|&sample| samples.original[sample as usize]).collect();
                of_batch.sort_unstable();
                groups.push(of_batch);
            }
        }
        groups
    }
}

/// Puts micro-batches that are numbered from the costliest on in an order for pipelines: every other one ascending by
/// cost, then the rest descending.
fn cheap_at_both_ends(of_rank: &mut [u32]) {
    of_rank.sort_unstable_by_key(|&position| Reverse(position));
    let up = of_rank.iter().step_by(2);
    let down = of_rank.iter().skip(1).step_by(2);
    let ordered: Vec<u32> = up.chain(down.rev()).copied().collect();
    of_rank.copy_from_slice(&ordered);
}
