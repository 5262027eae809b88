//! The planned steps as flat arrays.
use crate::Groups;
use crate::interrupt::Work;
use crate::steps::{Steps, gather};
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
    /// Puts the planned steps together, rank by rank; what is planned no more, from the first on that is missing, is
    /// dropped.
    pub(crate) fn new(lengths: &[i64], steps: &Steps, planned: &[Step<'_>], dp_size: usize) -> Self {
        let samples = planned.iter().map(|step| step.samples.len()).sum();
        let micro_batches: usize = planned.iter().map(|step| step.micro_batches.len()).sum();
        let mut schedule = Self {
            samples: Vec::with_capacity(samples),
            micro_batch_offsets: Vec::with_capacity(micro_batches + 1),
            micro_batch_tokens: Vec::with_capacity(micro_batches),
            is_padding: vec![false; samples],
            ..Self::default()
        };
        schedule.micro_batch_offsets.push(0);
        let tokens = planned.iter().map(|step| step.micro_batches.sums(&gather(lengths, &step.samples)));
        let tokens: Vec<Vec<i64>> = tokens.collect();
        let mut work = Work::default();
        for rank in 0..dp_size {
            for ((step, range), tokens) in planned.iter().zip(&steps.ranges).zip(&tokens) {
                for &micro_batch in step.ranks.get(rank) {
                    let items = step.micro_batches.get(micro_batch as usize);
                    work.did(8 + 4 * items.len());
                    let start = schedule.samples.len();
                    let samples = items.iter().map(|&item| step.samples[item as usize]);
                    schedule.samples.extend(samples.map(i64::from));
                    schedule.micro_batch_tokens.push(tokens[micro_batch as usize]);
                    schedule.micro_batch_offsets.push(schedule.samples.len() as i64);
                    if step.samples.len() > range.len() {
                        let is_padding = schedule.is_padding[start..].iter_mut().zip(items);
                        is_padding.for_each(|(is_padding, &item)| *is_padding = item as usize >= range.len());
                    }
                }
            }
        }
        schedule.micro_batches_per_step = planned.iter().map(|step| step.ranks.get(0).len() as i64).collect();
        let rollouts = steps.rollouts.iter().take(planned.len());
        schedule.rollouts_per_step = rollouts.map(|&rollouts| rollouts as i64).collect();
        let leftovers = steps.ranges[planned.len()..].iter().flat_map(|range| &steps.samples[range.clone()]);
        schedule.dropped = steps.dropped.iter().chain(leftovers).map(|&sample| sample.into()).collect();
        schedule.dropped.sort_unstable();
        schedule
    }
}
