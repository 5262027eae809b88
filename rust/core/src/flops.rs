//! FLOPs of a forward pass as an exact function of a sequence's length.
//!
//! Whatever the architecture, a sequence of `L` tokens costs
//!
//! ```text
//! per_token L + per_square L² + per_pair pairs(L) + Σ_W per_pair_W pairs_W(L)
//! pairs(L)   = L (L + 1) / 2                     every token attends to itself and all before it
//! pairs_W(L) = pairs(L) - pairs(max(L - W, 0))   ... but to no more than W keys
//! ```
//!
//! so a model is a handful of integers, a [`CostCurve`].
use crate::interrupt::Work;
use crate::{Error, Result, memory};

/// Cost of a sequence as a function of its length; all coefficients are FLOPs.
///
/// Kept as twice the cost, which has no halves in it: `linear L + quadratic L² - Σ_W per_pair_W x (x + 1)`,
/// `x = max(L - W, 0)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostCurve {
    linear: u128,
    quadratic: u128,
    /// `(window, cost per pair)`.
    windows: Vec<(u64, u64)>,
}

impl CostCurve {
    /// A curve from its coefficients; `windows` holds `(window, cost per pair)`.
    #[must_use]
    pub fn new(per_token: u64, per_square: u64, per_pair: u64, windows: Vec<(u64, u64)>) -> Self {
        let pairs = windows.iter().map(|&(_, cost)| u128::from(cost)).sum::<u128>() + u128::from(per_pair);
        Self { linear: 2 * u128::from(per_token) + pairs, quadratic: 2 * u128::from(per_square) + pairs, windows }
    }

    /// Exact cost of one sequence, or `None` beyond 128 bits.
    #[must_use]
    pub fn flops(&self, length: u64) -> Option<u128> {
        let length = u128::from(length);
        let full = self.linear.checked_add(self.quadratic.checked_mul(length)?)?.checked_mul(length)?;
        // Each term below is part of `full`, so none of them overflows.
        let unseen = self.windows.iter().map(|&(window, cost)| {
            let past = length.saturating_sub(u128::from(window));
            u128::from(cost) * past * (past + 1)
        });
        Some((full - unseen.sum::<u128>()) / 2)
    }

    /// Exact cost of each sequence.
    ///
    /// Computes in **O(n)** time. Refuses a negative length and a cost beyond 63 bits, by index.
    pub fn flops_each(&self, lengths: &[i64]) -> Result<Vec<i64>> {
        memory::ensure(lengths.len(), size_of::<i64>())?;
        if let Some(costs) = self.fast(lengths) {
            return Ok(costs);
        }
        self.careful(lengths, |cost| i64::try_from(cost).ok())
    }

    /// Cost of each sequence, the exact integer rounded to the nearest float.
    ///
    /// Computes in **O(n)** time. Refuses a negative length and a cost beyond 128 bits, by index.
    pub fn flops_rounded(&self, lengths: &[i64]) -> Result<Vec<f64>> {
        memory::ensure(lengths.len(), 2 * size_of::<f64>())?;
        if let Some(costs) = self.fast(lengths) {
            return Ok(costs.into_iter().map(|cost| cost as f64).collect());
        }
        self.careful(lengths, |cost| Some(cost as f64))
    }

    /// All costs in 64-bit arithmetic, if every length is non-negative and every cost fits in 63 bits for certain.
    ///
    /// Twice a cost then fits in 64 bits, so it is right modulo 2^64 whatever wraps on the way. The bitwise or of all
    /// lengths bounds the longest, is negative when one is, and takes one pass that vectorises. Between two windows the
    /// cost is a polynomial: choosing it by comparison takes half the time of a loop over the windows.
    fn fast(&self, lengths: &[i64]) -> Option<Vec<i64>> {
        let bound = lengths.iter().fold(0, |bits, &length| bits | length);
        i64::try_from(self.flops(u64::try_from(bound).ok()?)?).ok()?;
        let mut piece = [0, self.linear as u64, self.quadratic as u64];
        let mut pieces = vec![piece];
        let mut ends = Vec::new();
        let mut windows = self.windows.clone();
        windows.sort_unstable();
        for (window, cost) in windows {
            // Past the window: less cost x (x + 1), x = L - window.
            piece[0] = piece[0].wrapping_sub(cost.wrapping_mul(window.wrapping_mul(window.wrapping_sub(1))));
            piece[1] = piece[1].wrapping_sub(cost.wrapping_mul(1u64.wrapping_sub(window.wrapping_mul(2))));
            piece[2] = piece[2].wrapping_sub(cost);
            pieces.push(piece);
            ends.push(window);
        }
        Some(match (&pieces[..], &ends[..]) {
            (&[only], _) => polynomials(lengths, |_| only),
            (&[within, past], &[end]) => polynomials(lengths, |length| if length > end { past } else { within }),
            _ => polynomials(lengths, |length| pieces[ends.iter().filter(|&&end| length > end).count()]),
        })
    }

    /// All costs in 128-bit arithmetic; refuses what `convert` does not hold.
    fn careful<T>(&self, lengths: &[i64], convert: impl Fn(u128) -> Option<T>) -> Result<Vec<T>> {
        let mut work = Work::default();
        let one = |(index, &length)| {
            work.did(4);
            let cost = self.flops(non_negative(index, length)?);
            cost.and_then(&convert).ok_or(Error::CostOverflow { index, length })
        };
        lengths.iter().enumerate().map(one).collect()
    }
}

/// Half the value of each length's own polynomial.
fn polynomials(lengths: &[i64], of: impl Fn(u64) -> [u64; 3]) -> Vec<i64> {
    let one = |length: u64| {
        let [constant, linear, quadratic] = of(length);
        let doubled = quadratic.wrapping_mul(length).wrapping_add(linear).wrapping_mul(length).wrapping_add(constant);
        (doubled / 2) as i64
    };
    lengths.iter().map(|&length| one(length as u64)).collect()
}

/// Tokens and causal pairs summed over the sequences: what multiplies each coefficient of a curve.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moments {
    /// ΣL.
    pub tokens: u128,
    /// Σ pairs(L), attention in full.
    pub pairs: u128,
    /// Σ `pairs_W(L)` for each window asked for.
    pub window_pairs: Vec<u128>,
}

/// Sums over all sequences, from which a total of any size follows exactly.
///
/// Computes in **O(n)** time per window.
pub fn moments(lengths: &[i64], windows: &[u64]) -> Result<Moments> {
    memory::ensure(lengths.len(), size_of::<u64>())?;
    let lengths = lengths.iter().enumerate().map(|(index, &length)| non_negative(index, length));
    let lengths = lengths.collect::<Result<Vec<_>>>()?;
    let sum = |term: &dyn Fn(u128) -> u128| {
        let mut work = Work::default();
        let add = |sum: u128, &length: &u64| {
            work.did(4);
            sum.checked_add(term(u128::from(length)))
        };
        lengths.iter().try_fold(0, add).ok_or(Error::PairsOverflow)
    };
    let pairs = |length: u128| length * (length + 1) / 2;
    Ok(Moments {
        tokens: sum(&|length| length)?,
        pairs: sum(&pairs)?,
        window_pairs: windows
            .iter()
            .map(|&window| sum(&|length| pairs(length) - pairs(length.saturating_sub(u128::from(window)))))
            .collect::<Result<_>>()?,
    })
}

fn non_negative(index: usize, length: i64) -> Result<u64> {
    u64::try_from(length).map_err(|_| Error::NegativeLength { index, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Token by token: token i meets min(i, window) keys.
    fn counted(per_token: u64, per_pair: u64, windows: &[(u64, u64)], length: u64) -> u128 {
        (1..=length)
            .map(|i| {
                let windowed = windows.iter().map(|&(window, cost)| cost * i.min(window)).sum::<u64>();
                u128::from(per_token + per_pair * i + windowed)
            })
            .sum()
    }

    proptest! {
        #[test]
        fn curve_equals_a_count_token_by_token(
            per_token in 0..1u64 << 40,
            per_pair in 0..1u64 << 30,
            windows in prop::collection::vec((1..300u64, 0..1u64 << 30), 0..3),
            length in 0..500u64,
        ) {
            let want = counted(per_token, per_pair, &windows, length);
            let curve = CostCurve::new(per_token, 0, per_pair, windows);
            prop_assert_eq!(curve.flops(length), Some(want));
            prop_assert_eq!(curve.flops_each(&[length.cast_signed()]).unwrap(), [i64::try_from(want).unwrap()]);
        }

        #[test]
        fn fast_path_equals_128_bit_arithmetic(
            coefficients in prop::array::uniform3(0..1u64 << 45),
            windows in prop::collection::vec((1..1u64 << 20, 0..1u64 << 45), 0..3),
            lengths in prop::collection::vec(0..1i64 << 24, 0..20),
        ) {
            let [per_token, per_square, per_pair] = coefficients;
            let curve = CostCurve::new(per_token, per_square, per_pair, windows);
            let want = lengths.iter().map(|&length| curve.flops(length.cast_unsigned()).unwrap());
            match curve.flops_each(&lengths) {
                Ok(got) => prop_assert!(got.into_iter().map(|cost| u128::try_from(cost).unwrap()).eq(want)),
                Err(error) => {
                    let too_big = want.clone().position(|cost| i64::try_from(cost).is_err()).unwrap();
                    let start = format!("lengths[{too_big}] = ");
                    prop_assert!(error.to_string().starts_with(&start));
                }
            }
        }

        #[test]
        fn moments_give_the_same_total(
            lengths in prop::collection::vec(0..1i64 << 20, 0..20),
            windows in prop::collection::vec((1..1u64 << 16, 0..1u64 << 20), 0..3),
        ) {
            let curve = CostCurve::new(7, 0, 5, windows.clone());
            let sums = moments(&lengths, &windows.iter().map(|&(window, _)| window).collect::<Vec<_>>()).unwrap();
            let windowed = windows.iter().zip(&sums.window_pairs).map(|(&(_, cost), sum)| u128::from(cost) * sum);
            prop_assert_eq!(
                7 * sums.tokens + 5 * sums.pairs + windowed.sum::<u128>(),
                lengths.iter().map(|&length| curve.flops(length.cast_unsigned()).unwrap()).sum::<u128>()
            );
        }
    }

    #[test]
    fn a_cost_just_below_2_to_the_63_is_exact_and_just_above_is_refused() {
        let curve = CostCurve::new(i64::MAX.cast_unsigned(), 0, 0, Vec::new());
        assert_eq!(curve.flops_each(&[1]), Ok(vec![i64::MAX]));
        let curve = CostCurve::new(1 << 63, 0, 0, Vec::new());
        assert_eq!(curve.flops_each(&[0, 1]), Err(Error::CostOverflow { index: 1, length: 1 }));
        assert_eq!(curve.flops_rounded(&[1]), Ok(vec![2f64.powi(63)]));
    }

    #[test]
    fn extreme_lengths_are_refused_not_wrapped() {
        let curve = CostCurve::new(u64::MAX, u64::MAX, u64::MAX, vec![(1, u64::MAX); 4]);
        assert_eq!(curve.flops(u64::MAX), None);
        assert!(matches!(curve.flops_rounded(&[i64::MAX]), Err(Error::CostOverflow { .. })));
        assert_eq!(moments(&[i64::MAX; 2], &[1]).unwrap().pairs, (1 << 63) * (u128::MAX >> 65));
    }

    #[test]
    fn a_negative_length_is_refused_by_index() {
        let refused = Error::NegativeLength { index: 1, length: -5 };
        let curve = CostCurve::new(1, 0, 1, Vec::new());
        assert_eq!(curve.flops_each(&[3, -5]), Err(refused.clone()));
        assert_eq!(curve.flops_rounded(&[3, -5]), Err(refused.clone()));
        assert_eq!(moments(&[3, -5], &[]), Err(refused));
    }

    #[test]
    fn squares_are_those_of_the_length() {
        assert_eq!(CostCurve::new(3, 5, 0, Vec::new()).flops_rounded(&[0, 1, 10]), Ok(vec![0.0, 8.0, 530.0]));
    }
}
