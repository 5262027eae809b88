//! When a pipeline ends: the micro-batches of one rank through its stages, one forward one backward.
//!
//! A micro-batch of cost c takes c / 3 on every stage going forward and 2 c / 3 going back, a chunk of it one `chunks`-th of
//! that. A stage works through its own fixed order of passes and waits where the one that it needs is not there: the same
//! pass forward on the stage before, or back on the stage after. Naively, all stages are asked over and over until
//! none can go on. But the orders are so regular that every pass has a round of its own ahead:
//!
//! - Forward, stage s takes pass q in round s + q.
//! - Plain, it goes back through all stages in round q + p - 1, from the last on.
//! - Interleaved, it goes back in round q + (v - 1) g + 2 (p - 1) - s.
//!
//! Forward passes of a round before those back, these are the orders of the stages, which are p - 1 - s passes ahead, or
//! 2 (p - 1 - s) + (v - 1) g; and whatever a pass waits for stands before it, for groups of p micro-batches or more. So a
//! pass starts at the later of two times, when its stage was free and when it left the stage before, and one number for
//! each of these is all there is to keep.
use crate::interrupt::Work;
use crate::measure::{Amount, larger};
use crate::weights::power_of_two_times;
use crate::{Error, Result, Weights, memory};
use std::num::NonZeroU64;

/// The pipeline of a rank: one forward one backward, plain or interleaved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    stages: u64,
    chunks: u64,
    group: u64,
}

impl Pipeline {
    /// The most stages; more are a slip rather than a wish.
    pub const MOST_STAGES: u64 = 1 << 16;

    /// The most chunks of a stage.
    pub const MOST_CHUNKS: u64 = 1 << 10;

    /// A pipeline of so many stages, each with so many chunks of the model. More than one chunk interleaves groups of
    /// micro-batches, of as many as there are stages unless `group` says more.
    ///
    /// # Examples
    /// ```
    /// use flopbalance_core::Pipeline;
    /// use std::num::NonZeroU64;
    ///
    /// let count = |count| NonZeroU64::new(count).unwrap();
    /// assert_eq!(Pipeline::new(count(4), count(1), None)?.multiple(), 1);
    /// assert_eq!(Pipeline::new(count(4), count(2), None)?.multiple(), 4);
    /// # Ok::<(), flopbalance_core::Error>(())
    /// ```
    pub fn new(stages: NonZeroU64, chunks: NonZeroU64, group: Option<NonZeroU64>) -> Result<Self> {
        let (stages, chunks) = (stages.get(), chunks.get());
        let group = group.map_or(stages, NonZeroU64::get);
        if stages > Self::MOST_STAGES {
            return Err(Error::Stages { stages });
        }
        if chunks > Self::MOST_CHUNKS {
            return Err(Error::Chunks { chunks });
        }
        if chunks > 1 && group < stages {
            return Err(Error::SmallGroup { group, stages });
        }
        Ok(Self { stages, chunks, group: if chunks > 1 { group } else { 1 } })
    }

    /// Stages through which every micro-batch passes, at least 1.
    #[must_use]
    pub fn stages(&self) -> u64 {
        self.stages
    }

    /// Chunks of the model on every stage, at least 1.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Micro-batches come in multiples of this: of a group where they are interleaved.
    #[must_use]
    pub fn multiple(&self) -> u64 {
        self.group
    }

    /// Parts of a cost that a chunk takes going forward are one of so many; going back it takes two.
    pub(crate) fn parts(&self) -> u64 {
        3 * self.chunks
    }

    /// No pipeline whose micro-batches come to a sum ends sooner, times [`Pipeline::parts`]: the last stage starts once the
    /// first of them has come to it, does all of the work, and the last has to go back from it; and while the costliest goes
    /// through all stages and back, the others pass the first stage before or after it, with a chunk forward at least.
    pub(crate) fn least(&self, sum: u64, cheapest: u64, costliest: u64) -> u64 {
        let alone = self.parts() * self.stages * costliest + (sum - costliest);
        (self.parts() * sum + 3 * (self.stages - 1) * cheapest).max(alone)
    }

    /// Refuses counts of micro-batches that are not whole groups.
    pub(crate) fn check(&self, micro_batches: usize) -> Result<()> {
        if micro_batches as u64 % self.group == 0 {
            return Ok(());
        }
        Err(Error::PartialGroup { micro_batches, group: self.group })
    }

    /// Refuses so many micro-batches where there is no memory for their passes.
    pub(crate) fn ensure_memory(&self, micro_batches: usize) -> Result<()> {
        let passes = micro_batches.saturating_mul(self.chunks as usize + 2);
        memory::ensure(passes.saturating_add(3 * self.stages as usize), size_of::<u128>())
    }

    /// When the pipeline ends, times [`Pipeline::parts`]; `costs` come in whole groups. Never above their sum times
    /// stages and parts. **O(m p v)** time for m micro-batches, p stages and v chunks, and O(m v + p) space.
    pub(crate) fn end<A: Amount>(&self, costs: &[A], passes: &mut Passes<A>) -> A {
        self.run(costs, passes, |_| ())
    }

    /// The same; `turned` is told when the last stage has gone back with each pass, one after the other.
    fn run<A: Amount>(&self, costs: &[A], passes: &mut Passes<A>, mut turned: impl FnMut(A)) -> A {
        let [stages, chunks, group] = [self.stages, self.chunks, self.group].map(|count| count as usize);
        passes.restart(costs, stages, chunks, group);
        let Passes { costs, free, forward, back, work } = passes;
        let delay = stages - 1 + (chunks - 1) * group;
        for round in 0..costs.len() + delay + stages {
            work.did(1 + stages.min(costs.len()));
            forward.round(round, costs, |distance, there, cost| {
                free[distance] = larger(free[distance], there) + cost;
                free[distance]
            });
            let Some(round) = round.checked_sub(delay) else { continue };
            if chunks > 1 {
                back.round(round, costs, |distance, there, cost| {
                    let stage = stages - 1 - distance;
                    free[stage] = larger(free[stage], there) + cost + cost;
                    free[stage]
                });
            } else if let Some(&cost) = costs.get(round) {
                free.iter_mut().rev().fold(A::default(), |there, free| {
                    *free = larger(*free, there) + cost + cost;
                    *free
                });
            }
            if round < costs.len() {
                turned(free[stages - 1]);
            }
        }
        free[0]
    }

    /// When the pipeline ends, in floats that are rounded at every pass; infinite where no float is as large. `turned` is
    /// told when the last stage has gone back with each pass: without chunks it does so right after it has gone forward.
    pub(crate) fn end_of_floats(&self, costs: &[f64], passes: &mut Passes<f64>, mut turned: impl FnMut(f64)) -> f64 {
        let (parts, total) = (self.parts() as f64, costs.iter().sum::<f64>());
        if (total * parts * self.stages as f64).is_finite() {
            return self.run(costs, passes, |time| turned(time / parts)) / parts;
        }
        self.run(&costs.iter().map(|cost| cost / parts).collect::<Vec<_>>(), passes, turned)
    }
}

impl Default for Pipeline {
    /// One stage, which is no pipeline.
    fn default() -> Self {
        Self { stages: 1, chunks: 1, group: 1 }
    }
}

/// Where the passes of a pipeline are.
#[derive(Default)]
pub(crate) struct Passes<A> {
    /// Of every pass: its micro-batch's cost.
    costs: Vec<A>,
    /// When each stage has done all of its passes so far.
    free: Vec<A>,
    forward: Wave<A>,
    back: Wave<A>,
    /// Of many short pipelines together.
    work: Work,
}

impl<A: Amount> Passes<A> {
    fn restart(&mut self, costs: &[A], stages: usize, chunks: usize, group: usize) {
        self.costs.clear();
        for group in costs.chunks(group) {
            (0..chunks).for_each(|_| self.costs.extend_from_slice(group));
        }
        self.free.clear();
        self.free.resize(stages, A::default());
        self.forward.restart(stages, chunks, group);
        self.back.restart(stages, chunks, group);
    }
}

/// Passes of one direction, by the distance of a stage from the one where they enter.
#[derive(Default)]
struct Wave<A> {
    /// When the last pass left the stage of every distance.
    left: Vec<A>,
    /// When the micro-batches of a group left the last of these stages; with the next chunk they enter again.
    through: Vec<A>,
    chunks: usize,
    /// The next pass to enter, by its place in the group, and its chunk.
    enters: usize,
    chunk: usize,
    /// The place in the group of the next pass to leave.
    leaves: usize,
}

impl<A: Amount> Wave<A> {
    fn restart(&mut self, stages: usize, chunks: usize, group: usize) {
        let start = |amounts: &mut Vec<A>, count| {
            amounts.clear();
            amounts.resize(count, A::default());
        };
        start(&mut self.left, stages);
        start(&mut self.through, group);
        self.chunks = chunks;
        (self.enters, self.chunk, self.leaves) = (0, 0, 0);
    }

    /// The passes of a round: pass q is at distance `round - q`. `run` takes the distance, when the pass is there and its
    /// cost, and returns when it has left.
    fn round(&mut self, round: usize, costs: &[A], mut run: impl FnMut(usize, A, A) -> A) {
        let last = self.left.len() - 1;
        let (nearest, farthest) = ((round + 1).saturating_sub(costs.len()), round.min(last));
        // The farthest first: no pass reads what its successor has written.
        for distance in (nearest.max(1)..=farthest).rev() {
            self.left[distance] = run(distance, self.left[distance - 1], costs[round - distance]);
        }
        if round < costs.len() {
            let there = self.enter();
            self.left[0] = run(0, there, costs[round]);
        }
        if nearest <= last && farthest == last {
            self.through[self.leaves] = self.left[last];
            self.leaves = if self.leaves + 1 == self.through.len() { 0 } else { self.leaves + 1 };
        }
    }

    /// When the next pass may enter. The first chunk waits for nothing; going back it enters where it has gone forward.
    fn enter(&mut self) -> A {
        let there = if self.chunk == 0 { A::default() } else { self.through[self.enters] };
        self.enters += 1;
        if self.enters == self.through.len() {
            self.enters = 0;
            self.chunk = if self.chunk + 1 == self.chunks { 0 } else { self.chunk + 1 };
        }
        there
    }
}

/// When a pipeline ends that one rank's micro-batches go through, in the unit of their costs.
///
/// # Arguments
/// - `costs`: of every micro-batch, in the order in which the rank runs them.
/// - `pipeline`: with more than one chunk, `costs` come in whole groups.
///
/// Returns the exact time, rounded once, for integers and for floats whose sums are exact (see [`Weights`]) while their
/// sum times stages and chunks stays below 2^126; else that of floats, rounded at every pass.
///
/// # Complexity
/// **O(m p v)** time for m micro-batches, p stages and v chunks, and O(m v + p) space.
///
/// # Literature
/// D. Narayanan et al., *Efficient large-scale language model training on GPU clusters using Megatron-LM*, 2021.
///
/// # Examples
/// ```
/// use flopbalance_core::{Pipeline, Weights, simulate_pipeline};
/// use std::num::NonZeroU64;
///
/// let count = |count| NonZeroU64::new(count).unwrap();
/// let equal = Weights::from_u64(vec![1; 8]);
/// // The pipeline fills and drains once: m + p - 1, or m + (p - 1) / v.
/// assert_eq!(simulate_pipeline(&equal, &Pipeline::new(count(4), count(1), None)?)?, 11.0);
/// assert_eq!(simulate_pipeline(&equal, &Pipeline::new(count(4), count(2), None)?)?, 9.5);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn simulate_pipeline(costs: &Weights<'_>, pipeline: &Pipeline) -> Result<f64> {
    pipeline.check(costs.len())?;
    pipeline.ensure_memory(costs.len())?;
    let (whole, exponent) = (costs.whole(), costs.exponent);
    let most = u128::from(pipeline.stages * pipeline.parts());
    let total = whole.as_ref().and_then(|whole| whole.iter().sum::<u128>().checked_mul(most));
    let time = match whole.filter(|_| total.is_some()) {
        Some(whole) => {
            let (quotient, up) = rounded_quotient(pipeline.end(&whole, &mut Passes::default()), pipeline.parts());
            power_of_two_times(quotient, exponent - up)
        }
        None => pipeline.end_of_floats(&costs.floats(), &mut Passes::default(), |_| ()),
    };
    if time.is_finite() { Ok(time) } else { Err(Error::EndlessPipeline { stages: pipeline.stages }) }
}

/// `whole / divisor` as a float times a power of two that is taken off, rounded to nearest, ties to even.
fn rounded_quotient(whole: u128, divisor: u64) -> (f64, i32) {
    if whole == 0 {
        return (0.0, 0);
    }
    // Moved up as far as it goes, the quotient has more bits than a float, and what is left only breaks ties.
    let up = whole.leading_zeros();
    let (quotient, rest) = ((whole << up) / u128::from(divisor), (whole << up) % u128::from(divisor));
    ((quotient | u128::from(rest > 0)) as f64, up as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn pipeline(stages: u64, chunks: u64, group: Option<u64>) -> Pipeline {
        let count = |count| NonZeroU64::new(count).unwrap();
        Pipeline::new(count(stages), count(chunks), group.map(count)).unwrap()
    }

    fn end(costs: &[u64], pipeline: Pipeline) -> u64 {
        pipeline.end(costs, &mut Passes::default())
    }

    type Pass = (bool, usize, usize, usize); // back, stage, micro-batch, chunk

    /// Every stage goes on with its own order as long as it can, until all are done.
    fn naively(costs: &[u64], pipeline: Pipeline) -> u64 {
        let [p, v, g] = [pipeline.stages, pipeline.chunks, pipeline.group].map(|count| count as usize);
        let total = costs.len() * v;
        let orders: Vec<Vec<(bool, usize)>> = (0..p)
            .map(|s| {
                let ahead = if v > 1 { 2 * (p - 1 - s) + (v - 1) * g } else { p - 1 - s }.min(total);
                let mut order: Vec<_> = (0..ahead).map(|q| (false, q)).collect();
                order.extend((ahead..total).flat_map(|q| [(false, q), (true, q - ahead)]));
                order.extend((total - ahead..total).map(|q| (true, q)));
                order
            })
            .collect();
        let (mut done, mut free, mut next) = (HashMap::<Pass, u64>::new(), vec![0; p], vec![0; p]);
        while next.iter().any(|&next| next < 2 * total) {
            let before = done.len();
            for s in 0..p {
                while let Some(&(back, q)) = orders[s].get(next[s]) {
                    let (j, turn) = (q / (g * v) * g + q % g, q % (g * v) / g);
                    let chunk = if back { v - 1 - turn } else { turn };
                    let need: Option<Pass> = match back {
                        false if s > 0 => Some((false, s - 1, j, chunk)),
                        false => chunk.checked_sub(1).map(|before| (false, p - 1, j, before)),
                        true if s < p - 1 => Some((true, s + 1, j, chunk)),
                        true if chunk < v - 1 => Some((true, 0, j, chunk + 1)),
                        true => Some((false, s, j, chunk)),
                    };
                    let Some(there) = need.map_or(Some(0), |need| done.get(&need).copied()) else { break };
                    free[s] = free[s].max(there) + costs[j] * if back { 2 } else { 1 };
                    done.insert((back, s, j, chunk), free[s]);
                    next[s] += 1;
                }
            }
            assert!(done.len() > before, "stages wait for each other");
        }
        free.into_iter().max().unwrap_or(0)
    }

    fn pipelines() -> impl Strategy<Value = Pipeline> {
        (1_u64..7, 1_u64..4, 0_u64..3).prop_map(|(p, v, more)| pipeline(p, v, Some(p + more)))
    }

    /// A pipeline, and costs in whole groups.
    fn ranks() -> impl Strategy<Value = (Pipeline, Vec<u64>)> {
        (pipelines(), 0_usize..5).prop_flat_map(|(pipeline, groups)| {
            let costs = prop::collection::vec(0_u64..100, groups * pipeline.group as usize * 2);
            (Just(pipeline), costs)
        })
    }

    proptest! {
        #[test]
        fn rounds_end_as_stages_that_wait_do((pipeline, costs) in ranks()) {
            prop_assert_eq!(end(&costs, pipeline), naively(&costs, pipeline));
        }

        #[test]
        fn no_pipeline_is_shorter_than_its_parts((pipeline, costs) in ranks()) {
            let (time, parts) = (end(&costs, pipeline), pipeline.parts());
            let (sum, p) = (costs.iter().sum::<u64>(), pipeline.stages);
            let [least, most] = [costs.iter().min(), costs.iter().max()].map(|cost| cost.copied().unwrap_or(0));
            prop_assert!(time >= pipeline.least(sum, least, most));
            prop_assert!(pipeline.least(sum, least, most) >= parts * sum.max(p * most));
            prop_assert!(time <= parts * p * sum);
        }

        #[test]
        fn no_cost_makes_a_pipeline_shorter((pipeline, mut costs) in ranks(), which in 0_usize..100, more in 1_u64..50) {
            let before = end(&costs, pipeline);
            prop_assume!(!costs.is_empty());
            let which = which % costs.len();
            costs[which] += more;
            prop_assert!(end(&costs, pipeline) >= before);
        }

        #[test]
        fn equal_micro_batches_fill_and_drain_once(p in 1_u64..9, v in 1_u64..4, groups in 1_u64..5, cost in 0_u64..9) {
            let count = groups * p;
            let costs = vec![cost; count as usize];
            prop_assert_eq!(end(&costs, pipeline(p, v, None)), 3 * cost * (v * count + p - 1));
        }

        #[test]
        fn passes_can_be_used_again((one, costs) in ranks(), (other, others) in ranks()) {
            let mut passes = Passes::default();
            let times = [one.end(&costs, &mut passes), other.end(&others, &mut passes)];
            prop_assert_eq!(times, [end(&costs, one), end(&others, other)]);
        }
    }

    #[test]
    fn times_are_rounded_once() {
        let time = |costs: &[u128], stages, chunks| {
            simulate_pipeline(&Weights::from_u128(costs.to_vec()).unwrap(), &pipeline(stages, chunks, None))
        };
        assert_eq!(time(&[], 4, 2), Ok(0.0));
        assert_eq!(time(&[0, 0], 2, 1), Ok(0.0));
        assert_eq!(time(&[(1 << 53) + 1], 1, 1), Ok(9_007_199_254_740_992.0));
        assert_eq!(time(&[1 << 53, 3], 1, 2), Ok(9_007_199_254_740_996.0));
        let quotient = |whole: u128| {
            let (quotient, up) = rounded_quotient(whole, 3);
            (power_of_two_times(quotient, -up) - 2_f64.powi(53)) as i64
        };
        // Two thirds above 2^53 are nearer to it than to the next float, four thirds are not.
        assert_eq!([2, 4, 9].map(|more| quotient((3 << 53) + more)), [0, 2, 4]);
        // In floats where 128 bits do not hold the exact time.
        assert_eq!(time(&[1 << 126; 2], 4, 1), Ok(5.0 * 2_f64.powi(126)));
    }

    #[test]
    fn times_of_large_and_small_floats() {
        let time = |costs: &[f64], stages| {
            simulate_pipeline(&Weights::from_f64(costs.to_vec()).unwrap(), &pipeline(stages, 1, None))
        };
        assert_eq!(time(&[0.5, 0.25], 1), Ok(0.75));
        assert_eq!(time(&[5e-324], 3), Ok(1.5e-323));
        assert_eq!(time(&[1.5e308, 1e-3], 1), Ok(1.5e308));
        assert_eq!(time(&[1.5e308], 2), Err(Error::EndlessPipeline { stages: 2 }));
        assert_eq!(time(&[1e308, 0.1], 2), Err(Error::EndlessPipeline { stages: 2 }));
    }

    #[test]
    fn what_is_no_pipeline_is_refused() {
        let count = |count| NonZeroU64::new(count).unwrap();
        let refused = |stages, chunks, group: Option<u64>| {
            Pipeline::new(count(stages), count(chunks), group.map(count)).unwrap_err()
        };
        assert_eq!(refused(65_537, 1, None), Error::Stages { stages: 65_537 });
        assert_eq!(refused(1, 1_025, None), Error::Chunks { chunks: 1_025 });
        assert_eq!(refused(4, 2, Some(3)), Error::SmallGroup { group: 3, stages: 4 });
        assert_eq!(pipeline(4, 1, Some(3)).multiple(), 1);
        let three = Weights::from_u64(vec![1; 3]);
        let partial = Error::PartialGroup { micro_batches: 3, group: 2 };
        assert_eq!(simulate_pipeline(&three, &pipeline(2, 2, None)), Err(partial));
    }
}
