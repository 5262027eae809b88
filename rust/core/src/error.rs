//! Everything that can be refused: a variant for each reason, with the data behind it.
use std::fmt;

/// Shorthand for a result that can be refused.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an input or a plan was refused.
///
/// `Display` names argument, rule and value in the words of this crate; the variants carry the numbers, and
/// [`named`](Self::named) speaks in those of a caller.
///
/// # Examples
/// ```
/// use flopbalance_core::{Error, Kind, Lengths};
///
/// let error = Lengths::new(&[3, -5]).unwrap_err();
/// assert_eq!(error, Error::NegativeLength { index: 1, length: -5 });
/// assert_eq!(error.to_string(), "lengths[1] must be >= 0, got -5");
/// assert_eq!(error.kind(), Kind::Value);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// More samples or items than 32-bit numbers count.
    TooMany {
        /// What there are too many of: an argument.
        argument: &'static str,
        /// How many there are.
        count: usize,
    },
    /// A sample of fewer than no tokens.
    NegativeLength {
        /// Which sample.
        index: usize,
        /// Its tokens.
        length: i64,
    },
    /// All samples together have 2^63 tokens or more.
    TotalLength {
        /// The tokens of all samples.
        total: i128,
    },
    /// All samples and those that are repeated together have 2^63 tokens or more.
    RepeatedTokens {
        /// The tokens of all.
        total: i128,
    },
    /// Padding carries a length past 63 bits.
    PaddedLength {
        /// The longest sample.
        length: i64,
        /// What it is rounded up to a multiple of.
        pad_to: u64,
    },
    /// A cap below the multiple to which a micro-batch is padded leaves no room.
    CapBelowPadding {
        /// The token cap of a micro-batch.
        max_tokens: u64,
        /// The multiple to which a micro-batch's tokens are rounded up.
        pad_to: u64,
    },
    /// A weight that is infinite or no number.
    WeightNotFinite {
        /// Which weight.
        index: usize,
        /// Its value.
        weight: f64,
    },
    /// A weight below zero.
    NegativeWeight {
        /// Which weight.
        index: usize,
        /// Its value.
        weight: f64,
    },
    /// Floats whose sum may overflow.
    TotalWeightNotFinite {
        /// Their sum from left to right.
        total: f64,
    },
    /// Integers whose sum needs more than 128 bits.
    TotalWeight,
    /// There is nothing to partition.
    NoWeights,
    /// More parts than weights.
    TooManyParts {
        /// The parts that are wanted.
        parts: usize,
        /// The weights that there are.
        weights: usize,
    },
    /// Parts of equal size whose number does not divide that of the weights.
    UnevenParts {
        /// The parts that are wanted.
        parts: usize,
        /// The weights that there are.
        weights: usize,
    },
    /// An argument with a value for each sample has more or fewer.
    Count {
        /// The argument.
        argument: &'static str,
        /// The samples that there are.
        samples: usize,
        /// The values that were given.
        count: usize,
    },
    /// A group holds a number that is no item's.
    NoItem {
        /// The number.
        item: i64,
        /// Items are numbered below this.
        bound: usize,
    },
    /// An item stands in two places of the groups.
    RepeatedItem {
        /// The item.
        item: u32,
    },
    /// Sizes of groups that do not add up to their items.
    GroupSizes {
        /// The items that there are.
        items: usize,
    },
    /// More or fewer carried loads than ranks.
    Loads {
        /// The loads that were given.
        loads: usize,
        /// Data-parallel ranks.
        dp_size: usize,
    },
    /// A list that does not hold every number below its length once.
    NoPermutation {
        /// How many numbers it holds.
        items: usize,
        /// The first that is too large, below zero or there already.
        index: i64,
        /// Where it stands.
        position: usize,
    },
    /// A second amount below zero.
    NegativeAmount {
        /// Which sample.
        index: usize,
        /// Its amount.
        amount: i64,
    },
    /// The second amounts of all samples together reach 2^62.
    TotalAmount,
    /// More pipeline stages than [`Pipeline::MOST_STAGES`](crate::Pipeline::MOST_STAGES).
    Stages {
        /// The stages that were given.
        stages: u64,
    },
    /// More chunks of a stage than [`Pipeline::MOST_CHUNKS`](crate::Pipeline::MOST_CHUNKS).
    Chunks {
        /// The chunks that were given.
        chunks: u64,
    },
    /// Interleaved groups of fewer micro-batches than stages, which may wait for each other without end.
    SmallGroup {
        /// Micro-batches of a group.
        group: u64,
        /// Stages of the pipeline.
        stages: u64,
    },
    /// Interleaved micro-batches that are no multiple of their group.
    PartialGroup {
        /// Micro-batches of a rank.
        micro_batches: usize,
        /// Micro-batches of a group.
        group: u64,
    },
    /// A pipeline's time is above the largest float.
    EndlessPipeline {
        /// Stages of the pipeline.
        stages: u64,
    },
    /// An overhead below zero, infinite or no number.
    Overhead {
        /// The overhead that was given.
        overhead: f64,
    },
    /// More bins than are made where splitting leaves them empty.
    EmptyBins {
        /// The bins that are wanted.
        target: usize,
        /// The most that are made.
        most: usize,
    },
    /// Arrays that are no schedule.
    NoSchedule {
        /// The law that is broken.
        law: &'static str,
    },
    /// A sequence that costs more than the result can hold.
    CostOverflow {
        /// Which sequence.
        index: usize,
        /// Its tokens.
        length: i64,
    },
    /// All sequences together have more pairs of tokens than 128 bits count.
    PairsOverflow,
    /// There is nothing to plan.
    NoSamples,
    /// A sample exceeds a cap by itself, and that is to be refused.
    Oversize {
        /// Which cap: `"lengths"` or `"extra_budget.amounts"`.
        amounts: &'static str,
        /// The first such sample.
        index: usize,
        /// What it needs.
        amount: i64,
        /// The cap, after padding.
        cap: u64,
        /// How many such samples there are.
        oversize: usize,
        /// Of how many.
        samples: usize,
    },
    /// All samples of all steps exceed a cap, and such samples are dropped.
    AllOversize {
        /// The samples that there are.
        samples: usize,
    },
    /// A step cannot be planned after samples above a cap were dropped from it.
    AfterDropping {
        /// How many were dropped.
        oversize: usize,
        /// Why the others cannot be planned.
        error: Box<Error>,
    },
    /// Fewer rollouts than fill one step.
    TooFewRollouts {
        /// The rollouts that there are.
        rollouts: usize,
        /// Rollouts in a step.
        global_batch_size: usize,
    },
    /// Rollouts that fill no step, where that is to be refused.
    RolloutsLeftOver {
        /// The rollouts that there are.
        rollouts: usize,
        /// Rollouts in a step.
        global_batch_size: usize,
    },
    /// A step of fewer samples than ranks.
    TooFewSamples {
        /// Which step.
        step: usize,
        /// Its samples.
        samples: usize,
        /// Data-parallel ranks.
        dp_size: usize,
    },
    /// Samples of no tokens, of which splitting makes empty micro-batches.
    EmptyMicroBatch {
        /// Which step.
        step: usize,
        /// The micro-batches that it must be split into.
        target: usize,
    },
    /// Micro-batches that do not come in multiples of what the ranks need.
    NoMultiple {
        /// Which step.
        step: usize,
        /// Its micro-batches.
        micro_batches: usize,
        /// Its samples.
        samples: usize,
        /// Data-parallel ranks.
        dp_size: usize,
        /// Micro-batches per rank come in multiples of this.
        micro_batch_multiple: usize,
    },
    /// A step of fewer samples than micro-batches.
    Shortage {
        /// Which step.
        step: usize,
        /// Its samples.
        samples: usize,
        /// Micro-batches that the caps need.
        packed: usize,
        /// Micro-batches after alignment.
        needed: usize,
        /// Data-parallel ranks.
        dp_size: usize,
        /// Micro-batches per rank come in multiples of this.
        micro_batch_multiple: usize,
        /// Micro-batches per rank that were asked for, and as what, where that is why so many are needed.
        asked_for: Option<(&'static str, usize)>,
    },
    /// A number of micro-batches that is none of those that it may be.
    NoCount {
        /// Micro-batches per rank that were asked for.
        exactly: usize,
        /// Of what they must be a multiple.
        multiple: usize,
        /// What they must not be below.
        at_least: usize,
    },
    /// A step that does not fit into as many micro-batches as were asked for.
    TooFewMicroBatches {
        /// Which step.
        step: usize,
        /// Micro-batches per rank that were asked for.
        exactly: usize,
        /// The fewest per rank that may be asked for.
        least: usize,
        /// Data-parallel ranks.
        dp_size: usize,
        /// Micro-batches of all ranks: as few as were found to do, or no more than there must be.
        packed: usize,
        /// Whether there must be so many, as a bound shows.
        is_bound: bool,
    },
    /// Samples that do not fit into as many bins as were asked for.
    TooFewBins {
        /// The bins that were asked for.
        exactly: usize,
        /// As few bins as were found to do.
        packed: usize,
    },
    /// Fewer samples than bins.
    TooManyBins {
        /// The bins that there must be.
        wanted: usize,
        /// The samples that there are.
        samples: usize,
    },
    /// A step that would have to repeat its samples too often.
    TooManyRepeats {
        /// Which step.
        step: usize,
        /// Micro-batches that it needs.
        needed: usize,
        /// The most that are made of repeated samples.
        most: usize,
        /// Data-parallel ranks.
        dp_size: usize,
        /// Micro-batches per rank come in multiples of this.
        micro_batch_multiple: usize,
    },
    /// The machine has no room for what the work would hold.
    OutOfMemory {
        /// About so much at its peak.
        bytes: usize,
    },
    /// The caller of [`interruptible`](crate::interruptible) said stop.
    Interrupted,
}

/// What kind of refusal an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An argument's value breaks its rule.
    Value,
    /// The input is sound but no schedule exists for it.
    Schedule,
    /// An exact result does not fit the promised type.
    Overflow,
    /// The machine has too little memory.
    Memory,
    /// Nothing is wrong with the input; the caller wanted no answer any more.
    Interrupted,
}

impl Error {
    /// What kind of refusal it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::CostOverflow { .. } | Self::PairsOverflow => Kind::Overflow,
            Self::OutOfMemory { .. } => Kind::Memory,
            Self::Interrupted => Kind::Interrupted,
            Self::NoWeights
            | Self::TooManyParts { .. }
            | Self::UnevenParts { .. }
            | Self::NoSamples
            | Self::Oversize { .. }
            | Self::AllOversize { .. }
            | Self::AfterDropping { .. }
            | Self::TooFewRollouts { .. }
            | Self::RolloutsLeftOver { .. }
            | Self::TooFewSamples { .. }
            | Self::EmptyMicroBatch { .. }
            | Self::NoMultiple { .. }
            | Self::Shortage { .. }
            | Self::TooFewMicroBatches { .. }
            | Self::TooFewBins { .. }
            | Self::TooManyBins { .. }
            | Self::TooManyRepeats { .. } => Kind::Schedule,
            _ => Kind::Value,
        }
    }

    /// The refusal in words of a caller that calls arguments by other names; values are never renamed.
    ///
    /// # Examples
    /// ```
    /// use flopbalance_core::Lengths;
    ///
    /// let error = Lengths::new(&[3, -5]).unwrap_err();
    /// let named = error.named(&|argument| if argument == "lengths" { "tokens" } else { argument });
    /// assert_eq!(named.to_string(), "tokens[1] must be >= 0, got -5");
    /// ```
    pub fn named<'a>(&'a self, name: &'a dyn Fn(&'static str) -> &'a str) -> impl fmt::Display + 'a {
        Named { error: self, name }
    }

    /// The same refusal, of a step that as many samples above the cap were dropped from.
    pub(crate) fn after_dropping(self, oversize: usize) -> Self {
        if oversize == 0 { self } else { Self::AfterDropping { oversize, error: Box::new(self) } }
    }

    fn write_value<'a>(&'a self, f: &mut fmt::Formatter<'_>, name: Names<'a>) -> fmt::Result {
        match self {
            Self::TooMany { argument, count } => {
                write!(f, "{} must hold fewer than 2^32 - 1 values, got {count}", name(argument))
            }
            Self::NegativeLength { index, length } => {
                write!(f, "{}[{index}] must be >= 0, got {length}", name("lengths"))
            }
            Self::TotalLength { total } => write!(f, "the sum of {} must be below 2^63, got {total}", name("lengths")),
            Self::RepeatedTokens { total } => {
                write!(f, "the sum of {}, with repeats, must be below 2^63, got {total}", name("lengths"))
            }
            Self::PaddedLength { length, pad_to } => {
                write!(
                    f,
                    "{} must be below 2^63 when rounded up to {} = {pad_to}, got {length}",
                    name("lengths"),
                    name("pad_to")
                )
            }
            Self::CapBelowPadding { max_tokens, pad_to } => {
                write!(f, "{} must be >= {} = {pad_to}, got {max_tokens}", name("max_tokens"), name("pad_to"))
            }
            Self::WeightNotFinite { index, weight } => {
                write!(f, "{}[{index}] must be finite, got {weight:?}", name("weights"))
            }
            Self::NegativeWeight { index, weight } => {
                write!(f, "{}[{index}] must be >= 0, got {weight:?}", name("weights"))
            }
            Self::TotalWeightNotFinite { total } => {
                write!(f, "the sum of {} must be finite in every order, got {total:e}", name("weights"))
            }
            Self::TotalWeight => write!(f, "the sum of {} must be below 2^128, got more", name("weights")),
            Self::Count { argument, samples, count } => {
                let one = match *argument {
                    "costs" => "cost",
                    "rollout_ids" => "id",
                    _ => "amount",
                };
                write!(f, "{} must hold one {one} for each of the {samples} samples, got {count}", name(argument))
            }
            Self::NoItem { item, bound } => {
                write!(f, "{} must hold indices of samples, >= 0 and < {bound}, got {item}", name("groups"))
            }
            Self::RepeatedItem { item } => {
                write!(f, "{} must hold every sample once at most, got {item} twice", name("groups"))
            }
            Self::EmptyBins { target, most } => {
                write!(
                    f,
                    "{} must be at most {most} where {} hold no tokens, got {target}",
                    name("target"),
                    name("groups")
                )
            }
            Self::GroupSizes { items } => write!(f, "sizes must be >= 0 and add up to the {items} items, got others"),
            Self::NoPermutation { items, index, position } => {
                let last = items.saturating_sub(1);
                write!(f, "{} must hold every number from 0 to {last} once, got {index} at {position}", name("order"))
            }
            Self::NegativeAmount { index, amount } => {
                write!(f, "{}[{index}] must be >= 0, got {amount}", name("extra_budget.amounts"))
            }
            Self::Loads { loads, dp_size } => {
                write!(
                    f,
                    "{} must hold one load for each of the {} = {dp_size} ranks, got {loads}",
                    name("carried"),
                    name("dp_size")
                )
            }
            Self::TotalAmount => write!(f, "the sum of {} must be below 2^62, got more", name("extra_budget.amounts")),
            Self::Stages { stages } => {
                write!(f, "{} must be <= {}, got {stages}", name("pipeline_stages"), crate::Pipeline::MOST_STAGES)
            }
            Self::Chunks { chunks } => {
                write!(f, "{} must be <= {}, got {chunks}", name("chunks"), crate::Pipeline::MOST_CHUNKS)
            }
            Self::SmallGroup { group, stages } => {
                write!(f, "{} must be >= {} = {stages}, got {group}", name("group"), name("pipeline_stages"))
            }
            Self::PartialGroup { micro_batches, group } => {
                let (costs, name) = (name("costs"), name("group"));
                write!(f, "{costs} must be of a multiple of {name} = {group} micro-batches, got {micro_batches}")
            }
            Self::EndlessPipeline { stages } => {
                let stages_name = name("pipeline_stages");
                write!(f, "{} must leave the time of the pipeline finite, got {stages_name} = {stages}", name("costs"))
            }
            Self::Overhead { overhead } => {
                write!(f, "{} must be >= 0 and finite, got {overhead}", name("micro_batch_overhead"))
            }
            Self::NoSchedule { law } => write!(f, "the arrays must be those of a schedule, got a broken law: {law}"),
            Self::NoCount { exactly, multiple, .. } if exactly % multiple != 0 => {
                write!(f, "{} must be a multiple of {multiple}, got {exactly}", name("exactly"))
            }
            Self::NoCount { exactly, at_least, .. } => {
                write!(f, "{} must be >= {} = {at_least}, got {exactly}", name("exactly"), name("at_least"))
            }
            other => write!(f, "{other:?}"), // never reached: the kinds above are all
        }
    }

    fn write_schedule<'a>(&'a self, f: &mut fmt::Formatter<'_>, name: Names<'a>) -> fmt::Result {
        match self {
            Self::NoWeights => write!(f, "{} must hold at least one item, got none", name("weights")),
            Self::TooManyParts { parts, weights } => {
                write!(f, "{} must be <= the number of items, {weights}, got {parts}", name("parts"))
            }
            Self::UnevenParts { parts, weights } => {
                write!(
                    f,
                    "{} must divide the number of items, {weights}, when sizes are equal, got {parts}",
                    name("parts")
                )
            }
            Self::NoSamples => write!(f, "{} must hold at least one sample, got none", name("lengths")),
            Self::Oversize { amounts, index, amount, cap, oversize, samples } => write!(
                f,
                "{}[{index}] must be within the cap, {cap} after padding, as {} asks, got {amount}; {oversize} of {samples} \
                 samples are not",
                name(amounts),
                name("on_oversize")
            ),
            Self::AllOversize { samples } => {
                write!(f, "{} must leave a sample, got drop where all {samples} are above the cap", name("on_oversize"))
            }
            Self::AfterDropping { oversize, error } => {
                write!(f, "{}; {oversize} more are above the cap, and dropped", error.named(name))
            }
            Self::TooFewRollouts { rollouts, global_batch_size } => write!(
                f,
                "the number of rollouts must be >= {}, {global_batch_size}, to fill one step, got {rollouts}",
                name("global_batch_size")
            ),
            Self::RolloutsLeftOver { rollouts, global_batch_size } => write!(
                f,
                "the number of rollouts must be a multiple of {}, {global_batch_size}, got {rollouts}: the last {} fill no step",
                name("global_batch_size"),
                rollouts % global_batch_size
            ),
            Self::TooFewSamples { step, samples, dp_size } => write!(
                f,
                "step {step} must hold at least one sample for each of the {} = {dp_size} ranks, got {samples}",
                name("dp_size")
            ),
            Self::EmptyMicroBatch { step, target } => write!(
                f,
                "{} of step {step} must be > 0 where a micro-batch is split into {target}, got samples of 0 tokens",
                name("lengths")
            ),
            Self::NoMultiple { step, micro_batches, samples, dp_size, micro_batch_multiple } => write!(
                f,
                "micro-batches of step {step} must be a multiple of {} ({} = {dp_size} ranks x {} = {micro_batch_multiple}), \
                 got {micro_batches} from {samples} samples",
                dp_size.saturating_mul(*micro_batch_multiple),
                name("dp_size"),
                name("micro_batch_multiple")
            ),
            Self::Shortage { step, samples, needed, dp_size, asked_for: Some((argument, count)), .. } => write!(
                f,
                "step {step} must hold at least {needed} samples, one for each micro-batch ({} = {count} of {} = {dp_size} \
                 ranks), got {samples}",
                name(argument),
                name("dp_size")
            ),
            Self::Shortage { step, samples, packed, needed, dp_size, micro_batch_multiple, .. } => write!(
                f,
                "step {step} must hold at least {needed} samples, one for each micro-batch (the cap needs {packed}, {} = \
                 {dp_size} ranks x {} = {micro_batch_multiple} a multiple of {}), got {samples}",
                name("dp_size"),
                name("micro_batch_multiple"),
                dp_size.saturating_mul(*micro_batch_multiple)
            ),
            Self::TooFewMicroBatches { step, exactly, least, dp_size, packed, is_bound } => write!(
                f,
                "{} must be at least {least} for step {step}, whose samples {} {packed} micro-batches of {} = {dp_size} ranks, \
                 got {exactly}",
                name("exactly"),
                if *is_bound { "need" } else { "were packed into no fewer than" },
                name("dp_size")
            ),
            Self::TooFewBins { exactly, packed } => {
                write!(
                    f,
                    "{} must be at least {packed}, into which the samples were packed, got {exactly}",
                    name("exactly")
                )
            }
            Self::TooManyBins { wanted, samples } => {
                write!(f, "{} must hold at least {wanted} samples, one for each bin, got {samples}", name("lengths"))
            }
            Self::TooManyRepeats { step, needed, most, dp_size, micro_batch_multiple } => write!(
                f,
                "step {step} must need at most {most} micro-batches where samples are repeated, got {needed} ({} = {dp_size} \
                 ranks x {} = {micro_batch_multiple})",
                name("dp_size"),
                name("micro_batch_multiple")
            ),
            other => write!(f, "{other:?}"), // never reached: the kinds above are all
        }
    }

    fn write_other<'a>(&'a self, f: &mut fmt::Formatter<'_>, name: Names<'a>) -> fmt::Result {
        match self {
            Self::CostOverflow { index, length } => {
                write!(f, "{}[{index}] = {length} costs more FLOPs than the result can hold", name("lengths"))
            }
            Self::PairsOverflow => write!(f, "{} hold more pairs of tokens than 128 bits count", name("lengths")),
            Self::OutOfMemory { bytes } => write!(f, "the call needs about {bytes} bytes, which are not there"),
            _ => f.write_str("the call was interrupted"),
        }
    }
}

/// What a caller calls the arguments of this crate.
type Names<'a> = &'a dyn Fn(&'static str) -> &'a str;

struct Named<'a> {
    error: &'a Error,
    name: Names<'a>,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.kind() {
            Kind::Value => self.error.write_value(f, self.name),
            Kind::Schedule => self.error.write_schedule(f, self.name),
            Kind::Overflow | Kind::Memory | Kind::Interrupted => self.error.write_other(f, self.name),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named(&|argument| argument).fmt(f)
    }
}

impl std::error::Error for Error {}
