//! The numbers that are balanced: read once, checked once, exact wherever they can be.
use crate::{Error, Result, memory};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{Add, Sub};

/// A non-negative number with a total order, as the partitioner needs it.
///
/// Sums never wrap: whoever makes a slice of weights proves that its total fits the type.
pub(crate) trait Weight:
    Copy + Default + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Send + Sync
{
    /// Whether a sum is the same in every order, so that sets can be joined by adding their sums.
    const EXACT: bool;
    /// A weight and what settles its ties, in one number that compares as the pair does.
    type Tied: Copy + Default + Ord + Send + Sync;
    fn tied(self, tie: u64) -> Self::Tied;
    fn untied(pair: Self::Tied) -> (Self, u64);
    /// An integer in the same order, for radix sorting; `None` where 64 bits do not hold it.
    fn radix_key(self) -> Option<u64>;
    fn of_radix_key(key: u64) -> Self;
    /// The sum, or the largest number where that does not fit.
    #[must_use]
    fn saturating_plus(self, other: Self) -> Self;
    /// The largest number is below 2^`MOST_BITS`, and no smaller power of two.
    const MOST_BITS: i32;
    /// The smallest e with `total < 2^e`.
    fn bits(total: Self) -> i32;
    /// The nearest float.
    fn rounded(self) -> f64;
    /// The whole part of the weight times 2^`scale`, which is below 2^62; integers are scaled down only.
    fn scaled(self, scale: i32) -> u64;
    /// The weight times 2^`by`, which fits; integers lose the bits below one.
    #[must_use]
    fn shifted(self, by: i32) -> Self;
    /// The total order; checked weights are never NaN.
    fn order(self, other: Self) -> Ordering {
        self.partial_cmp(&other).unwrap_or(Ordering::Equal)
    }
}

impl Weight for u64 {
    const EXACT: bool = true;
    const MOST_BITS: i32 = 64;
    type Tied = u128;
    fn tied(self, tie: u64) -> u128 {
        u128::from(self) << 64 | u128::from(tie)
    }
    fn untied(pair: u128) -> (Self, u64) {
        ((pair >> 64) as u64, pair as u64)
    }
    fn radix_key(self) -> Option<u64> {
        Some(self)
    }
    fn of_radix_key(key: u64) -> Self {
        key
    }
    fn saturating_plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn bits(total: Self) -> i32 {
        (Self::BITS - total.leading_zeros()) as i32
    }
    fn rounded(self) -> f64 {
        self as f64
    }
    fn scaled(self, scale: i32) -> u64 {
        self.checked_shr((-scale).max(0) as u32).unwrap_or(0)
    }
    fn shifted(self, by: i32) -> Self {
        let (up, down) = (by.max(0) as u32, (-by).max(0) as u32);
        self.checked_shl(up).and_then(|up| up.checked_shr(down)).unwrap_or(0)
    }
}

impl Weight for u128 {
    const EXACT: bool = true;
    const MOST_BITS: i32 = 128;
    type Tied = (u128, u64);
    fn tied(self, tie: u64) -> (u128, u64) {
        (self, tie)
    }
    fn untied(pair: (u128, u64)) -> (Self, u64) {
        pair
    }
    fn radix_key(self) -> Option<u64> {
        u64::try_from(self).ok()
    }
    fn of_radix_key(key: u64) -> Self {
        key.into()
    }
    fn saturating_plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
    fn bits(total: Self) -> i32 {
        (Self::BITS - total.leading_zeros()) as i32
    }
    fn rounded(self) -> f64 {
        self as f64
    }
    fn scaled(self, scale: i32) -> u64 {
        self.checked_shr((-scale).max(0) as u32).unwrap_or(0) as u64
    }
    fn shifted(self, by: i32) -> Self {
        let (up, down) = (by.max(0) as u32, (-by).max(0) as u32);
        self.checked_shl(up).and_then(|up| up.checked_shr(down)).unwrap_or(0)
    }
}

impl Weight for f64 {
    const EXACT: bool = false;
    const MOST_BITS: i32 = 1024;
    type Tied = u128;
    fn tied(self, tie: u64) -> u128 {
        self.to_bits().tied(tie) // non-negative floats and their bits have one order
    }
    fn untied(pair: u128) -> (Self, u64) {
        let (bits, tie) = u64::untied(pair);
        (Self::from_bits(bits), tie)
    }
    fn radix_key(self) -> Option<u64> {
        Some(self.to_bits())
    }
    fn of_radix_key(key: u64) -> Self {
        Self::from_bits(key)
    }
    fn saturating_plus(self, other: Self) -> Self {
        (self + other).min(Self::MAX)
    }
    fn bits(total: Self) -> i32 {
        exponent_above(total)
    }
    fn rounded(self) -> f64 {
        self
    }
    fn scaled(self, scale: i32) -> u64 {
        (self * 2_f64.powi(scale)) as u64
    }
    fn shifted(self, by: i32) -> Self {
        times_power_of_two(self, by)
    }
}

/// A weight as `whole * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub whole: u128,
    pub exponent: i32,
}

/// Checked weights: non-negative, and exact wherever they can be.
///
/// # Examples
/// ```
/// use flopbalance_core::Weights;
///
/// assert_eq!(Weights::from_f64(&[0.5, 1.25][..])?.len(), 2);
/// assert!(Weights::from_f64(&[f64::NAN][..]).is_err());
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Weights<'a> {
    pub(crate) values: Values<'a>,
    /// One of the values is 2^exponent of what was given.
    pub(crate) exponent: i32,
}

/// Weights in the narrowest type in which no sum can wrap.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values<'a> {
    /// Integers, or floats whose every sum is exact, scaled by a power of two; total below 2^64.
    U64(Cow<'a, [u64]>),
    /// Integers whose total needs up to 128 bits.
    U128(Cow<'a, [u128]>),
    /// Floats whose sums round, so that the order of addition is part of the answer.
    F64(Cow<'a, [f64]>),
}

impl<'a> From<Values<'a>> for Weights<'a> {
    fn from(values: Values<'a>) -> Self {
        Self { values, exponent: 0 }
    }
}

impl<'a> Weights<'a> {
    /// Reads unsigned integers. Computes in **O(n)** time, as all of these do.
    #[must_use]
    pub fn from_u64(values: impl Into<Cow<'a, [u64]>>) -> Self {
        let values = values.into();
        if values.iter().try_fold(0, |sum: u64, &value| sum.checked_add(value)).is_some() {
            Values::U64(values).into()
        } else {
            // 2^32 items of 64 bits: at most 96 bits.
            Values::U128(values.iter().map(|&value| value.into()).collect()).into()
        }
    }

    /// Reads integers of up to 128 bits, whose total must not need more.
    pub fn from_u128(values: impl Into<Cow<'a, [u128]>>) -> Result<Self> {
        let values = values.into();
        let total = values.iter().try_fold(0, |sum: u128, &value| sum.checked_add(value));
        let total = total.ok_or(Error::TotalWeight)?;
        Ok(if u64::try_from(total).is_ok() {
            Values::U64(values.iter().map(|&value| value as u64).collect()).into()
        } else {
            Values::U128(values).into()
        })
    }

    /// Reads floats, which must be finite, non-negative and of a finite sum.
    pub fn from_f64(values: impl Into<Cow<'a, [f64]>>) -> Result<Self> {
        let values = values.into();
        memory::ensure(values.len(), size_of::<u64>())?;
        Self::check_f64(&values)?;
        if let Some((integers, exponent)) = scaled_to_integers(&values) {
            return Ok(Self { values: Values::U64(integers.into()), exponent });
        }
        // -0.0 is 0.0, but its bits are not.
        let negative_zero = values.iter().any(|value| value.is_sign_negative());
        let positive = || values.iter().map(|value| value.abs()).collect();
        Ok(Values::F64(if negative_zero { positive() } else { values }).into())
    }

    /// Refuses what [`Weights::from_f64`] does, and reads nothing.
    pub fn check_f64(values: &[f64]) -> Result<()> {
        let mut total = 0.0;
        for (index, &weight) in values.iter().enumerate() {
            if !weight.is_finite() {
                return Err(Error::WeightNotFinite { index, weight });
            }
            if weight < 0.0 {
                return Err(Error::NegativeWeight { index, weight });
            }
            total += weight;
        }
        // Fewer than 2^32 roundings of 2^-53 move the total, in whatever order it is taken, by less than this.
        if !(total * 1.000_001).is_finite() {
            return Err(Error::TotalWeightNotFinite { total });
        }
        Ok(())
    }

    /// The number of weights.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.values {
            Values::U64(values) => values.len(),
            Values::U128(values) => values.len(),
            Values::F64(values) => values.len(),
        }
    }

    /// Whether there is no weight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every weight as a whole number times 2^`exponent`; `None` of floats whose sums round.
    pub(crate) fn whole(&self) -> Option<Vec<u128>> {
        match &self.values {
            Values::U64(values) => Some(values.iter().map(|&value| value.into()).collect()),
            Values::U128(values) => Some(values.to_vec()),
            Values::F64(_) => None,
        }
    }

    /// Every weight as the nearest float.
    pub(crate) fn floats(&self) -> Cow<'_, [f64]> {
        let scaled = |value: f64| times_power_of_two(value, self.exponent);
        match &self.values {
            Values::U64(values) => values.iter().map(|&value| scaled(value as f64)).collect(),
            Values::U128(values) => values.iter().map(|&value| scaled(value as f64)).collect(),
            Values::F64(values) => Cow::Borrowed(values),
        }
    }

    /// Every weight exactly, floats by their odd whole part.
    pub(crate) fn parts(&self) -> Vec<Parts> {
        let scaled = |whole| Parts { whole, exponent: self.exponent };
        let odd = |&value: &f64| {
            let (mantissa, exponent) = decode(value);
            let zeros = mantissa.trailing_zeros() % u64::BITS;
            Parts { whole: (mantissa >> zeros).into(), exponent: exponent + zeros as i32 }
        };
        match &self.values {
            Values::U64(values) => values.iter().map(|&value| scaled(value.into())).collect(),
            Values::U128(values) => values.iter().copied().map(scaled).collect(),
            Values::F64(values) => values.iter().map(odd).collect(),
        }
    }
}

/// A non-negative float times 2^`exponent`, or the largest there is.
pub(crate) fn times_power_of_two(value: f64, exponent: i32) -> f64 {
    power_of_two_times(value, exponent).min(f64::MAX)
}

/// The same, infinite beyond the largest float.
pub(crate) fn power_of_two_times(value: f64, exponent: i32) -> f64 {
    // In two halves, since a power that is out of range may still bring the value into it.
    let half = exponent / 2;
    value * 2_f64.powi(half) * 2_f64.powi(exponent - half)
}

/// The floats as multiples of one power of two, and its exponent, if their total stays within 53 bits of it: then
/// every sum and difference of them is exact, and integers give the same order and ties.
fn scaled_to_integers(values: &[f64]) -> Option<(Vec<u64>, i32)> {
    let mut unit = i32::MAX; // exponent of the smallest set bit of all
    for &value in values {
        if value != 0.0 {
            let (mantissa, exponent) = decode(value);
            unit = unit.min(exponent + mantissa.trailing_zeros() as i32);
        }
    }
    let mut total: u64 = 0;
    let integers: Option<Vec<u64>> = values
        .iter()
        .map(|&value| {
            if value == 0.0 {
                return Some(0);
            }
            let (mantissa, exponent) = decode(value);
            let shift = exponent - unit;
            let scaled = if shift <= 0 {
                mantissa >> -shift
            } else if shift <= 11 {
                mantissa << shift
            } else {
                return None;
            };
            total = scaled.saturating_add(total);
            (total <= 1 << f64::MANTISSA_DIGITS).then_some(scaled)
        })
        .collect();
    Some((integers?, if unit == i32::MAX { 0 } else { unit }))
}

/// Weights as whole numbers in proportion, and the power of two by which they were multiplied.
///
/// Their total times 2^`doublings`, plus what takes `more` bits in units of the weights, stays below 2^62. Integers are
/// unchanged where they allow that; floats are enlarged as far as 62 bits hold them. `S` is what they are added up in.
pub(crate) fn whole<W: Weight, S: Weight + From<W>>(
    weights: &[W],
    doublings: i32,
    more: Option<i32>,
) -> (Vec<u64>, i32) {
    let total = weights.iter().fold(S::default(), |sum, &weight| sum.saturating_plus(weight.into()));
    let mut bits = S::bits(total) + doublings;
    if S::bits(total) == S::MOST_BITS {
        // The sum may have stopped at the largest number; no sum of so many is above this.
        let largest = weights.iter().fold(W::default(), |most, &weight| if weight > most { weight } else { most });
        bits = W::bits(largest) + exponent_above(weights.len() as f64) + doublings;
    }
    let scale = (62 - more.map_or(bits, |more| bits.max(more) + 1)).min(if W::EXACT { 0 } else { 1000 });
    (weights.iter().map(|weight| weight.scaled(scale)).collect(), scale)
}

/// The smallest e with `value < 2^e`, of a non-negative finite float that is not subnormal.
pub(crate) fn exponent_above(value: f64) -> i32 {
    (value.to_bits() >> 52) as i32 - 1022
}

/// `value = mantissa * 2^exponent` for a non-negative finite float.
fn decode(value: f64) -> (u64, i32) {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits();
    let fraction = bits & ((1 << FRACTION) - 1);
    match (bits >> FRACTION & 0x7ff) as i32 {
        0 => (fraction, -1074),
        biased => (fraction | 1 << FRACTION, biased - 1075),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_become_integers_exactly_when_no_sum_can_round() {
        fn read(values: &[f64]) -> Weights<'_> {
            Weights::from_f64(values).unwrap()
        }
        let scaled = |integers: &[u64], exponent| Weights { values: Values::U64(integers.to_vec().into()), exponent };
        assert_eq!(read(&[0.5, 1.25, -0.0]), scaled(&[2, 5, 0], -2));
        assert_eq!(read(&[5e-324, 1e-323]), scaled(&[1, 2], -1074));
        assert_eq!(read(&[0.0, 0.0]), scaled(&[0, 0], 0));
        assert_eq!(read(&[9e15, 0.0]), scaled(&[274_658_203_125, 0], 15));
        let floats = |values: &[f64]| Weights::from(Values::F64(values.to_vec().into()));
        let inexact = [9_007_199_254_740_991.0, 1.0, 1.0];
        assert_eq!(read(&inexact), floats(&inexact));
        assert_eq!(read(&[-0.0, 0.1, 1e300]), floats(&[0.0, 0.1, 1e300]));
        let Values::F64(values) = read(&[-0.0, 0.1, 1e300]).values else { panic!("sums of these round") };
        assert!(values[0].is_sign_positive());
        assert_eq!(read(&[0.1, 1e300]), floats(&[0.1, 1e300]));
    }

    #[test]
    fn integers_widen_only_when_their_sum_does() {
        let narrow = |values: &[u64]| Weights::from(Values::U64(values.to_vec().into()));
        assert_eq!(Weights::from_u64(vec![u64::MAX, 0]), narrow(&[u64::MAX, 0]));
        let wide = Weights::from(Values::U128(vec![u64::MAX.into(), 1].into()));
        assert_eq!(Weights::from_u64(vec![u64::MAX, 1]), wide);
        assert_eq!(Weights::from_u128(vec![u64::MAX.into(), 1]).unwrap(), wide);
        assert_eq!(Weights::from_u128(vec![7, 8]).unwrap(), narrow(&[7, 8]));
    }

    #[test]
    fn whole_numbers_keep_proportions_below_the_limit() {
        fn whole_of<W: Weight>(weights: &[W], doublings: i32, more: Option<i32>) -> (Vec<u64>, i32) {
            whole::<W, W>(weights, doublings, more)
        }
        assert_eq!(whole_of(&[3_u64, 5], 0, None), (vec![3, 5], 0));
        assert_eq!(whole_of(&[(1_u64 << 62) - 2, 1], 0, None), (vec![(1 << 62) - 2, 1], 0));
        assert_eq!(whole_of(&[1_u64 << 62, 1 << 61, 3], 0, None), (vec![1 << 61, 1 << 60, 1], -1));
        assert_eq!(whole_of(&[1_u64 << 60], 4, None), (vec![1 << 57], -3));
        assert_eq!(whole_of(&[1_u64 << 60], 0, Some(63)), (vec![1 << 58], -2));
        assert_eq!(whole_of(&[1_u128 << 100, 1 << 99], 0, None), (vec![1 << 61, 1 << 60], -39));
        // Sums beyond the type, as repeated samples may have them.
        let (halves, scale) = whole_of(&[u128::MAX; 4], 0, None);
        assert_eq!((halves, scale), (vec![(1 << 59) - 1; 4], -69));
        assert!(whole_of(&[f64::MAX; 100], 0, None).0.iter().sum::<u64>() < 1 << 62);
        // Integers of 64 bits are added up in 128.
        assert_eq!(whole::<u64, u128>(&[u64::MAX; 4], 0, None), (vec![(1 << 60) - 1; 4], -4));
        for values in [[1.5, 0.5, 0.1], [1e-310, 0.0, 5e-324], [1e300, 1e299, 1.0], [0.0; 3]] {
            let (whole, _) = whole_of(&values, 2, None);
            assert!(whole.iter().map(|&value| u128::from(value)).sum::<u128>() * 4 < 1 << 62);
            assert!(whole.is_sorted_by_key(|&value| u64::MAX - value) || values[2] > values[1]);
        }
    }

    #[test]
    fn weights_times_powers_of_two() {
        assert_eq!([3_u64.shifted(2), 13_u64.shifted(-2), 3_u64.shifted(-64)], [12, 3, 0]);
        assert_eq!([3_u128.shifted(100), 13_u128.shifted(-2), 0_u128.shifted(300)], [3 << 100, 3, 0]);
        assert_eq!([3_f64.shifted(2), 13_f64.shifted(-2)].map(f64::to_bits), [12.0, 3.25].map(f64::to_bits));
    }

    #[test]
    fn powers_of_two_out_of_range_bring_values_into_it() {
        let close = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-12;
        assert!(close(times_power_of_two(1e-300, 1990), 1e-300 * 2_f64.powi(1000) * 2_f64.powi(990)));
        assert!(close(times_power_of_two(1e300, -1990), 1e300 * 2_f64.powi(-1000) * 2_f64.powi(-990)));
        assert!(close(times_power_of_two(1e300, 1000), f64::MAX));
        assert!(close(times_power_of_two(3.0, -3), 0.375));
    }

    #[test]
    fn bad_numbers_are_refused_by_name_and_value() {
        let text = |result: Result<Weights<'_>>| result.unwrap_err().to_string();
        assert_eq!(text(Weights::from_f64(&[f64::NAN][..])), "weights[0] must be finite, got NaN");
        assert_eq!(text(Weights::from_f64(&[1.0, -1.5][..])), "weights[1] must be >= 0, got -1.5");
        let total = text(Weights::from_f64(&[f64::MAX, f64::MAX][..]));
        assert_eq!(total, "the sum of weights must be finite in every order, got inf");
        let total = text(Weights::from_u128(vec![u128::MAX, 1]));
        assert_eq!(total, "the sum of weights must be below 2^128, got more");
    }
}
