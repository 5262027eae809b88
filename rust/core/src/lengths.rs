//! Tokens per sample, checked once.
use crate::{Error, Result};
use std::ops::Deref;

/// Non-negative token counts of fewer than 2^32 samples, whose total fits 63 bits: no sum of them can wrap.
#[derive(Clone, Copy, Debug)]
pub struct Lengths<'a>(&'a [i64]);

impl<'a> Lengths<'a> {
    /// Checks `lengths`. Computes in **O(n)** time.
    pub fn new(lengths: &'a [i64]) -> Result<Self> {
        if lengths.len() >= u32::MAX as usize {
            return Err(Error::Value(format!("lengths must hold fewer than 2^32 - 1 samples, got {}", lengths.len())));
        }
        // One pass without a branch; the sample at fault is looked for only when there is one.
        let (any, total) =
            lengths.iter().fold((0, 0_i128), |(any, total), &length| (any | length, total + i128::from(length)));
        if any < 0 {
            let i = lengths.iter().position(|&length| length < 0).unwrap_or_default();
            return Err(Error::Value(format!("lengths[{i}] must be >= 0, got {}", lengths[i])));
        }
        if i64::try_from(total).is_err() {
            return Err(Error::Value(format!("the sum of lengths must be below 2^63, got {total}")));
        }
        Ok(Self(lengths))
    }
}

impl Deref for Lengths<'_> {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        self.0
    }
}
