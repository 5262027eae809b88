//! What ranks that meet at every micro-batch cannot be spared within the cap.
//!
//! A row is one micro-batch of every rank, and takes as long as its costliest. Two things make rows of the same tokens
//! unequal, whatever the plan:
//!
//! - Samples longer than half the cap are in different micro-batches. Of the j costliest of them, k rows hold k · R at most,
//!   so that the k-th costliest row costs at least as much as the ((k − 1) R + 1)-th costliest of them.
//! - A micro-batch holds a cap of tokens, so that k rows hold no more than the k · R caps of the samples that cost most by the
//!   token. Where a costly sample makes a row high, the row cannot be filled up to it with cheaper ones.
//!
//! So for every k the k costliest rows take at least as long as their samples of the first kind do, and the other rows must
//! hold whatever cost the k cannot.
use crate::interrupt::Work;
use crate::{Error, Layout, Result, memory};
use std::cmp::Ordering;
use std::num::NonZeroU64;

/// The time of each step of a schedule that no other within the cap beats, whatever the number of its rows.
///
/// # Arguments
/// - `layout`: which samples are in which step.
/// - `tokens`, `costs`: of every sample, none negative.
/// - `max_tokens`: the cap on the tokens of two samples or more.
///
/// # Complexity
/// **O(n log n)** time for n samples.
///
/// # Examples
/// ```
/// use flopbalance_core::{Layout, row_bounds};
/// use std::num::{NonZeroU64, NonZeroUsize};
///
/// // Of four samples that no two fit together, two ranks run the costliest first: 9 and 5, where the mean rank has 12.
/// let layout = Layout::new(&[0, 2, 1, 3], &[0, 1, 2, 3, 4], &[2], NonZeroUsize::new(2).unwrap())?;
/// let bounds = row_bounds(&layout, &[6; 4], &[9.0, 7.0, 5.0, 3.0], NonZeroU64::new(10).unwrap())?;
/// assert!((bounds[0] - 14.0).abs() < 1e-6);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn row_bounds(layout: &Layout<'_>, tokens: &[i64], costs: &[f64], max_tokens: NonZeroU64) -> Result<Vec<f64>> {
    let bound = tokens.len().min(costs.len());
    let mut bounds = Vec::new();
    for samples in layout.steps() {
        memory::ensure(samples.len(), PEAK)?;
        if let Some(&sample) = samples.iter().find(|&&sample| usize::try_from(sample).map_or(true, |s| s >= bound)) {
            return Err(Error::NoItem { item: sample, bound });
        }
        let of_step = |sample: &i64| (tokens[*sample as usize], costs[*sample as usize]);
        let (tokens, costs): (Vec<i64>, Vec<f64>) = samples.iter().map(of_step).unzip();
        bounds.push(least_row_time(&tokens, &costs, max_tokens.get(), layout.dp_size));
    }
    Ok(bounds)
}

/// Bytes that are held of each sample of a step.
const PEAK: usize = 48;

/// No plan within the cap is shorter for ranks that meet at every micro-batch.
///
/// Sums are rounded down by more than they can be off by.
///
/// **O(n log n)** time for n samples.
fn least_row_time(tokens: &[i64], costs: &[f64], max_tokens: u64, ranks: usize) -> f64 {
    let mut work = Work::default();
    let mut descending = |samples: &mut Vec<usize>, key: &dyn Fn(usize) -> f64| {
        samples.sort_by(|&one, &other| {
            work.did(STEPS);
            key(other).partial_cmp(&key(one)).unwrap_or(Ordering::Equal)
        });
    };
    let cap = max_tokens as f64;
    // One above the cap has a micro-batch of its own, and so takes a whole cap.
    let share = |sample: usize| (tokens[sample] as f64 / cap).min(1.0);
    let mut long: Vec<usize> = (0..tokens.len()).filter(|&sample| tokens[sample] as u64 > max_tokens / 2).collect();
    descending(&mut long, &|sample| costs[sample]);
    let heights: Vec<f64> = long.iter().step_by(ranks).map(|&sample| costs[sample]).collect();
    let mut densest: Vec<usize> = (0..tokens.len()).collect();
    descending(&mut densest, &|sample| costs[sample] / share(sample).max(f64::MIN_POSITIVE));

    let total: f64 = costs.iter().fold(0.0, |sum, cost| sum + cost);
    let all: f64 = heights.iter().fold(0.0, |sum, height| sum + height);
    let mut least = (total / ranks as f64).max(all);
    let (mut held, mut room, mut next) = (0.0, 0.0, densest.iter().peekable());
    let mut below = 0.0;
    for height in &heights {
        below += height;
        room += ranks as f64;
        // What is cut at the edge of the room counts whole: more is held, and the bound no higher.
        while let Some(&&sample) = next.peek().filter(|_| room > 0.0) {
            room -= share(sample);
            held += costs[sample];
            next.next();
        }
        least = least.max(below + (all - below).max((total - held) / ranks as f64));
    }
    if least.is_finite() { least * (1.0 - ROUNDED) } else { 0.0 }
}

/// More than sums of floats are off by, as a share.
const ROUNDED: f64 = 1e-9;

/// Steps of [`Work`] in a comparison.
const STEPS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The shortest plan of all: every sample goes into every micro-batch that it may, of up to so many rows.
    fn shortest(tokens: &[i64], costs: &[f64], cap: i64, ranks: usize) -> f64 {
        fn place(next: usize, batches: &mut Vec<(i64, f64, usize)>, given: (&[i64], &[f64], i64, usize)) -> f64 {
            let (tokens, costs, cap, ranks) = given;
            if next == tokens.len() {
                let mut peaks: Vec<f64> = batches.iter().map(|batch| batch.1).collect();
                peaks.sort_by(|one, other| other.total_cmp(one));
                return peaks.iter().step_by(ranks).sum();
            }
            let mut best = f64::INFINITY;
            for i in 0..batches.len() {
                let before = batches[i];
                if before.0 + tokens[next] <= cap {
                    batches[i] = (before.0 + tokens[next], before.1 + costs[next], before.2 + 1);
                    best = best.min(place(next + 1, batches, given));
                    batches[i] = before;
                }
            }
            batches.push((tokens[next], costs[next], 1));
            best = best.min(place(next + 1, batches, given));
            batches.pop();
            best
        }
        place(0, &mut vec![], (tokens, costs, cap, ranks))
    }

    #[test]
    fn a_giant_leaves_the_others_of_its_row_short() {
        // One sample of the cap costs 100; a cap of the others costs 10, and there are three caps of them.
        let tokens = [10, 5, 5, 5, 5, 5, 5];
        let costs = [100.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0];
        // Two ranks: the row of the giant holds 10 beside it, the other row the 20 that are left.
        let least = least_row_time(&tokens, &costs, 10, 2);
        assert!((least - 110.0).abs() < 1e-6, "{least}");
        assert!((shortest(&tokens, &costs, 10, 2) - 110.0).abs() < 1e-6);
    }

    #[test]
    fn long_samples_are_in_rows_of_their_own() {
        let least = least_row_time(&[6, 6, 6, 6, 6], &[9.0, 7.0, 5.0, 3.0, 1.0], 10, 2);
        assert!((least - 15.0).abs() < 1e-6, "9 + 5 + 1, got {least}");
    }

    proptest! {
        #[test]
        fn no_plan_is_shorter(
            given in proptest::collection::vec((0_i64..12, 0_u8..30), 1..7),
            cap in 1_i64..16, ranks in 1_usize..4,
        ) {
            let (tokens, costs): (Vec<i64>, Vec<u8>) = given.into_iter().unzip();
            let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
            let least = least_row_time(&tokens, &costs, cap as u64, ranks);
            prop_assert!(least <= shortest(&tokens, &costs, cap, ranks), "{least}");
        }
    }
}
