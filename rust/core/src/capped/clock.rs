//! How long ranks work: the sum of their costs, or until their pipelines end.
use crate::capped::StepProblem;
use crate::capped::samples::MicroBatch;
use crate::pipeline::{Passes, Pipeline};

/// Tells the time of a rank from the micro-batches that it runs, in their order.
pub(crate) struct Clock {
    /// The rank's, if it is one.
    pipeline: Option<Pipeline>,
    micro_batch_overhead: u64,
    costs: Vec<u64>,
    passes: Passes<u64>,
}

/// Passes through a stage, forward and back, that are simulated in the time of a look-up.
const PASSES_PER_LOOKUP: u64 = 16;

impl Clock {
    pub fn of(problem: &StepProblem<'_>) -> Self {
        let micro_batch_overhead = problem.micro_batch_overhead.unwrap_or(0);
        Self {
            pipeline: problem.objective.pipeline(),
            micro_batch_overhead,
            costs: Vec::new(),
            passes: Passes::default(),
        }
    }

    /// The rank's pipeline, if it is one.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_ref()
    }

    /// Units of time in one of cost.
    pub fn parts(&self) -> u64 {
        self.pipeline.map_or(1, |pipeline| pipeline.parts())
    }

    /// Look-ups that take as long as the time of a rank of so many micro-batches does.
    pub fn lookups(&self, micro_batches: usize) -> usize {
        let passes = |pipeline: Pipeline| micro_batches as u64 * pipeline.stages() * pipeline.chunks();
        self.pipeline.map_or(1, |pipeline| 1 + (passes(pipeline) / PASSES_PER_LOOKUP) as usize)
    }

    /// The time of a rank.
    pub fn time(&mut self, batches: &[MicroBatch], of_rank: &[u32]) -> u64 {
        self.time_of(of_rank.iter().map(|&position| batches[position as usize].cost()))
    }

    /// The time of a rank whose micro-batches cost so much, in its order.
    pub fn time_of(&mut self, of_rank: impl Iterator<Item = u64>) -> u64 {
        let of_rank = of_rank.map(|cost| cost + self.micro_batch_overhead);
        let Some(pipeline) = self.pipeline else { return of_rank.sum() };
        self.costs.clear();
        self.costs.extend(of_rank);
        pipeline.end(&self.costs, &mut self.passes)
    }
}
