//! How long ranks work: the sum of their costs, or until their pipelines end.
use crate::capped::objective::WholeObjective;
use crate::capped::samples::MicroBatch;
use crate::pipeline::{Passes, Pipeline};

/// Tells the time of a rank from the micro-batches that it runs, in their order.
pub(crate) enum Clock {
    Sum,
    Pipeline { pipeline: Pipeline, micro_batch_overhead: u64, costs: Vec<u64>, passes: Passes<u64> },
}

/// Passes of a pipeline that are simulated in the time of a look-up.
const PASSES_PER_LOOKUP: u64 = 16;

impl Clock {
    pub fn of(objective: WholeObjective) -> Self {
        match objective {
            WholeObjective::Step | WholeObjective::MicroBatch => Self::Sum,
            WholeObjective::Pipeline { pipeline, micro_batch_overhead } => {
                Self::Pipeline { pipeline, micro_batch_overhead, costs: Vec::new(), passes: Passes::default() }
            }
        }
    }

    /// Stages through which micro-batches pass.
    pub fn stages(&self) -> u64 {
        match self {
            Self::Sum => 1,
            Self::Pipeline { pipeline, .. } => pipeline.stages(),
        }
    }

    /// Units of time in one of cost.
    pub fn parts(&self) -> u64 {
        match self {
            Self::Sum => 1,
            Self::Pipeline { pipeline, .. } => pipeline.parts(),
        }
    }

    /// Look-ups that take as long as the time of a rank of so many micro-batches does.
    pub fn lookups(&self, micro_batches: usize) -> usize {
        match self {
            Self::Sum => 0,
            Self::Pipeline { pipeline, .. } => {
                1 + (micro_batches as u64 * pipeline.stages() * pipeline.chunks() / PASSES_PER_LOOKUP) as usize
            }
        }
    }

    /// The time of a rank.
    pub fn time(&mut self, batches: &[MicroBatch], of_rank: &[u32]) -> u64 {
        self.time_of(of_rank.iter().map(|&position| batches[position as usize].cost()))
    }

    /// The time of a rank whose micro-batches cost so much, in its order.
    pub fn time_of(&mut self, of_rank: impl Iterator<Item = u64>) -> u64 {
        match self {
            Self::Sum => of_rank.sum(),
            Self::Pipeline { pipeline, micro_batch_overhead, costs, passes } => {
                costs.clear();
                costs.extend(of_rank.map(|cost| cost + *micro_batch_overhead));
                pipeline.end(costs, passes)
            }
        }
    }
}
