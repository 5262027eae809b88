//! What a step's plan is to make short.
use crate::Pipeline;

/// An [`Objective`](crate::Objective) in the whole costs of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeObjective {
    /// Ranks meet once a step: the largest sum of a rank's costs.
    Step,
    /// Ranks meet at every micro-batch: the costliest first micro-batch, plus the costliest second, and so on.
    MicroBatch,
    /// Ranks meet once a step and each is a pipeline: when the last of them ends, times [`Pipeline::parts`].
    Pipeline(Pipeline),
    /// Ranks meet at every micro-batch and each is a pipeline: the end of one of the costliest first micro-batch, the costliest
    /// second, and so on, times [`Pipeline::parts`].
    PipelinedRows(Pipeline),
}

impl WholeObjective {
    /// The pipeline of every rank, if it is one.
    pub(crate) fn pipeline(self) -> Option<Pipeline> {
        match self {
            Self::Step | Self::MicroBatch => None,
            Self::Pipeline(pipeline) | Self::PipelinedRows(pipeline) => Some(pipeline),
        }
    }

    /// The same for one rank, which meets no other.
    pub(crate) fn of_a_rank(self) -> Self {
        match self {
            Self::PipelinedRows(pipeline) => Self::Pipeline(pipeline),
            other => other,
        }
    }

    /// Whether ranks meet at every micro-batch.
    pub(crate) fn in_rows(self) -> bool {
        matches!(self, Self::MicroBatch | Self::PipelinedRows(_))
    }

    /// No plan of `count` micro-batches that each have an overhead is shorter: a rank carries the mean at least, and the
    /// costliest sample is somewhere.
    pub(crate) fn bound(self, costs: &[u64], ranks: usize, count: usize, overhead: u64) -> u64 {
        let mean = costs.iter().sum::<u64>().div_ceil(ranks as u64);
        let [cheapest, costliest] = [costs.iter().min(), costs.iter().max()].map(|cost| cost.copied().unwrap_or(0));
        let of_rank = (count / ranks) as u64;
        let Some(pipeline) = self.pipeline() else { return mean.max(costliest) + of_rank * overhead };
        let [cheapest, costliest] = [cheapest, costliest].map(|cost| cost + overhead);
        let with_costliest = pipeline.least(costliest + (of_rank - 1) * cheapest, cheapest, costliest);
        pipeline.least(mean + of_rank * overhead, cheapest, 0).max(with_costliest)
    }
}

#[cfg(test)]
mod tests {
    use super::WholeObjective as Whole;
    use crate::Pipeline;
    use std::num::NonZeroU64;

    #[test]
    fn a_rank_carries_the_mean_and_somewhere_is_the_costliest_sample() {
        assert_eq!(Whole::Step.bound(&[3, 3, 3, 4], 2, 2, 0), 7);
        assert_eq!(Whole::Step.bound(&[3, 3, 3, 4], 4, 4, 0), 4);
        assert_eq!(Whole::MicroBatch.bound(&[1, 1, 9], 2, 2, 0), 9);
        assert_eq!(Whole::MicroBatch.bound(&[1, 1, 9], 2, 6, 5), 9 + 3 * 5);
    }

    #[test]
    fn a_pipeline_fills_with_the_cheapest_sample_or_holds_the_costliest() {
        let pipeline = Pipeline::new(NonZeroU64::new(4).unwrap(), NonZeroU64::MIN, None).unwrap();
        // In thirds; two micro-batches of a rank with their overheads, and three further stages.
        let bound = |costs: &[u64]| Whole::Pipeline(pipeline).bound(costs, 2, 4, 5);
        assert_eq!(bound(&[3, 3, 3, 4, 3, 4]), 3 * (10 + 2 * 5) + 3 * 3 * (3 + 5));
        assert_eq!(bound(&[3, 3, 3, 9]), 3 * 4 * (9 + 5) + (3 + 5));
    }
}
