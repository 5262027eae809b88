//! What fits into one micro-batch: the token cap, padding to the longest sample, a second budget.
use crate::steps::gather;

/// What a micro-batch may hold. A micro-batch of one sample always fits: a sample above a cap sits alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps<'a> {
    /// Tokens in a micro-batch of two samples or more.
    pub max_tokens: i64,
    /// Whether every sample takes as many tokens as the longest of its micro-batch.
    pub padded: bool,
    /// A second amount per sample (logits, image tokens) and its cap.
    pub extra: Option<(&'a [i64], i64)>,
    /// Samples in a micro-batch.
    pub max_samples: u64,
}

#[cfg(test)]
impl Caps<'_> {
    /// One cap, on a plain sum.
    pub fn new(max_tokens: i64) -> Self {
        Self { max_tokens, padded: false, extra: None, max_samples: u64::MAX }
    }
}

/// The caps, and what every sample of one step needs of them and costs.
pub(crate) struct Room {
    costs: Vec<u64>,
    lengths: Vec<u64>,
    max_tokens: u64,
    padded: bool,
    extra: Vec<u64>,
    max_extra: u64,
    max_samples: u64,
}

/// The share that is a whole cap.
const WHOLE: f64 = (1 << 24) as f64;

/// What a micro-batch holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    pub samples: u64,
    pub cost: u64,
    tokens: u64,
    longest: u64,
    /// The longest beside one of the longest, so that this one can be taken out without a look at the others.
    second: u64,
    extra: u64,
}

impl Load {
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// All that limits ask for: loads that agree in it have room for the same samples.
    pub fn contents(&self) -> [u64; 4] {
        [self.tokens, self.extra, self.samples, self.longest]
    }
}

impl Room {
    /// The room of the samples in the given order.
    pub fn new(lengths: &[i64], costs: &[u64], limits: &Caps<'_>, order: &[u32]) -> Self {
        let ordered = |amounts| gather(amounts, order).iter().map(|&amount: &i64| amount as u64).collect();
        let (extra, max_extra) = limits.extra.map_or((vec![], 0), |(amounts, cap)| (ordered(amounts), cap));
        Self {
            costs: gather(costs, order).into_owned(),
            lengths: ordered(lengths),
            max_tokens: limits.max_tokens as u64,
            padded: limits.padded,
            extra,
            max_extra: max_extra as u64,
            max_samples: limits.max_samples,
        }
    }

    pub fn cost(&self, sample: u32) -> u64 {
        self.costs[sample as usize]
    }

    /// How many samples cost less.
    pub fn cheaper_than(&self, cost: u64) -> usize {
        self.costs.partition_point(|&other| other < cost)
    }

    pub fn length(&self, sample: u32) -> u64 {
        self.lengths[sample as usize]
    }

    /// The token cap where it is the only limit, on a plain sum.
    pub fn only_cap(&self) -> Option<i64> {
        (!self.padded && self.extra.is_empty() && self.max_samples == u64::MAX).then_some(self.max_tokens as i64)
    }

    /// Every amount of which a micro-batch of two samples or more holds no larger sum than a cap.
    pub fn amounts(&self) -> impl Iterator<Item = (&[u64], u64)> {
        let extra = self.has_extra().then_some((&self.extra[..], self.max_extra));
        std::iter::once((&self.lengths[..], self.max_tokens)).chain(extra)
    }

    pub fn max_samples(&self) -> u64 {
        self.max_samples
    }

    pub fn has_extra(&self) -> bool {
        !self.extra.is_empty()
    }

    /// The larger of a sample's shares of the two caps, in units that all samples have in common.
    pub fn larger_share(&self, sample: u32) -> u128 {
        let share = |amount: u64, of_other: u64| u128::from(amount) * u128::from(of_other);
        share(self.length(sample), self.max_extra).max(share(self.extra_of(sample), self.max_tokens))
    }

    /// Amounts as shares of the two caps, from 0 to 2^25; larger amounts never have smaller shares.
    pub fn shares(&self, amounts: [u64; 2]) -> [i32; 2] {
        let share = |amount: u64, cap: u64| ((amount as f64 / cap.max(1) as f64).min(2.0) * WHOLE) as i32;
        [share(amounts[0], self.max_tokens), share(amounts[1], self.max_extra)]
    }

    pub fn holds(&self, load: Load) -> bool {
        let tokens = if self.padded { load.samples.saturating_mul(load.longest) } else { load.tokens };
        let within = tokens <= self.max_tokens && load.extra <= self.max_extra && load.samples <= self.max_samples;
        load.samples <= 1 || within
    }

    /// No sample longer than this fits beside `load`; `None` when none does.
    pub fn longest_welcome(&self, load: Load) -> Option<u64> {
        if load.samples >= self.max_samples {
            return None;
        }
        if !self.padded {
            return self.max_tokens.checked_sub(load.tokens);
        }
        let longest = self.max_tokens / (load.samples + 1);
        (load.longest <= longest).then_some(longest)
    }

    /// No second amount above this fits beside `load`; `None` when none does.
    pub fn most_extra(&self, load: Load) -> Option<u64> {
        self.max_extra.checked_sub(load.extra)
    }

    pub fn with(&self, load: Load, sample: u32) -> Load {
        let length = self.length(sample);
        Load {
            samples: load.samples + 1,
            cost: load.cost + self.cost(sample),
            tokens: load.tokens + length,
            longest: load.longest.max(length),
            second: load.second.max(length.min(load.longest)),
            extra: load.extra + self.extra_of(sample),
        }
    }

    /// The load without one of its samples, and without the second longest of a padded one: enough to see what fits.
    pub fn without(&self, load: Load, sample: u32) -> Load {
        let length = self.length(sample);
        Load {
            samples: load.samples - 1,
            cost: load.cost - self.cost(sample),
            tokens: load.tokens - length,
            longest: if length == load.longest { load.second } else { load.longest },
            second: load.second,
            extra: load.extra - self.extra_of(sample),
        }
    }

    /// The load once a sample has left `rest` behind.
    pub fn left(&self, load: Load, sample: u32, rest: &[u32]) -> Load {
        if self.padded { self.of(rest) } else { self.without(load, sample) }
    }

    /// The load of these samples.
    pub fn of(&self, samples: &[u32]) -> Load {
        samples.iter().fold(Load::default(), |load, &sample| self.with(load, sample))
    }

    pub fn extra_of(&self, sample: u32) -> u64 {
        self.extra.get(sample as usize).copied().unwrap_or(0)
    }
}
