//! Steps: consecutive runs of whole rollouts.
use crate::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;

/// The samples of every step, rollout by rollout in first-seen order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Sample indices, step by step.
    pub samples: Vec<u32>,
    /// Where each step lies in `samples`.
    pub ranges: Vec<Range<usize>>,
    /// Rollouts in each step.
    pub rollouts: Vec<usize>,
    /// Samples of rollouts that fill no step, ascending.
    pub dropped: Vec<u32>,
}

/// What happens to rollouts that fill no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leftover {
    /// They are in no step.
    #[default]
    Drop,
    /// They make a last, smaller step.
    Partial,
    /// They are refused.
    Error,
}

impl Steps {
    /// Groups `samples` samples into steps of `global_batch_size` rollouts (all in one step when `None`).
    /// Samples with one id are one rollout wherever they stand; without ids every sample is one.
    ///
    /// Computes in **O(n)** expected time.
    pub fn new(
        samples: usize,
        rollout_ids: Option<&[i64]>,
        global_batch_size: Option<usize>,
        leftover: Leftover,
    ) -> Result<Self> {
        let (order, ends) = match rollout_ids {
            None => ((0..samples as u32).collect(), (1..=samples).collect()),
            Some(ids) if ids.len() == samples => by_rollout(ids),
            Some(ids) => {
                return Err(Error::Value(format!(
                    "rollout_ids must hold one id for each of the {samples} samples, got {}",
                    ids.len()
                )));
            }
        };
        let num_rollouts = ends.len();
        let size = global_batch_size.unwrap_or(num_rollouts);
        if num_rollouts == 0 || num_rollouts < size && leftover != Leftover::Partial {
            return Err(Error::Schedule(format!(
                "num_rollouts must be >= global_batch_size, {}, to fill one step, got {num_rollouts}",
                size.max(1)
            )));
        }
        let over = num_rollouts % size;
        if over > 0 && leftover == Leftover::Error {
            return Err(Error::Schedule(format!(
                "num_rollouts must be a multiple of global_batch_size, {size}, got {num_rollouts}: the last {over} fill \
                 no step"
            )));
        }
        let mut rollouts = vec![size; num_rollouts / size];
        if over > 0 && leftover == Leftover::Partial {
            rollouts.push(over);
        }
        let steps = rollouts.len();
        let start = |step: usize| if step == 0 { 0 } else { ends[(step * size).min(num_rollouts) - 1] };
        let mut dropped: Vec<u32> = order[start(steps)..].to_vec();
        dropped.sort_unstable();
        Ok(Self {
            ranges: (0..steps).map(|step| start(step)..start(step + 1)).collect(),
            rollouts,
            samples: order,
            dropped,
        })
    }
}

/// Samples rollout by rollout, and where each rollout ends.
fn by_rollout(ids: &[i64]) -> (Vec<u32>, Vec<usize>) {
    let mut numbers = HashMap::new();
    let labels: Vec<u32> = ids
        .iter()
        .map(|&id| {
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
        let steps = Steps::new(5, Some(&[7, 8, 7, 8, 9]), Some(1), Leftover::Drop).unwrap();
        assert_eq!(steps.samples, [0, 2, 1, 3, 4]);
        assert_eq!(steps.ranges, [0..2, 2..4, 4..5]);
    }

    #[test]
    fn rollouts_that_fill_no_step_are_dropped() {
        let steps = Steps::new(5, None, Some(2), Leftover::Drop).unwrap();
        assert_eq!((steps.ranges, steps.dropped), (vec![0..2, 2..4], vec![4]));
    }

    #[test]
    fn rollouts_that_fill_no_step_make_a_smaller_one_where_that_is_asked_for() {
        let steps = Steps::new(5, None, Some(2), Leftover::Partial).unwrap();
        assert_eq!((steps.ranges, steps.rollouts, steps.dropped), (vec![0..2, 2..4, 4..5], vec![2, 2, 1], vec![]));
        assert_eq!(Steps::new(3, None, Some(4), Leftover::Partial).unwrap().rollouts, [3]);
    }

    #[test]
    fn rollouts_that_fill_no_step_are_refused_where_that_is_asked_for() {
        let text = Steps::new(5, None, Some(2), Leftover::Error).unwrap_err().to_string();
        assert_eq!(text, "num_rollouts must be a multiple of global_batch_size, 2, got 5: the last 1 fill no step");
    }

    #[test]
    fn too_few_rollouts_are_refused() {
        let text = Steps::new(3, None, Some(4), Leftover::Drop).unwrap_err().to_string();
        assert_eq!(text, "num_rollouts must be >= global_batch_size, 4, to fill one step, got 3");
    }
}
