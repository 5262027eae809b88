//! The one place where tests ask for a plan within the cap, and read it: when the crate's interface changes, only this
//! file does.
#![allow(dead_code, reason = "no test file uses all of it")]
use flopbalance_core::{
    Cap, Capped, ExtraBudget, Lengths, Objective, OnShortage, Packing, Pipeline, Request, Weights, plan,
    simulate_pipeline,
};
use std::num::{NonZeroU64, NonZeroUsize};

/// What is to be short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    Step,
    MicroBatch,
    /// Stages, and a micro-batch's overhead as a share of all costs together.
    Pipeline(u64, f64),
    /// The same where ranks meet at every micro-batch.
    PipelinedRows(u64, f64),
}

impl Aim {
    /// Stages and overhead, where there is a pipeline.
    pub fn pipeline(self) -> Option<(u64, f64)> {
        match self {
            Self::Step | Self::MicroBatch => None,
            Self::Pipeline(stages, share) | Self::PipelinedRows(stages, share) => Some((stages, share)),
        }
    }
}

/// One call of the planner.
#[derive(Clone, Debug)]
pub struct Case {
    pub lengths: Vec<i64>,
    pub costs: Vec<u64>,
    pub max_tokens: i64,
    pub padded: bool,
    /// A second amount per sample and its cap.
    pub extra: Option<(Vec<i64>, i64)>,
    /// Samples in a micro-batch.
    pub max_samples: Option<usize>,
    pub dp_size: usize,
    pub multiple: usize,
    pub aim: Aim,
    pub effort: u64,
    /// Samples in a step; all when `None`.
    pub step_size: Option<usize>,
    /// Whether a step of too few samples repeats its cheapest.
    pub repeat: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Rank by rank its micro-batches, over all steps, and their samples.
    pub ranks: Vec<Vec<Vec<u32>>>,
    /// Micro-batches per rank in each step.
    pub per_step: Vec<usize>,
    /// For every sample of `ranks`, in order, whether it only repeats another.
    pub repeated: Vec<bool>,
    /// Samples in no step.
    pub dropped: Vec<u32>,
}

impl Default for Case {
    /// Nothing to plan, for two ranks, with the effort that callers have by default.
    fn default() -> Self {
        Self {
            lengths: vec![],
            costs: vec![],
            max_tokens: 0,
            padded: false,
            extra: None,
            max_samples: None,
            dp_size: 2,
            multiple: 1,
            aim: Aim::Step,
            effort: 256,
            step_size: None,
            repeat: false,
        }
    }
}

impl Case {
    pub fn plan(&self) -> Result<Plan, String> {
        let count = |value| NonZeroUsize::new(value).expect("counts are at least 1");
        let total = self.costs.iter().sum::<u64>() as f64;
        let (objective, overhead) = match self.aim {
            Aim::Step => (Objective::Step, None),
            Aim::MicroBatch => (Objective::MicroBatch, None),
            Aim::Pipeline(stages, share) => (Objective::Pipeline(through(stages)?), Some(share * total)),
            Aim::PipelinedRows(stages, share) => (Objective::PipelinedRows(through(stages)?), Some(share * total)),
        };
        let mut capped = Capped::new(objective);
        capped.micro_batch_overhead = overhead;
        capped.padded = self.padded;
        capped.extra_budget =
            self.extra.as_ref().map(|(amounts, cap)| ExtraBudget { amounts, cap: cap.unsigned_abs() });
        capped.max_samples = self.max_samples.map(count);
        capped.effort = self.effort;
        capped.on_shortage = if self.repeat { OnShortage::Repeat } else { OnShortage::Error };
        let cap = Cap::new(NonZeroU64::new(self.max_tokens.unsigned_abs()).expect("caps are at least 1"));
        let mut request = Request::new(count(self.dp_size), Packing::Capped(cap, capped));
        request.micro_batch_multiple = count(self.multiple);
        request.global_batch_size = self.step_size.map(count);
        let lengths = Lengths::new(&self.lengths).map_err(|error| error.to_string())?;
        let costs = Weights::from_u64(&self.costs[..]);
        let schedule = plan(lengths, &costs, &request).map_err(|error| error.to_string())?;
        let index = |sample: &i64| u32::try_from(*sample).unwrap();
        let batches: Vec<Vec<u32>> = schedule
            .micro_batch_offsets
            .windows(2)
            .map(|ends| schedule.samples[ends[0] as usize..ends[1] as usize].iter().map(index).collect())
            .collect();
        Ok(Plan {
            ranks: batches.chunks((batches.len() / self.dp_size).max(1)).map(<[_]>::to_vec).collect(),
            per_step: schedule.micro_batches_per_step.iter().map(|&count| usize::try_from(count).unwrap()).collect(),
            repeated: schedule.is_padding,
            dropped: schedule.dropped.iter().map(index).collect(),
        })
    }

    /// Whether a micro-batch of these samples keeps the limits.
    pub fn holds(&self, samples: &[u32]) -> bool {
        let sum = |amounts: &[i64]| samples.iter().map(|&sample| amounts[sample as usize]).sum::<i64>();
        let longest = samples.iter().map(|&sample| self.lengths[sample as usize]).max().unwrap_or(0);
        let tokens = if self.padded { longest * samples.len() as i64 } else { sum(&self.lengths) };
        let extra = self.extra.as_ref().is_none_or(|(amounts, cap)| sum(amounts) <= *cap);
        let count = self.max_samples.is_none_or(|most| samples.len() <= most);
        samples.len() == 1 || tokens <= self.max_tokens && extra && count
    }

    fn cost(&self, micro_batch: &[u32]) -> u64 {
        micro_batch.iter().map(|&sample| self.costs[sample as usize]).sum()
    }

    /// What every micro-batch costs beside its samples.
    pub fn overhead(&self) -> u64 {
        let Some((_, share)) = self.aim.pipeline() else { return 0 };
        (share * self.costs.iter().sum::<u64>() as f64).round() as u64
    }

    /// The time of the steps one after another, added up anew from the definition of the objective; of pipelines in thirds.
    pub fn time(&self, plan: &Plan) -> u64 {
        (0..plan.per_step.len()).map(|step| self.step_time(&plan.step(step))).sum()
    }

    fn step_time(&self, ranks: &[&[Vec<u32>]]) -> u64 {
        let end = |costs: &[u64]| -> u64 {
            let Some((stages, _)) = self.aim.pipeline() else { return costs.iter().sum() };
            let costs: Vec<u64> = costs.iter().map(|cost| cost + self.overhead()).collect();
            (3.0 * simulate_pipeline(&Weights::from_u64(costs), &through(stages).unwrap()).unwrap()).round() as u64
        };
        let ranks = ranks.iter().map(|rank| rank.iter().map(|batch| self.cost(batch)).collect::<Vec<_>>());
        if let Aim::Step | Aim::Pipeline(..) = self.aim {
            return ranks.map(|rank| end(&rank)).max().unwrap();
        }
        let costlier = |one: &u64, other: &u64| *one.max(other);
        end(&ranks.reduce(|rows, rank| rows.iter().zip(&rank).map(|(a, b)| costlier(a, b)).collect()).unwrap())
    }

    /// No plan of as many micro-batches is shorter: in every step a rank carries the mean, a pipeline fills with its cheapest
    /// sample, and the costliest is somewhere.
    pub fn bound(&self, plan: &Plan) -> u64 {
        let step = |step: usize| {
            let ranks = plan.step(step);
            let samples: Vec<u32> = ranks.iter().copied().flatten().flatten().copied().collect();
            let costs = || samples.iter().map(|&sample| self.costs[sample as usize] + self.overhead());
            let mean = self.cost(&samples).div_ceil(self.dp_size as u64) + self.overhead() * plan.per_step[step] as u64;
            let (cheapest, costliest) = (costs().min().unwrap(), costs().max().unwrap());
            let Some((stages, _)) = self.aim.pipeline() else { return mean.max(costliest) };
            (3 * mean + 3 * (stages - 1) * cheapest).max(3 * stages * costliest)
        };
        (0..plan.per_step.len()).map(step).sum()
    }
}

fn through(stages: u64) -> Result<Pipeline, String> {
    let stages = NonZeroU64::new(stages).expect("counts are at least 1");
    Pipeline::new(stages, NonZeroU64::MIN, None).map_err(|error| error.to_string())
}

impl Plan {
    /// The micro-batches of one step, rank by rank.
    fn step(&self, step: usize) -> Vec<&[Vec<u32>]> {
        let start: usize = self.per_step[..step].iter().sum();
        self.ranks.iter().map(|rank| &rank[start..start + self.per_step[step]]).collect()
    }

    /// 64-bit FNV-1a over everything in the plan.
    pub fn hash(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut eat = |number: usize| {
            for byte in (number as u64).to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        eat(self.ranks.len());
        for rank in &self.ranks {
            eat(rank.len());
            for batch in rank {
                eat(batch.len());
                for &sample in batch {
                    eat(sample as usize);
                }
            }
        }
        eat(self.per_step.len());
        self.per_step.iter().for_each(|&count| eat(count));
        self.repeated.iter().for_each(|&repeated| eat(repeated.into()));
        self.dropped.iter().for_each(|&sample| eat(sample as usize));
        hash
    }
}

/// A fixed sequence of numbers that look random.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
