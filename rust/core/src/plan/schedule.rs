//! The planned steps as flat arrays.
use crate::Groups;
use crate::interrupt::Work;
use crate::plan::limits::Kept;
use crate::steps::Steps;
use std::borrow::Cow;

/// Which samples every rank runs, in which micro-batches; rank by rank, then step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Schedule {
    /// Sample indices, micro-batch by micro-batch.
    pub samples: Vec<i64>,
    /// Where each micro-batch ends in `samples`, after a leading 0.
    pub micro_batch_offsets: Vec<i64>,
    /// Tokens of each micro-batch, before any padding.
    pub micro_batch_tokens: Vec<i64>,
    /// Micro-batches per rank in each step.
    pub micro_batches_per_step: Vec<i64>,
    /// Rollouts in each step.
    pub rollouts_per_step: Vec<i64>,
    /// Samples in no step, ascending.
    pub dropped: Vec<i64>,
    /// Which of `samples` stand there once more only to fill a micro-batch.
    pub is_padding: Vec<bool>,
}

/// One step: its micro-batches, and which of them each rank runs.
pub(crate) struct Step<'a> {
    /// The samples of the step, then those that it repeats.
    pub samples: Cow<'a, [u32]>,
    pub micro_batches: Groups,
    pub ranks: Groups,
}

impl Schedule {
    /// Puts the planned steps together, rank by rank, in terms of all samples and their own lengths.
    pub(crate) fn new(lengths: &[i64], kept: &Kept, steps: &Steps, planned: &[Step<'_>], dp_size: usize) -> Self {
        let mut schedule = Self { micro_batch_offsets: vec![0], ..Self::default() };
        let mut work = Work::default();
        for rank in 0..dp_size {
            for (step, range) in planned.iter().zip(&steps.ranges) {
                for &micro_batch in step.ranks.get(rank) {
                    let items = step.micro_batches.get(micro_batch as usize);
                    work.did(8 + 4 * items.len());
                    let samples = items.iter().map(|&item| kept.original(step.samples[item as usize]));
                    schedule.samples.extend(samples.clone().map(i64::from));
                    schedule.is_padding.extend(items.iter().map(|&item| item as usize >= range.len()));
                    schedule.micro_batch_offsets.push(schedule.samples.len() as i64);
                    schedule.micro_batch_tokens.push(samples.map(|sample| lengths[sample as usize]).sum());
                }
            }
        }
        schedule.micro_batches_per_step = planned.iter().map(|step| step.ranks.get(0).len() as i64).collect();
        schedule.rollouts_per_step = steps.rollouts.iter().map(|&rollouts| rollouts as i64).collect();
        schedule.dropped = steps.dropped.iter().map(|&sample| kept.original(sample).into()).collect();
        schedule.dropped.extend(kept.dropped().iter().map(|&sample| i64::from(sample)));
        schedule.dropped.sort_unstable();
        schedule
    }
}
