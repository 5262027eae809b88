//! Partitioning weights into parts of nearly equal sum.
mod differencing;
mod lightest;
mod refined;
mod set;
mod sort;

use crate::weights::{Values, Weight, Weights};
use crate::{Error, Groups, Result, memory};
pub(crate) use differencing::partition;
pub(crate) use refined::refined;
pub(crate) use sort::sorted_by;
use std::num::NonZeroUsize;

/// How many items every part holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartSizes {
    /// As it comes out.
    #[default]
    Free,
    /// As many in every part, whose number must divide that of the items.
    Equal,
    /// Numbers that differ by at most one.
    Bounded,
    /// As many in every part, with sums that are never less even than those of [`PartSizes::Equal`] or of a greedy method,
    /// and that no exchange of two items evens.
    Refined,
}

/// The order of the items of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemOrder {
    /// That in which they were joined; refined parts are ascending.
    #[default]
    Joined,
    /// By index, which takes less time.
    Ascending,
}

/// Partitions weights into `parts` sets of nearly equal sum, heaviest set first.
///
/// # Arguments
/// - `weights`: what is to be balanced.
/// - `parts`: the number of sets, at most the number of weights.
/// - `sizes`: how many items every set holds.
/// - `order`: that of the items of a set.
///
/// # Returns
/// The sets in descending order of (sum, item count, first item in joined order).
///
/// # Complexity
/// **O(n log n)** time in all modes and **O(n)** space, for integers of any size. Float weights whose sums
/// round are added item by item, which costs the length of the joined set at every merge.
///
/// # Examples
/// ```
/// use flopbalance_core::{ItemOrder, PartSizes, Weights, karmarkar_karp};
/// use std::num::NonZeroUsize;
///
/// let (weights, two) = (Weights::from_u64(vec![8, 7, 6, 5, 4]), NonZeroUsize::new(2).unwrap());
/// let parts = karmarkar_karp(&weights, two, PartSizes::Free, ItemOrder::Joined)?;
/// assert_eq!(parts.iter().collect::<Vec<_>>(), [&[4, 1, 3][..], &[0, 2]]);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn karmarkar_karp(
    weights: &Weights<'_>,
    parts: NonZeroUsize,
    sizes: PartSizes,
    order: ItemOrder,
) -> Result<Groups> {
    let (n, k) = (weights.len(), parts.get());
    if n >= u32::MAX as usize {
        return Err(Error::TooMany { argument: "weights", count: n });
    }
    if n == 0 {
        return Err(Error::NoWeights);
    }
    if k > n {
        return Err(Error::TooManyParts { parts: k, weights: n });
    }
    if matches!(sizes, PartSizes::Equal | PartSizes::Refined) && n % k != 0 {
        return Err(Error::UnevenParts { parts: k, weights: n });
    }
    memory::ensure(n, if sizes == PartSizes::Refined { REFINED_PEAK } else { PEAK })?;
    Ok(match &weights.values {
        Values::U64(weights) => partition_into(weights, k, sizes, order),
        Values::U128(weights) => partition_into(weights, k, sizes, order),
        Values::F64(weights) => partition_into(weights, k, sizes, order),
    })
}

/// Bytes that are held of each weight at the peak, the answer included.
const PEAK: usize = 72;
const REFINED_PEAK: usize = 160;

fn partition_into<W: Weight>(weights: &[W], k: usize, sizes: PartSizes, order: ItemOrder) -> Groups {
    match sizes {
        PartSizes::Free => partition(weights, k, false, order),
        PartSizes::Equal => partition(weights, k, true, order),
        PartSizes::Bounded => bounded(weights, k, order),
        PartSizes::Refined => refined(weights, k),
    }
}

/// Fills up with items of no weight, which are taken out of the equal-sized parts again.
///
/// They are the lightest, so the first run of k items holds them all and no part gets two.
fn bounded<W: Weight>(weights: &[W], k: usize, order: ItemOrder) -> Groups {
    let missing = weights.len().next_multiple_of(k) - weights.len();
    if missing == 0 {
        return partition(weights, k, true, order);
    }
    let filled: Vec<W> = std::iter::repeat_n(W::default(), missing).chain(weights.iter().copied()).collect();
    let parts = partition(&filled, k, true, order);
    let mut groups = Groups::default();
    for part in parts.iter() {
        groups.push(part.iter().filter_map(|&item| item.checked_sub(missing as u32)));
    }
    groups
}
