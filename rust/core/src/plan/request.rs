//! What a plan is asked for.
use crate::{Error, Pipeline, Result, Weights};
use std::num::{NonZeroU64, NonZeroUsize};

/// What a plan is asked for: made by [`Request::new`], then changed field by field.
///
/// # Examples
/// ```
/// use flopbalance_core::{Cap, Packing, Request};
/// use std::num::{NonZeroU64, NonZeroUsize};
///
/// let cap = Cap::new(NonZeroU64::new(36_864).unwrap());
/// let mut request = Request::new(NonZeroUsize::new(8).unwrap(), Packing::FirstFit(cap));
/// request.global_batch_size = NonZeroUsize::new(128);
/// assert!(request.balance_ranks);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Data-parallel ranks.
    pub dp_size: NonZeroUsize,
    /// Micro-batches per rank and step come in multiples of this.
    pub micro_batch_multiple: NonZeroUsize,
    /// The packing of a step.
    pub packing: Packing<'a>,
    /// Whether micro-batches are dealt to ranks by cost; otherwise in turn. [`Packing::Capped`] always balances.
    pub balance_ranks: bool,
    /// The rollout that a sample belongs to; every sample is one when `None`.
    pub rollout_ids: Option<&'a [i64]>,
    /// Rollouts in a step; all when `None`.
    pub global_batch_size: Option<NonZeroUsize>,
    /// What happens to rollouts that fill no step.
    pub on_leftover: OnLeftover,
}

impl<'a> Request<'a> {
    /// One step of all samples, ranks balanced by cost.
    #[must_use]
    pub fn new(dp_size: NonZeroUsize, packing: Packing<'a>) -> Self {
        Self {
            dp_size,
            micro_batch_multiple: NonZeroUsize::MIN,
            packing,
            balance_ranks: true,
            rollout_ids: None,
            global_batch_size: None,
            on_leftover: OnLeftover::Drop,
        }
    }
}

/// How the samples of a step are packed into micro-batches.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Packing<'a> {
    /// As published: runs of so many samples.
    Fixed {
        /// Samples of a micro-batch.
        micro_batch_size: NonZeroUsize,
    },
    /// As published: first fit on tokens; the cap holds.
    FirstFit(Cap),
    /// As published: Karmarkar–Karp on costs into as many parts as the cap would need; **the cap may be exceeded**.
    Flops(Cap),
    /// Within the cap, and balanced for an objective.
    Capped(Cap, Capped<'a>),
}

impl Packing<'_> {
    /// The token cap, where there is one.
    pub(crate) fn cap(&self) -> Option<&Cap> {
        match self {
            Self::Fixed { .. } => None,
            Self::FirstFit(cap) | Self::Flops(cap) | Self::Capped(cap, _) => Some(cap),
        }
    }
}

/// The token cap of a micro-batch, and what counts against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cap {
    /// Tokens in a micro-batch of two samples or more.
    pub max_tokens: NonZeroU64,
    /// To a multiple of what tokens are rounded up before they meet the cap.
    pub pad_to: PadTo,
    /// What happens to a sample above the cap.
    pub on_oversize: OnOversize,
}

impl Cap {
    /// A cap on tokens as they are; a sample above it sits alone.
    #[must_use]
    pub fn new(max_tokens: NonZeroU64) -> Self {
        Self { max_tokens, pad_to: PadTo::default(), on_oversize: OnOversize::Alone }
    }
}

/// Multiples to which tokens are rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadTo {
    /// Each sample's tokens.
    pub sample: NonZeroU64,
    /// The tokens of each micro-batch.
    pub micro_batch: NonZeroU64,
}

impl Default for PadTo {
    fn default() -> Self {
        Self { sample: NonZeroU64::MIN, micro_batch: NonZeroU64::MIN }
    }
}

/// What [`Packing::Capped`] balances for, and what else it keeps.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capped<'a> {
    /// When ranks wait for each other, and so what is to be short.
    pub objective: Objective,
    /// How many micro-batches every rank gets.
    pub counts: Counts,
    /// What every micro-batch costs beside its samples, in the unit of costs; with one, there are as many micro-batches
    /// as make the objective and their overhead short, and without as few as the caps allow.
    pub micro_batch_overhead: Option<f64>,
    /// Whether every sample takes as many tokens as the longest of its micro-batch.
    pub padded: bool,
    /// A second amount of every sample, with a cap of its own.
    pub extra_budget: Option<ExtraBudget<'a>>,
    /// Samples in a micro-batch; any number when `None`.
    pub max_samples: Option<NonZeroUsize>,
    /// What every rank carries from before, in the unit of costs; nothing when `None`. The rank that carries the least
    /// gets the heaviest part of the first step.
    pub carried: Option<&'a Weights<'a>>,
    /// Pairs of samples that may be looked at, for each start and sample. More is never worse and takes longer.
    pub effort: u64,
    /// What happens to a step of fewer samples than micro-batches.
    pub on_shortage: OnShortage,
}

impl Capped<'_> {
    /// Look-ups per sample that level 1,024 samples over 32 ranks as far as the search gets.
    pub const EFFORT: u64 = 128;

    /// One cap, and an effort of [`Capped::EFFORT`].
    #[must_use]
    pub fn new(objective: Objective) -> Self {
        Self {
            objective,
            counts: Counts::default(),
            micro_batch_overhead: None,
            padded: false,
            extra_budget: None,
            max_samples: None,
            carried: None,
            effort: Self::EFFORT,
            on_shortage: OnShortage::Error,
        }
    }

    /// Samples in a micro-batch, at most.
    pub(crate) fn most_samples(&self) -> u64 {
        self.max_samples.map_or(u64::MAX, |most| most.get() as u64)
    }
}

/// How many micro-batches, and samples, every rank gets in a step; micro-batches come in multiples beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// So many; a step whose caps need more, or of fewer samples, is refused.
    pub exactly: Option<NonZeroUsize>,
    /// No fewer.
    pub at_least: NonZeroUsize,
    /// Whether the numbers of samples of ranks differ by at most one.
    pub even_samples: bool,
}

impl Default for Counts {
    /// Any number.
    fn default() -> Self {
        Self { exactly: None, at_least: NonZeroUsize::MIN, even_samples: false }
    }
}

impl Counts {
    /// Refuses an exact number that is no multiple, or below the least.
    pub(crate) fn check(self, multiple: usize) -> Result<()> {
        let at_least = self.at_least.get();
        match self.exactly.map(NonZeroUsize::get) {
            Some(exactly) if exactly % multiple != 0 || exactly < at_least => {
                Err(Error::NoCount { exactly, multiple, at_least })
            }
            _ => Ok(()),
        }
    }
}

/// A second amount of every sample (logits, image tokens) and what a micro-batch of two samples or more may hold of it.
#[derive(Clone, Copy, Debug)]
pub struct ExtraBudget<'a> {
    /// One amount for each sample, none negative, with a sum below 2^62.
    pub amounts: &'a [i64],
    /// The cap.
    pub cap: u64,
}

/// When ranks wait for each other, and so what is to be short.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Objective {
    /// Ranks meet once a step: the largest sum of a rank's costs.
    Step,
    /// Ranks meet at every micro-batch: the costliest first micro-batch, plus the costliest second, and so on.
    MicroBatch,
    /// Ranks meet once a step and each is a pipeline: when the last of them ends.
    Pipeline(Pipeline),
    /// Ranks meet at every micro-batch and each is a pipeline: when a pipeline of the costliest first micro-batch, the
    /// costliest second, and so on ends.
    PipelinedRows(Pipeline),
}

impl Objective {
    /// The pipeline of every rank, if it is one.
    pub(crate) fn pipeline(&self) -> Option<Pipeline> {
        match *self {
            Self::Step | Self::MicroBatch => None,
            Self::Pipeline(pipeline) | Self::PipelinedRows(pipeline) => Some(pipeline),
        }
    }
}

/// What happens to rollouts that fill no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLeftover {
    /// They are in no step.
    #[default]
    Drop,
    /// They make a last, smaller step; where the ranks cannot be filled with them, they are in no step.
    Partial,
    /// They are refused.
    Error,
}

/// What happens to a sample above the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOversize {
    /// It gets a micro-batch of its own.
    #[default]
    Alone,
    /// It is dropped from its step.
    Drop,
    /// It is refused.
    Error,
}

/// What happens to a step of fewer samples than micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnShortage {
    /// It is refused.
    #[default]
    Error,
    /// Its cheapest samples stand in it again.
    Repeat,
}
