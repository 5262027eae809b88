//! What a schedule costs: the times that the search makes short, and the ones that reports tell.
//!
//! A micro-batch costs the sum of its samples. Where ranks meet once a step, the step takes as long as the largest sum
//! of a rank; where they meet at every micro-batch, as long as the costliest first micro-batch, plus the costliest
//! second, and so on; and where each rank is a pipeline, as long as the one that ends last ([`Pipeline`]).
use crate::interrupt::{Work, pieces};
use crate::pipeline::Passes;
use crate::{Error, Pipeline, Result, memory};
use std::num::NonZeroUsize;
use std::ops::Add;

/// What times are made of: whole numbers in the search, floats in reports.
pub(crate) trait Amount: Copy + Default + PartialOrd + Add<Output = Self> {}
impl Amount for u64 {}
impl Amount for u128 {}
impl Amount for f64 {}

pub(crate) fn larger<A: Amount>(one: A, other: A) -> A {
    if other > one { other } else { one }
}

fn largest<A: Amount>(amounts: impl IntoIterator<Item = A>) -> A {
    amounts.into_iter().fold(A::default(), larger)
}

/// Refuses what no micro-batch can cost beside its samples.
pub(crate) fn check_overhead(overhead: f64) -> Result<()> {
    if overhead >= 0.0 && overhead.is_finite() { Ok(()) } else { Err(Error::Overhead { overhead }) }
}

/// A schedule as flat arrays, checked: rank by rank, then step by step.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    samples: &'a [i64],
    micro_batch_offsets: &'a [i64],
    micro_batches_per_step: &'a [i64],
    pub(crate) dp_size: usize,
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

    /// The samples of every rank, and where its micro-batches end among all, after the start of the first.
    pub fn ranks(&self) -> impl Iterator<Item = (&'a [i64], &'a [i64])> {
        let Self { samples, micro_batch_offsets: offsets, dp_size, .. } = *self;
        let count = (offsets.len() - 1) / dp_size;
        (0..dp_size).map(move |rank| {
            let offsets = &offsets[rank * count..=(rank + 1) * count];
            (&samples[offsets[0] as usize..offsets[count] as usize], offsets)
        })
    }

    /// The samples of every step, rank by rank.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Vec<i64>> {
        let Self { samples, micro_batch_offsets: offsets, micro_batches_per_step, dp_size } = *self;
        let of_rank = (offsets.len() - 1) / dp_size;
        micro_batches_per_step.iter().scan(0, move |start, &count| {
            let first = *start;
            *start += count as usize;
            let ends =
                (0..dp_size).map(|rank| [first, *start].map(|position| offsets[rank * of_rank + position] as usize));
            Some(ends.flat_map(|[start, end]| &samples[start..end]).copied().collect())
        })
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
    /// Time of each step where each rank is a pipeline and ranks meet once a step: when the last of them ends.
    pub pipeline_times: Vec<f64>,
    /// When each rank's pipeline ends in each step, rank by rank.
    pub pipeline_ends: Vec<f64>,
    /// When the last stage of its rank's pipeline is done with each micro-batch, which it takes forward and back in one, rank
    /// by rank, then step by step; empty where they are interleaved.
    pub last_stage_ends: Vec<f64>,
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
/// - `pipeline`: of every rank, for `pipeline_times`; the micro-batches of its steps are whole groups.
/// - `micro_batch_overhead`: what every micro-batch costs in `pipeline_times` beside its samples.
///
/// # Complexity
/// **O(n)** time, **O(m p v)** for m micro-batches through p stages of v chunks, and **O(m + ranks · steps)** space. Sums are taken from left to right, so that they are
/// the same on every machine.
///
/// # Examples
/// ```
/// use flopbalance_core::{Layout, Pipeline, measure};
/// use std::num::NonZeroUsize;
///
/// // Two ranks of two micro-batches each, in one step.
/// let layout = Layout::new(&[0, 3, 1, 2, 4], &[0, 1, 2, 4, 5], &[2], NonZeroUsize::new(2).unwrap())?;
/// let measures = measure(&layout, &[7.0, 2.0, 5.0, 4.0, 3.0], &Pipeline::default(), 0.0)?;
/// assert_eq!(measures.micro_batch_costs, [7.0, 4.0, 7.0, 3.0]);
/// assert_eq!((measures.step_times[0], measures.mean_times[0]), (11.0, 10.5));
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn measure(layout: &Layout<'_>, costs: &[f64], pipeline: &Pipeline, micro_batch_overhead: f64) -> Result<Measures> {
    check_overhead(micro_batch_overhead)?;
    layout.micro_batches_per_step.iter().try_for_each(|&count| pipeline.check(count as usize))?;
    if let Some(&sample) =
        pieces(layout.samples).flatten().find(|&&sample| usize::try_from(sample).map_or(true, |s| s >= costs.len()))
    {
        return Err(Error::NoItem { item: sample, bound: costs.len() });
    }
    memory::ensure(layout.micro_batch_offsets.len(), PEAK)?;
    let of_rank = layout.micro_batches_per_step.iter().copied().max().unwrap_or(0) as usize;
    pipeline.ensure_memory(of_rank)?;
    let of = |sample: &i64| costs[*sample as usize];
    let mut work = Work::default();
    let (mut micro_batch_costs, mut costliest) = (Vec::new(), Vec::new());
    for samples in layout.micro_batches() {
        work.did(1 + 4 * samples.len());
        micro_batch_costs.push(samples.iter().map(of).fold(0.0, |sum, cost| sum + cost));
        costliest.push(largest(samples.iter().map(of)));
    }
    let of_rank = micro_batch_costs.len() / layout.dp_size;
    let (mut passes, mut through) = (Passes::default(), Vec::new());
    let steps = layout.micro_batches_per_step.len();
    let each = vec![0.0; layout.dp_size * steps];
    let mut measures = Measures { busy: each.clone(), pipeline_ends: each, ..Measures::default() };
    let mut last_stage_ends = vec![0.0; if pipeline.chunks() == 1 { micro_batch_costs.len() } else { 0 }];
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
        for (rank, positions) in ranks().enumerate() {
            through.clear();
            through.extend(micro_batch_costs[positions.clone()].iter().map(|cost| cost + micro_batch_overhead));
            let mut ends = last_stage_ends.get_mut(positions).unwrap_or_default().iter_mut();
            measures.pipeline_ends[rank * steps + step] = pipeline
                .end_of_floats(&through, &mut passes, |time| ends.next().into_iter().for_each(|end| *end = time));
        }
        let costliest_sample = largest(ranks().flat_map(|positions| costliest[positions].iter().copied()));
        let (step_time, row_time) = (largest(busy()), rows.sum());
        let pipeline_time = largest((0..layout.dp_size).map(|rank| measures.pipeline_ends[rank * steps + step]));
        measures.step_times.push(step_time);
        measures.micro_batch_times.push(row_time);
        measures.pipeline_times.push(pipeline_time);
        measures.mean_times.push(mean);
        measures.lower_bounds.push(larger(mean, costliest_sample));
        start += count;
    }
    measures.micro_batch_costs = micro_batch_costs;
    measures.last_stage_ends = last_stage_ends;
    Ok(measures)
}

/// Bytes that are held of each micro-batch, where each is a step of its own.
const PEAK: usize = 96;

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums of small whole numbers are exact")]
mod tests {
    use super::*;
    use crate::{Weights, simulate_pipeline};
    use proptest::prelude::*;
    use std::num::NonZeroU64;

    fn layout<'a>(samples: &'a [i64], offsets: &'a [i64], per_step: &'a [i64], dp_size: usize) -> Result<Layout<'a>> {
        Layout::new(samples, offsets, per_step, NonZeroUsize::new(dp_size).unwrap())
    }

    /// Costs of the micro-batches of every rank and step; each sample stands where it is first seen.
    type Steps = Vec<Vec<Vec<Vec<u32>>>>;

    fn steps() -> impl Strategy<Value = Steps> {
        let batch = || prop::collection::vec(0_u32..50, 0..4);
        (1_usize..4, prop::collection::vec(1_usize..4, 0..4)).prop_flat_map(move |(ranks, counts)| {
            let step = move |count| prop::collection::vec(prop::collection::vec(batch(), count), ranks);
            counts.into_iter().map(step).collect::<Vec<_>>()
        })
    }

    proptest! {
        #[test]
        fn measures_are_those_of_the_definitions(steps in steps(), stages in 1_u32..5, overhead in 0_u32..9) {
            let ranks = steps.first().map_or(1, Vec::len);
            let (mut samples, mut offsets, mut costs) = (vec![], vec![0], vec![]);
            for rank in 0..ranks {
                for batch in steps.iter().flat_map(|step| &step[rank]) {
                    samples.extend(batch.iter().enumerate().map(|(i, _)| (costs.len() + i) as i64));
                    costs.extend(batch.iter().map(|&cost| f64::from(cost)));
                    offsets.push(samples.len() as i64);
                }
            }
            let per_step: Vec<i64> = steps.iter().map(|step| step[0].len() as i64).collect();
            let layout = layout(&samples, &offsets, &per_step, ranks).unwrap();
            let pipeline = Pipeline::new(u64::from(stages).try_into().unwrap(), NonZeroU64::MIN, None).unwrap();
            let measures = measure(&layout, &costs, &pipeline, f64::from(overhead)).unwrap();
            let cost = |batch: &Vec<u32>| batch.iter().sum::<u32>();
            for (number, step) in steps.iter().enumerate() {
                let busy: Vec<u32> = step.iter().map(|rank| rank.iter().map(cost).sum()).collect();
                for (rank, &busy) in busy.iter().enumerate() {
                    prop_assert_eq!(measures.busy[rank * steps.len() + number], f64::from(busy));
                }
                let longest = *busy.iter().max().unwrap();
                let rows = (0..step[0].len()).map(|row| step.iter().map(|rank| cost(&rank[row])).max().unwrap());
                let through = step.iter().map(|rank| {
                    let costs: Vec<f64> = rank.iter().map(|batch| f64::from(cost(batch) + overhead)).collect();
                    simulate_pipeline(&Weights::from_f64(costs).unwrap(), &pipeline).unwrap()
                });
                let costliest = step.iter().flatten().flatten().max().copied().unwrap_or(0);
                let mean = f64::from(busy.iter().sum::<u32>()) / ranks as f64;
                prop_assert_eq!(measures.step_times[number], f64::from(longest));
                prop_assert_eq!(measures.micro_batch_times[number], f64::from(rows.sum::<u32>()));
                prop_assert_eq!(measures.pipeline_times[number], largest(through));
                prop_assert_eq!(measures.mean_times[number], mean);
                prop_assert_eq!(measures.lower_bounds[number], mean.max(f64::from(costliest)));
            }
            let batches = (0..ranks).flat_map(|rank| steps.iter().flat_map(move |step| &step[rank]));
            prop_assert!(batches.map(|batch| f64::from(cost(batch))).eq(measures.micro_batch_costs));
        }
    }

    #[test]
    fn arrays_that_are_no_schedule_are_refused() {
        let law = |samples: &[i64], offsets: &[i64], per_step: &[i64], dp_size| match layout(
            samples, offsets, per_step, dp_size,
        ) {
            Err(Error::NoSchedule { law }) => law,
            other => panic!("{other:?}"),
        };
        assert!(layout(&[0, 1], &[0, 1, 2], &[1], 2).is_ok());
        assert_eq!(law(&[], &[], &[], 1), "offsets ascend from 0");
        assert_eq!(law(&[0, 1], &[1, 2], &[1], 1), "offsets ascend from 0");
        assert_eq!(law(&[0, 1], &[0, 2, 1], &[2], 1), "offsets ascend from 0");
        assert_eq!(law(&[0, 1], &[0, 1, 3], &[2], 1), "offsets end with the samples");
        assert_eq!(law(&[0, 1], &[0, 1, 2], &[2, 0], 1), "every step has micro-batches");
        assert_eq!(law(&[0, 1], &[0, 1, 2], &[3, -1], 1), "every step has micro-batches");
        assert_eq!(law(&[0, 1], &[0, 1, 2], &[1], 1), "every rank has as many micro-batches");
        assert_eq!(law(&[0, 1], &[0, 1, 2], &[i64::MAX, 1], 1), "every rank has as many micro-batches");
        assert_eq!(law(&[0, 1], &[0, 1, 2], &[1], usize::MAX), "every rank has as many micro-batches");
    }

    #[test]
    fn samples_must_have_costs() {
        let refused = |sample| {
            let samples = [0, sample];
            let layout = layout(&samples, &[0, 2], &[1], 1).unwrap();
            measure(&layout, &[1.0, 2.0], &Pipeline::default(), 0.0).unwrap_err()
        };
        for sample in [2, -1, i64::MAX] {
            assert_eq!(refused(sample), Error::NoItem { item: sample, bound: 2 });
        }
    }
}
