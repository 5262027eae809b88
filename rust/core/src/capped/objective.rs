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
    Pipeline {
        /// Of every rank.
        pipeline: Pipeline,
        /// What every micro-batch costs beside its samples.
        micro_batch_overhead: u64,
    },
}

impl WholeObjective {
    /// No plan of `count` micro-batches is shorter: a rank carries the mean at least, and the costliest sample is somewhere.
    pub(crate) fn bound(self, costs: &[u64], ranks: usize, count: usize) -> u64 {
        let mean = costs.iter().sum::<u64>().div_ceil(ranks as u64);
        let [cheapest, costliest] = [costs.iter().min(), costs.iter().max()].map(|cost| cost.copied().unwrap_or(0));
        match self {
            Self::Step | Self::MicroBatch => mean.max(costliest),
            Self::Pipeline { pipeline, micro_batch_overhead: overhead } => {
                let of_rank = (count / ranks) as u64;
                pipeline.least(mean + of_rank * overhead, cheapest + overhead, costliest + overhead)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WholeObjective as Whole;
    use crate::Pipeline;
    use std::num::NonZeroU64;

    fn pipeline() -> Whole {
        let pipeline = Pipeline::new(NonZeroU64::new(4).unwrap(), NonZeroU64::MIN, None).unwrap();
        Whole::Pipeline { pipeline, micro_batch_overhead: 5 }
    }

    #[test]
    fn a_rank_carries_the_mean_and_somewhere_is_the_costliest_sample() {
        assert_eq!(Whole::Step.bound(&[3, 3, 3, 4], 2, 2), 7);
        assert_eq!(Whole::Step.bound(&[3, 3, 3, 4], 4, 4), 4);
        assert_eq!(Whole::MicroBatch.bound(&[1, 1, 9], 2, 2), 9);
    }

    #[test]
    fn a_pipeline_fills_with_the_cheapest_sample_or_holds_the_costliest() {
        // In thirds; two micro-batches of a rank with their overheads, and three further stages.
        assert_eq!(pipeline().bound(&[3, 3, 3, 4, 3, 4], 2, 4), 3 * (10 + 2 * 5) + 3 * 3 * (3 + 5));
        assert_eq!(pipeline().bound(&[3, 3, 3, 9], 2, 4), 3 * 4 * (9 + 5));
    }
}
