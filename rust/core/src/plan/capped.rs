//! Planning within the cap, step by step: whole costs for the search, repeats where samples are short, and what ranks
//! carry from one step to the next.
use crate::capped::{Caps, NoPlan, StepProblem, WholeObjective, least_batches, plan_step};
use crate::measure::check_overhead;
use crate::plan::carried::Carried;
use crate::plan::limits::Limits;
use crate::plan::request::{Capped, Counts, Objective, OnShortage, Request};
use crate::plan::schedule::Step;
use crate::steps::{Steps, gather};
use crate::weights::{Weight, exponent_above, times_power_of_two, whole};
use crate::{Error, Groups, Result, memory};
use std::borrow::Cow;
use std::num::NonZeroUsize;

/// A step of more micro-batches than samples is a slip rather than a wish.
const MOST_REPEATED: usize = 1 << 24;

/// What a micro-batch costs beside its samples where nobody says, as a share of a full one: without it, a pipeline would be
/// cut into ever more of them for ever less.
const USUAL_OVERHEAD: f64 = 0.02;

/// Bytes that are held of each sample of a step at the peak, where each has a micro-batch of its own.
const PEAK: usize = 360;

/// The same of rows, of which a round of the search changes a copy, and of a pipeline, whose starts have more and more
/// micro-batches.
const PEAK_OF_SEARCH: usize = 1024;

/// Plans every step within the cap.
///
/// `exponent` is that of the costs: one of them is 2^exponent of what was given. `S` is what they are added up in: samples
/// that are repeated may carry a sum past the type that holds the sum of all.
pub(crate) fn plan_capped<'a, W: Weight, S: Weight + From<W>>(
    limits: &Limits<'_>,
    costs: &[W],
    exponent: i32,
    carried: Carried<S>,
    steps: &'a Steps,
    request: &Request<'_>,
    how: &Capped<'_>,
) -> Result<Vec<Step<'a>>> {
    check_overhead(how.micro_batch_overhead.unwrap_or(0.0))?;
    let multiple = multiple(request, how)?;
    let mut planner = Planner { limits, costs, exponent, request, how, multiple, carried };
    steps.plan_each(|number, samples| planner.refuse_overfull(number, samples))?;
    steps.plan_each(|number, samples| planner.step(number, samples))
}

/// What micro-batches per rank are a multiple of: what was asked for, and the group of an interleaved pipeline.
fn multiple(request: &Request<'_>, how: &Capped<'_>) -> Result<usize> {
    let group = how.objective.pipeline().map_or(1, |pipeline| pipeline.multiple() as usize);
    let given = request.micro_batch_multiple.get();
    let multiple = (given / common_divisor(given, group)).saturating_mul(group);
    how.counts.check(multiple)?;
    Ok(multiple)
}

fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

struct Planner<'a, W, S> {
    limits: &'a Limits<'a>,
    costs: &'a [W],
    exponent: i32,
    request: &'a Request<'a>,
    how: &'a Capped<'a>,
    multiple: usize,
    carried: Carried<S>,
}

impl<W: Weight, S: Weight + From<W>> Planner<'_, W, S> {
    fn step<'s>(&mut self, step: usize, samples: &'s [u32]) -> Result<Step<'s>> {
        let mut samples = Cow::Borrowed(samples);
        memory::ensure(samples.len(), self.peak())?;
        let mut planned = self.plan(&samples, self.how.counts);
        if let (&Err(NoPlan::Shortage { needed, .. }), OnShortage::Repeat) = (&planned, self.how.on_shortage) {
            self.repeat(step, &mut samples, needed)?;
            // As many as were missing samples, which stand alone then.
            let exactly = NonZeroUsize::new(needed / self.request.dp_size);
            planned = self.plan(&samples, Counts { exactly, ..self.how.counts });
        }
        let dp_size = self.request.dp_size;
        let micro_batches = planned.map_err(|no_plan| match no_plan {
            NoPlan::Shortage { packed, needed } => Error::Shortage {
                step,
                samples: samples.len(),
                packed,
                needed,
                dp_size: dp_size.get(),
                micro_batch_multiple: self.multiple,
                asked_for: self.asked_for(packed),
            },
            NoPlan::TooFew { packed, is_bound } => self.too_few(step, packed, is_bound),
        })?;
        let of_rank = NonZeroUsize::new(micro_batches.len() / dp_size).unwrap_or(NonZeroUsize::MIN);
        let ranks = Groups::runs(micro_batches.len(), of_rank);
        Ok(Step { samples, micro_batches, ranks })
    }

    /// Refuses a step that a bound shows not to fit into as many micro-batches as were asked for, before any is planned.
    fn refuse_overfull(&self, step: usize, samples: &[u32]) -> Result<()> {
        let Some(exactly) = self.how.counts.exactly else { return Ok(()) };
        let Limits { tokens, max_tokens, extra } = self.limits;
        let caps = std::iter::once((tokens, *max_tokens)).chain(extra.as_ref().map(|(of_all, cap)| (of_all, *cap)));
        let amounts = caps.map(|(of_all, cap)| {
            let of_step = samples.iter().map(|&sample| of_all[sample as usize] as u64);
            (of_step, cap as u64)
        });
        let packed = least_batches(samples.len(), self.how.most_samples(), amounts);
        let fits = packed <= exactly.get().saturating_mul(self.request.dp_size.get());
        if fits { Ok(()) } else { Err(self.too_few(step, packed, true)) }
    }

    fn too_few(&self, step: usize, packed: usize, is_bound: bool) -> Error {
        let exactly = self.how.counts.exactly.map_or(0, NonZeroUsize::get);
        let dp_size = self.request.dp_size.get();
        Error::TooFewMicroBatches { step, exactly, least: self.of_rank(packed), dp_size, packed, is_bound }
    }

    /// Micro-batches per rank, where the limits need so many of all ranks.
    fn of_rank(&self, packed: usize) -> usize {
        packed.div_ceil(self.request.dp_size.get()).div_ceil(self.multiple).saturating_mul(self.multiple)
    }

    /// What was asked for, if that is why so many micro-batches are needed, and not the limits and the ranks.
    fn asked_for(&self, packed: usize) -> Option<(&'static str, usize)> {
        let Counts { exactly, at_least, .. } = self.how.counts;
        let exactly = exactly.map(|exactly| ("exactly", exactly.get()));
        exactly.or_else(|| (at_least.get() > self.of_rank(packed)).then_some(("at_least", at_least.get())))
    }

    fn peak(&self) -> usize {
        match self.how.objective {
            Objective::Step if self.request.dp_size > NonZeroUsize::MIN => PEAK,
            // Beside the starts, a pass of every chunk.
            Objective::Pipeline(pipeline) | Objective::PipelinedRows(pipeline) => {
                PEAK_OF_SEARCH + size_of::<u64>() * pipeline.chunks() as usize
            }
            Objective::Step | Objective::MicroBatch => PEAK_OF_SEARCH,
        }
    }

    /// Plans some samples and adds what the ranks get to what they carry.
    fn plan(&mut self, samples: &[u32], counts: Counts) -> std::result::Result<Groups, NoPlan> {
        let Limits { tokens, max_tokens, extra } = self.limits;
        let extra = extra.as_ref().map(|(amounts, cap)| (gather(amounts, samples), *cap));
        let (whole, micro_batch_overhead) = self.whole(samples);
        let objective = match self.how.objective {
            Objective::Step => WholeObjective::Step,
            Objective::MicroBatch => WholeObjective::MicroBatch,
            Objective::Pipeline(pipeline) => WholeObjective::Pipeline(pipeline),
            Objective::PipelinedRows(pipeline) => WholeObjective::PipelinedRows(pipeline),
        };
        let is_one = self.request.dp_size == NonZeroUsize::MIN;
        let problem = StepProblem {
            lengths: &gather(tokens, samples),
            costs: &whole,
            caps: Caps {
                max_tokens: *max_tokens,
                padded: self.how.padded,
                extra: extra.as_ref().map(|(amounts, cap)| (&amounts[..], *cap)),
                max_samples: self.how.most_samples(),
            },
            dp_size: self.request.dp_size.get(),
            multiple: self.multiple,
            counts,
            objective: if is_one { objective.of_a_rank() } else { objective },
            micro_batch_overhead,
            effort: self.how.effort,
        };
        if samples.len() >= problem.dp_size {
            self.carried.fill(problem.dp_size);
        }
        let planned = plan_step(&problem, &self.carried.least_first())?;
        let of_rank = planned.len() / problem.dp_size;
        for rank in 0..problem.dp_size {
            let items = (rank * of_rank..(rank + 1) * of_rank).flat_map(|micro_batch| planned.get(micro_batch));
            self.carried.add(rank, items.map(|&item| self.costs[samples[item as usize] as usize].into()));
        }
        Ok(planned)
    }

    /// The costs of some samples, and the overhead of a micro-batch, in whole numbers of these samples alone, so that no
    /// other step decides what is rounded here.
    fn whole(&self, samples: &[u32]) -> (Vec<u64>, Option<u64>) {
        let pipeline = self.how.objective.pipeline();
        let doublings = pipeline.map_or(0, |pipeline| exponent_above((pipeline.stages() * pipeline.parts()) as f64));
        let given = self.how.micro_batch_overhead.map(|overhead| times_power_of_two(overhead, -self.exponent));
        let overhead = given.or_else(|| pipeline.map(|_| USUAL_OVERHEAD * self.full_micro_batch(samples)));
        let bits = |overhead| exponent_above(overhead) + exponent_above(samples.len() as f64) + doublings;
        let more = overhead.filter(|&overhead| overhead > 0.0).map(bits);
        let (costs, scale) = whole::<W, S>(&gather(self.costs, samples), doublings, more);
        (costs, overhead.map(|overhead| times_power_of_two(overhead, scale).round() as u64))
    }

    /// What a micro-batch would cost that is filled to the cap with samples of mean cost by the token.
    fn full_micro_batch(&self, samples: &[u32]) -> f64 {
        let total = samples.iter().fold(0.0, |sum, &sample| sum + self.costs[sample as usize].rounded());
        let tokens: i128 = samples.iter().map(|&sample| i128::from(self.limits.tokens[sample as usize])).sum();
        total / (tokens as f64 / self.limits.max_tokens as f64).max(1.0)
    }

    /// Adds the cheapest samples of a step to it, over and over, until there are `needed`.
    fn repeat(&self, step: usize, samples: &mut Cow<'_, [u32]>, needed: usize) -> Result<()> {
        if needed > MOST_REPEATED {
            return Err(Error::TooManyRepeats {
                step,
                needed,
                most: MOST_REPEATED,
                dp_size: self.request.dp_size.get(),
                micro_batch_multiple: self.multiple,
            });
        }
        memory::ensure(needed, self.peak())?;
        let mut cheapest = samples.to_vec();
        cheapest.sort_by(|&one, &other| {
            let key = |sample: u32| (self.limits.tokens[sample as usize], sample);
            let [cost, other_cost] = [one, other].map(|sample| self.costs[sample as usize]);
            cost.order(other_cost).then_with(|| key(one).cmp(&key(other)))
        });
        let missing = needed - samples.len();
        samples.to_mut().extend(cheapest.iter().cycle().take(missing));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pipeline;
    use crate::plan::request::{Cap, Packing};
    use std::num::NonZeroU64;

    /// The costs of all samples and the overhead, in whole numbers.
    fn whole_of<W: Weight>(costs: &[W], exponent: i32, how: Capped<'_>) -> (Vec<u64>, Option<u64>) {
        let cap = Cap::new(NonZeroU64::MIN);
        let request = Request::new(NonZeroUsize::MIN, Packing::Capped(cap, how));
        let limits = Limits { tokens: vec![1; costs.len()].into(), max_tokens: 1, extra: None };
        let carried = Carried::<W>::none();
        let planner = Planner { limits: &limits, costs, exponent, request: &request, how: &how, multiple: 1, carried };
        planner.whole(&(0..costs.len() as u32).collect::<Vec<_>>())
    }

    fn four_stages() -> Pipeline {
        Pipeline::new(NonZeroU64::new(4).unwrap(), NonZeroU64::MIN, None).unwrap()
    }

    fn pipeline(overhead: f64) -> Capped<'static> {
        let mut how = Capped::new(Objective::Pipeline(four_stages()));
        how.micro_batch_overhead = Some(overhead);
        how
    }

    #[test]
    fn costs_are_taken_as_they_are_where_62_bits_hold_them() {
        let costs = [1_u64 << 61, (1 << 60) + 1];
        assert_eq!(whole_of(&costs, 0, Capped::new(Objective::Step)), (costs.to_vec(), None));
        // Four stages whose times are in thirds need four bits more, an overhead only what it takes itself.
        let (costs, _) = whole_of(&[1_u64 << 57, (1 << 56) + 1], 0, pipeline(0.0));
        assert_eq!(costs, [1 << 57, (1 << 56) + 1]);
        let (costs, _) = whole_of(&[1_u64 << 58, (1 << 57) + 1], 0, pipeline(0.0));
        assert_eq!(costs, [1 << 57, 1 << 56]);
    }

    #[test]
    fn an_overhead_of_any_size_leaves_room_for_its_sums() {
        // 2^80, paid by 12 micro-batches at most on 4 stages in thirds, that is 2^8: 2^88 and two bits more must fit 62 bits.
        let (costs, overhead) = whole_of(&[1_u64 << 40; 12], 0, pipeline(2_f64.powi(80)));
        assert_eq!((&costs[..2], overhead), (&[1 << 12; 2][..], Some(1 << 52)));
        // A pipeline that is told none has a fiftieth of a full micro-batch.
        let through = Capped::new(Objective::Pipeline(four_stages()));
        assert_eq!(whole_of(&[300_u64; 5], 0, through), (vec![300; 5], Some(6)));
        assert_eq!(whole_of(&[300_u64; 5], 0, Capped::new(Objective::MicroBatch)), (vec![300; 5], None));
        // In the unit of floats that were read as multiples of 2^-10.
        let (costs, overhead) = whole_of(&[5_u64 << 10], -10, pipeline(3.0));
        assert_eq!((&costs[..], overhead), (&[5 << 10][..], Some(3 << 10)));
    }
}
