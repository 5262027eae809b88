//! What a schedule costs: the times that the search makes short, and the ones that reports tell.
//!
//! A micro-batch costs the sum of its samples. Where ranks meet once a step, the step takes as long as the largest sum
//! of a rank; where they meet at every micro-batch, as long as the costliest first micro-batch, plus the costliest
//! second, and so on; and where each rank is a pipeline, as long as the largest [`rank_time`].
use crate::{Error, Pipeline, Result};
use std::num::NonZeroUsize;
use std::ops::{Add, Mul};

/// What times are made of: whole numbers in the search, floats in reports.
pub(crate) trait Amount: Copy + Default + PartialOrd + Add<Output = Self> + Mul<Output = Self> {}
impl Amount for u64 {}
impl Amount for f64 {}

/// How long a rank works: the sum of its costs, and the costliest once more for every further stage of its pipeline,
/// while that fills and drains. An overhead stands in every cost, so `count` micro-batches pay it `count` times and
/// once more for every further stage.
pub(crate) fn rank_time<A: Amount>(sum: A, costliest: A, further_stages: A) -> A {
    sum + further_stages * costliest
}

/// No schedule is shorter: a rank carries the mean at least, its costliest micro-batch is no cheaper than the mean
/// one, and the costliest sample is somewhere. With no further stage the last two count for nothing and once.
pub(crate) fn lower_bound<A: Amount>(mean_rank: A, mean_micro_batch: A, costliest_sample: A, further_stages: A) -> A {
    larger(
        rank_time(mean_rank, mean_micro_batch, further_stages),
        rank_time(costliest_sample, costliest_sample, further_stages),
    )
}

fn larger<A: Amount>(one: A, other: A) -> A {
    if other > one { other } else { one }
}

fn largest<A: Amount>(amounts: impl IntoIterator<Item = A>) -> A {
    amounts.into_iter().fold(A::default(), larger)
}

/// A schedule as flat arrays, checked: rank by rank, then step by step.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    samples: &'a [i64],
    micro_batch_offsets: &'a [i64],
    micro_batches_per_step: &'a [i64],
    dp_size: usize,
}

impl<'a> Layout<'a> {
    /// Checks the arrays of a [`Schedule`](crate::Schedule). Computes in **O(micro-batches)** time.
    pub fn new(
        samples: &'a [i64],
        micro_batch_offsets: &'a [i64],
        micro_batches_per_step: &'a [i64],
        dp_size: NonZeroUsize,
    ) -> Result<Self> {
        let law = |law, holds: bool| if holds { Ok(()) } else { Err(Error::NoSchedule { law }) };
        let ascending = micro_batch_offsets.is_sorted() && micro_batch_offsets.first() == Some(&0);
        law("offsets ascend from 0", ascending)?;
        law("offsets end with the samples", micro_batch_offsets.last() == Some(&(samples.len() as i64)))?;
        law("every step has micro-batches", micro_batches_per_step.iter().all(|&count| count > 0))?;
        let of_rank = micro_batches_per_step.iter().try_fold(0, |sum: i64, &count| sum.checked_add(count));
        let count = of_rank.and_then(|count| usize::try_from(count).ok()?.checked_mul(dp_size.get()));
        law("every rank has as many micro-batches", count == Some(micro_batch_offsets.len() - 1))?;
        Ok(Self { samples, micro_batch_offsets, micro_batches_per_step, dp_size: dp_size.get() })
    }

    /// The samples of every micro-batch.
    fn micro_batches(&self) -> impl Iterator<Item = &'a [i64]> {
        let samples = self.samples;
        self.micro_batch_offsets.windows(2).map(move |ends| &samples[ends[0] as usize..ends[1] as usize])
    }
}

/// What a schedule costs; times in the unit of its costs.
///
/// Arrays of a rank hold its micro-batches over all steps; arrays of a step have one value for each step.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Measures {
    /// Cost of each micro-batch, rank by rank, then step by step.
    pub micro_batch_costs: Vec<f64>,
    /// Work of each rank in each step, rank by rank.
    pub busy: Vec<f64>,
    /// Time of each step where ranks meet once a step.
    pub step_times: Vec<f64>,
    /// Time of each step where ranks meet at every micro-batch.
    pub micro_batch_times: Vec<f64>,
    /// Time of each step where each rank is a pipeline and ranks meet once a step.
    pub pipeline_times: Vec<f64>,
    /// Work of the mean rank in each step.
    pub mean_times: Vec<f64>,
    /// No schedule of a step's samples is shorter, where ranks meet once a step.
    pub lower_bounds: Vec<f64>,
}

/// Measures a schedule.
///
/// # Arguments
/// - `layout`: which rank runs which samples, in which micro-batches.
/// - `costs`: what every sample costs, finite and not negative.
/// - `pipeline`: of every rank, for `pipeline_times`.
///
/// # Complexity
/// **O(n)** time and **O(micro-batches + ranks · steps)** space. Sums are taken from left to right, so that they are
/// the same on every machine.
///
/// # Examples
/// ```
/// use flopbalance_core::{Layout, Pipeline, measure};
/// use std::num::NonZeroUsize;
///
/// // Two ranks of two micro-batches each, in one step.
/// let layout = Layout::new(&[0, 3, 1, 2, 4], &[0, 1, 2, 4, 5], &[2], NonZeroUsize::new(2).unwrap())?;
/// let measures = measure(&layout, &[7.0, 2.0, 5.0, 4.0, 3.0], &Pipeline::default())?;
/// assert_eq!(measures.micro_batch_costs, [7.0, 4.0, 7.0, 3.0]);
/// assert_eq!((measures.step_times[0], measures.mean_times[0]), (11.0, 10.5));
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn measure(layout: &Layout<'_>, costs: &[f64], pipeline: &Pipeline) -> Result<Measures> {
    if let Some(&sample) =
        layout.samples.iter().find(|&&sample| usize::try_from(sample).map_or(true, |s| s >= costs.len()))
    {
        return Err(Error::NoItem { item: sample, bound: costs.len() });
    }
    let of = |sample: &i64| costs[*sample as usize];
    let micro_batch_costs: Vec<f64> =
        layout.micro_batches().map(|samples| samples.iter().map(of).fold(0.0, |sum, cost| sum + cost)).collect();
    let costliest: Vec<f64> = layout.micro_batches().map(|samples| largest(samples.iter().map(of))).collect();
    let of_rank = micro_batch_costs.len() / layout.dp_size;
    let further_stages = (pipeline.stages() - 1) as f64;
    let steps = layout.micro_batches_per_step.len();
    let mut measures = Measures { busy: vec![0.0; layout.dp_size * steps], ..Measures::default() };
    let mut start = 0;
    for (step, &count) in layout.micro_batches_per_step.iter().enumerate() {
        let count = count as usize;
        let ranks = || (0..layout.dp_size).map(|rank| rank * of_rank + start..rank * of_rank + start + count);
        for (rank, positions) in ranks().enumerate() {
            measures.busy[rank * steps + step] = micro_batch_costs[positions].iter().sum();
        }
        let busy = || (0..layout.dp_size).map(|rank| measures.busy[rank * steps + step]);
        let mean = busy().sum::<f64>() / layout.dp_size as f64;
        let rows = (start..start + count)
            .map(|position| largest((0..layout.dp_size).map(|rank| micro_batch_costs[rank * of_rank + position])));
        let time = |(busy, positions): (f64, std::ops::Range<usize>)| {
            rank_time(busy, largest(micro_batch_costs[positions].iter().copied()), further_stages)
        };
        let overhead = pipeline.micro_batch_overhead() * (count as f64 + further_stages);
        let costliest_sample = largest(ranks().flat_map(|positions| costliest[positions].iter().copied()));
        let (step_time, row_time) = (largest(busy()), rows.sum());
        let pipeline_time = largest(busy().zip(ranks()).map(time)) + overhead;
        measures.step_times.push(step_time);
        measures.micro_batch_times.push(row_time);
        measures.pipeline_times.push(pipeline_time);
        measures.mean_times.push(mean);
        measures.lower_bounds.push(lower_bound(mean, 0.0, costliest_sample, 0.0));
        start += count;
    }
    measures.micro_batch_costs = micro_batch_costs;
    Ok(measures)
}
