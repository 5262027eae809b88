//! What samples need of a micro-batch, padded as they will be; and which samples fit none.
use crate::plan::request::{ExtraBudget, OnOversize, Packing, Request};
use crate::steps::{Steps, gather};
use crate::{Error, Lengths, Result};
use std::borrow::Cow;

/// Needs of samples and the caps that they meet, rounded.
pub(crate) struct Limits<'a> {
    /// Tokens of every sample, as they count against the cap.
    pub tokens: Cow<'a, [i64]>,
    /// The cap, rounded down so that a micro-batch keeps it when its tokens are rounded up.
    pub max_tokens: i64,
    /// A second amount of every sample, and its cap.
    pub extra: Option<(Cow<'a, [i64]>, i64)>,
}

impl<'a> Limits<'a> {
    /// Checks and rounds; samples above a cap are refused where the request says so.
    pub fn new(lengths: Lengths<'a>, request: &Request<'a>) -> Result<Self> {
        let Some(cap) = request.packing.cap() else {
            return Ok(Self { tokens: Cow::Borrowed(lengths.values()), max_tokens: i64::MAX, extra: None });
        };
        let max_tokens = cap.max_tokens.get();
        let of_batch = cap.pad_to.micro_batch.get();
        if max_tokens < of_batch {
            return Err(Error::CapBelowPadding { max_tokens, pad_to: of_batch });
        }
        let extra = match request.packing {
            Packing::Capped(_, capped) => capped.extra_budget.map(|extra| checked(extra, lengths.len())).transpose()?,
            _ => None,
        };
        let limits = Self {
            tokens: padded(lengths, cap.pad_to.sample.get())?,
            max_tokens: i64::try_from(max_tokens - max_tokens % of_batch).unwrap_or(i64::MAX),
            extra,
        };
        if cap.on_oversize == OnOversize::Error {
            limits.refuse_oversize()?;
        }
        Ok(limits)
    }

    /// The steps without samples above a cap where the request drops these.
    pub fn keep(&self, steps: Steps, request: &Request<'_>) -> Result<Steps> {
        let Some(cap) = request.packing.cap() else { return Ok(steps) };
        let steps = match cap.on_oversize {
            OnOversize::Drop => steps.without(|sample| self.oversize(sample as usize).is_some()),
            _ => steps,
        };
        if steps.ranges.is_empty() {
            return Err(Error::AllOversize { samples: steps.dropped.len() });
        }
        if cap.pad_to.sample.get() > 1 {
            Lengths::new(&gather(&self.tokens, &steps.samples))?; // the sum may no longer fit 63 bits
        }
        Ok(steps)
    }

    fn refuse_oversize(&self) -> Result<()> {
        let samples = self.tokens.len();
        let mut oversize = (0..samples).filter_map(|index| Some((index, self.oversize(index)?)));
        match oversize.next() {
            None => Ok(()),
            Some((index, (amounts, amount, cap))) => {
                Err(Error::Oversize { amounts, index, amount, cap, oversize: 1 + oversize.count(), samples })
            }
        }
    }

    /// The first cap that a sample exceeds by itself: the amounts' name, the sample's and the cap.
    fn oversize(&self, sample: usize) -> Option<(&'static str, i64, u64)> {
        let above = |name, amounts: &[i64], cap: i64| {
            (amounts[sample] > cap).then(|| (name, amounts[sample], cap.unsigned_abs()))
        };
        above("lengths", &self.tokens, self.max_tokens)
            .or_else(|| self.extra.as_ref().and_then(|(amounts, cap)| above("extra_budget.amounts", amounts, *cap)))
    }
}

/// Lengths rounded up to a multiple.
fn padded(lengths: Lengths<'_>, multiple: u64) -> Result<Cow<'_, [i64]>> {
    let values = lengths.values();
    if multiple == 1 {
        return Ok(Cow::Borrowed(values));
    }
    let round_up = |&length: &i64| {
        let padded = length.unsigned_abs().checked_next_multiple_of(multiple);
        padded.and_then(|padded| i64::try_from(padded).ok())
    };
    let padded: Option<Vec<i64>> = values.iter().map(round_up).collect();
    let longest = values.iter().max().copied().unwrap_or(0);
    let padded = padded.ok_or(Error::PaddedLength { length: longest, pad_to: multiple })?;
    Ok(padded.into())
}

/// A second amount and its cap, one amount for each sample and with a sum that no bookkeeping wraps.
fn checked(extra: ExtraBudget<'_>, samples: usize) -> Result<(Cow<'_, [i64]>, i64)> {
    let ExtraBudget { amounts, cap } = extra;
    if amounts.len() != samples {
        return Err(Error::Count { argument: "extra_budget.amounts", samples, count: amounts.len() });
    }
    if let Some(index) = amounts.iter().position(|&amount| amount < 0) {
        return Err(Error::NegativeAmount { index, amount: amounts[index] });
    }
    if amounts.iter().map(|&amount| i128::from(amount)).sum::<i128>() >= 1 << 62 {
        return Err(Error::TotalAmount);
    }
    Ok((Cow::Borrowed(amounts), i64::try_from(cap).unwrap_or(i64::MAX)))
}
