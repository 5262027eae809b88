//! Steps: consecutive runs of whole rollouts.
use crate::error::Kind;
use crate::interrupt::{Work, pieces};
use crate::{Error, OnLeftover, Result};
use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::ops::Range;

/// The samples of every step, rollout by rollout in first-seen order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// Sample indices, step by step.
    pub samples: Vec<u32>,
    /// Where each step lies in `samples`.
    pub ranges: Vec<Range<usize>>,
    /// Rollouts in each step.
    pub rollouts: Vec<usize>,
    /// Samples in no step, in no order.
    pub dropped: Vec<u32>,
    /// How many of each step's samples were taken out of it.
    taken_out: Vec<usize>,
    /// Rollouts that fill a step.
    global_batch_size: usize,
}

impl Steps {
    /// Groups `samples` samples, with as many ids, into steps of `global_batch_size` rollouts (all in one step when `None`).
    /// Samples with one id are one rollout wherever they stand; without ids every sample is one.
    ///
    /// Computes in **O(n)** expected time.
    pub fn new(
        samples: usize,
        rollout_ids: Option<&[i64]>,
        global_batch_size: Option<NonZeroUsize>,
        on_leftover: OnLeftover,
    ) -> Result<Self> {
        let (order, ends) = match rollout_ids {
            None => ((0..samples as u32).collect(), (1..=samples).collect()),
            Some(ids) => by_rollout(ids),
        };
        let num_rollouts = ends.len();
        if num_rollouts == 0 {
            return Err(Error::NoSamples);
        }
        let size = global_batch_size.map_or(num_rollouts, NonZeroUsize::get);
        if num_rollouts < size && on_leftover != OnLeftover::Partial {
            return Err(Error::TooFewRollouts { rollouts: num_rollouts, global_batch_size: size });
        }
        let over = num_rollouts % size;
        if over > 0 && on_leftover == OnLeftover::Error {
            return Err(Error::RolloutsLeftOver { rollouts: num_rollouts, global_batch_size: size });
        }
        let mut rollouts = vec![size; num_rollouts / size];
        if over > 0 && on_leftover == OnLeftover::Partial {
            rollouts.push(over);
        }
        let steps = rollouts.len();
        let start = |step: usize| if step == 0 { 0 } else { ends[(step * size).min(num_rollouts) - 1] };
        Ok(Self {
            ranges: (0..steps).map(|step| start(step)..start(step + 1)).collect(),
            taken_out: vec![0; steps],
            global_batch_size: size,
            dropped: order[start(steps)..].to_vec(),
            rollouts,
            samples: order,
        })
    }

    /// The steps without some samples, whose rollouts still count there. A step of which nothing is left is none.
    pub fn without(self, is_out: impl Fn(u32) -> bool) -> Self {
        let mut left = Self {
            samples: Vec::with_capacity(self.samples.len()),
            ranges: vec![],
            rollouts: vec![],
            dropped: self.dropped,
            taken_out: vec![],
            global_batch_size: self.global_batch_size,
        };
        for (range, rollouts) in self.ranges.into_iter().zip(self.rollouts) {
            let (start, samples) = (left.samples.len(), &self.samples[range]);
            for piece in pieces(samples) {
                left.samples.extend(piece.iter().copied().filter(|&sample| !is_out(sample)));
                left.dropped.extend(piece.iter().copied().filter(|&sample| is_out(sample)));
            }
            let range = start..left.samples.len();
            if !range.is_empty() {
                left.taken_out.push(samples.len() - range.len());
                left.ranges.push(range);
                left.rollouts.push(rollouts);
            }
        }
        left
    }

    /// Plans every step, by its number and samples. Behind others, leftovers of which no step can be made get none.
    pub fn plan_each<'a, T>(&'a self, mut plan: impl FnMut(usize, &'a [u32]) -> Result<T>) -> Result<Vec<T>> {
        let mut planned = Vec::with_capacity(self.ranges.len());
        for (step, range) in self.ranges.iter().enumerate() {
            match plan(step, &self.samples[range.clone()]) {
                Ok(answer) => planned.push(answer),
                Err(error) if error.kind() == Kind::Schedule => {
                    if step == 0 || self.rollouts[step] == self.global_batch_size {
                        return Err(error.after_dropping(self.taken_out[step]));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(planned)
    }
}

/// The values of some samples; borrowed where these stand in a row, as all do that have no rollout ids.
pub(crate) fn gather<'a, T: Copy>(values: &'a [T], samples: &[u32]) -> Cow<'a, [T]> {
    let first = samples.first().map_or(0, |&sample| sample as usize);
    if (first..).zip(samples).all(|(position, &sample)| position == sample as usize) {
        return Cow::Borrowed(&values[first..first + samples.len()]);
    }
    let mut gathered = Vec::with_capacity(samples.len());
    for piece in pieces(samples) {
        gathered.extend(piece.iter().map(|&sample| values[sample as usize]));
    }
    gathered.into()
}

/// Samples rollout by rollout, and where each rollout ends.
fn by_rollout(ids: &[i64]) -> (Vec<u32>, Vec<usize>) {
    if ids.is_sorted() {
        // Every rollout stands together already.
        let ends = (1..=ids.len()).filter(|&end| end == ids.len() || ids[end - 1] != ids[end]);
        return ((0..ids.len() as u32).collect(), ends.collect());
    }
    let mut numbers = HashMap::new();
    let mut work = Work::default();
    let labels: Vec<u32> = ids
        .iter()
        .map(|&id| {
            work.did(4);
            let next = numbers.len() as u32;
            *numbers.entry(id).or_insert(next)
        })
        .collect();
    let groups = crate::Groups::from_labels(&labels, numbers.len());
    let ends = groups.ranges.iter().map(|range| range.end as usize).collect();
    (groups.items, ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollout_stays_together_wherever_its_samples_stand() {
        let steps = Steps::new(5, Some(&[7, 8, 7, 8, 9]), NonZeroUsize::new(1), OnLeftover::Drop).unwrap();
        assert_eq!(steps.samples, [0, 2, 1, 3, 4]);
        assert_eq!(steps.ranges, [0..2, 2..4, 4..5]);
    }

    #[test]
    fn rollouts_that_fill_no_step_are_dropped() {
        let steps = Steps::new(5, None, NonZeroUsize::new(2), OnLeftover::Drop).unwrap();
        assert_eq!((steps.ranges, steps.dropped), (vec![0..2, 2..4], vec![4]));
    }

    #[test]
    fn rollouts_that_fill_no_step_make_a_smaller_one_where_that_is_asked_for() {
        let steps = Steps::new(5, None, NonZeroUsize::new(2), OnLeftover::Partial).unwrap();
        assert_eq!((steps.ranges, steps.rollouts, steps.dropped), (vec![0..2, 2..4, 4..5], vec![2, 2, 1], vec![]));
        assert_eq!(Steps::new(3, None, NonZeroUsize::new(4), OnLeftover::Partial).unwrap().rollouts, [3]);
    }

    #[test]
    fn rollouts_that_fill_no_step_are_refused_where_that_is_asked_for() {
        let text = Steps::new(5, None, NonZeroUsize::new(2), OnLeftover::Error).unwrap_err().to_string();
        assert_eq!(
            text,
            "the number of rollouts must be a multiple of global_batch_size, 2, got 5: the last 1 fill no step"
        );
    }

    #[test]
    fn too_few_rollouts_are_refused() {
        let text = Steps::new(3, None, NonZeroUsize::new(4), OnLeftover::Drop).unwrap_err().to_string();
        assert_eq!(text, "the number of rollouts must be >= global_batch_size, 4, to fill one step, got 3");
    }
}
