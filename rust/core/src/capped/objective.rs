//! What a step's plan is to make short.
use crate::Pipeline;
use crate::measure::lower_bound;

/// An [`Objective`](crate::Objective) in the whole costs of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeObjective {
    /// Ranks meet once a step: the largest sum of a rank's costs.
    Step,
    /// Ranks meet at every micro-batch: the costliest first micro-batch, plus the costliest second, and so on.
    MicroBatch,
    /// Ranks meet once a step and each is a pipeline: the largest Σ c + (stages − 1) · max c of a rank's costs c, with their
    /// overhead.
    Pipeline(Pipeline),
}

impl WholeObjective {
    /// Stages through which a rank's micro-batches pass.
    pub(crate) fn stages(self) -> u64 {
        if let Self::Pipeline(pipeline) = self { pipeline.stages() } else { 1 }
    }

    /// How often a rank pays an overhead that each of `micro_batches` has.
    pub(crate) fn overheads(self, micro_batches: usize) -> u64 {
        micro_batches as u64 + self.stages() - 1
    }

    /// No plan of `count` micro-batches is shorter, their overhead left out: a rank carries the mean at least, its
    /// costliest micro-batch is no cheaper than the mean one, and the costliest sample is somewhere.
    pub(crate) fn bound(self, costs: &[u64], ranks: usize, count: usize) -> u64 {
        let total: u64 = costs.iter().sum();
        let costliest = costs.iter().copied().max().unwrap_or(0);
        lower_bound(total.div_ceil(ranks as u64), total / count as u64, costliest, self.stages() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::WholeObjective as Whole;
    use crate::Pipeline;
    use std::num::NonZeroU64;

    fn pipeline() -> Whole {
        let pipeline = Pipeline::new(NonZeroU64::new(4).unwrap(), NonZeroU64::MIN, None).unwrap();
        Whole::Pipeline(pipeline)
    }

    #[test]
    fn a_rank_carries_the_mean_and_somewhere_is_the_costliest_sample() {
        assert_eq!(Whole::Step.bound(&[3, 3, 3, 4], 2, 2), 7);
        assert_eq!(Whole::Step.bound(&[3, 3, 3, 4], 4, 4), 4);
        assert_eq!(Whole::MicroBatch.bound(&[1, 1, 9], 2, 2), 9);
    }

    #[test]
    fn a_pipeline_fills_with_a_mean_micro_batch_or_the_costliest_sample() {
        assert_eq!(pipeline().bound(&[3, 3, 3, 4, 3, 4], 2, 4), 10 + 3 * 5);
        assert_eq!(pipeline().bound(&[3, 3, 3, 9], 2, 4), 4 * 9);
    }

    #[test]
    fn every_micro_batch_and_every_further_stage_has_its_overhead() {
        assert_eq!(pipeline().overheads(7), 7 + 3);
        assert_eq!(Whole::Step.overheads(7), 7);
    }
}
