//! Tokens per sample, checked once.
use crate::{Error, Result};
use std::ops::Deref;

/// Non-negative token counts of fewer than 2^32 - 1 samples, whose total fits 63 bits: no sum of them can wrap.
#[derive(Clone, Copy, Debug)]
pub struct Lengths<'a>(&'a [i64]);

impl<'a> Lengths<'a> {
    /// Checks `lengths`. Computes in **O(n)** time.
    pub fn new(lengths: &'a [i64]) -> Result<Self> {
        if lengths.len() >= u32::MAX as usize {
            return Err(Error::TooMany { argument: "lengths", count: lengths.len() });
        }
        // One pass without a branch; the sample at fault is looked for only when there is one.
        let (any, total) =
            lengths.iter().fold((0, 0_i128), |(any, total), &length| (any | length, total + i128::from(length)));
        if any < 0 {
            let index = lengths.iter().position(|&length| length < 0).unwrap_or_default();
            return Err(Error::NegativeLength { index, length: lengths[index] });
        }
        if i64::try_from(total).is_err() {
            return Err(Error::TotalLength { total });
        }
        Ok(Self(lengths))
    }

    /// The tokens of every sample.
    #[must_use]
    pub fn values(self) -> &'a [i64] {
        self.0
    }
}

impl Deref for Lengths<'_> {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        self.0
    }
}
