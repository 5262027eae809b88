//! What a step's plan is to make short.
use crate::measure::lower_bound;

/// An [`Objective`](crate::Objective) in the whole costs of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeObjective {
    /// Ranks meet once a step: the largest sum of a rank's costs.
    Step,
    /// Ranks meet at every micro-batch: the dearest first micro-batch, plus the dearest second, and so on.
    MicroBatch,
    /// Ranks meet once a step and each is a pipeline: the largest Σ(c + o) + (stages − 1) · max(c + o) of a rank's
    /// costs c, with o the overhead.
    Pipeline {
        /// Stages of the pipeline, at least 1.
        stages: u64,
        /// What every micro-batch costs beside its samples.
        micro_batch_overhead: u64,
    },
}

impl WholeObjective {
    /// Stages through which a rank's micro-batches pass.
    pub(crate) fn stages(self) -> u64 {
        if let Self::Pipeline { stages, .. } = self { stages } else { 1 }
    }

    /// What a rank's time gains from `micro_batches` of them, whatever is in them.
    pub(crate) fn overhead(self, micro_batches: usize) -> u64 {
        let Self::Pipeline { stages, micro_batch_overhead } = self else { return 0 };
        micro_batch_overhead * (micro_batches as u64 + stages - 1)
    }

    /// No plan of `count` micro-batches is shorter, their overhead left out: a rank carries the mean at least, its
    /// dearest micro-batch is no cheaper than the mean one, and the dearest sample is somewhere.
    pub(crate) fn bound(self, costs: &[u64], ranks: usize, count: usize) -> u64 {
        let total: u64 = costs.iter().sum();
        let dearest = costs.iter().copied().max().unwrap_or(0);
        lower_bound(total.div_ceil(ranks as u64), total / count as u64, dearest, self.stages() - 1)
    }
}
