//! First fit for those who only pack: in an order, with a cap on samples, into as many bins as are wanted.
use crate::lengths::Lengths;
use crate::packing::first_fit::pack_until_closed;
use crate::packing::split_bins;
use crate::partition::sorted_by;
use crate::{Counts, Error, Groups, Result, memory};
use std::num::{NonZeroU64, NonZeroUsize};

/// How [`pack`] fills bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bins {
    /// Tokens in a bin of two samples or more.
    pub max_tokens: NonZeroU64,
    /// Samples in a bin; any number when `None`.
    pub max_samples: Option<NonZeroUsize>,
    /// Whether the longest samples come first, equal ones in the given order; else all come as given.
    pub longest_first: bool,
    /// How many bins there are.
    pub counts: Counts,
    /// Of what their number is a multiple.
    pub multiple: NonZeroUsize,
}

impl Bins {
    /// As few as first fit decreasing needs.
    #[must_use]
    pub fn new(max_tokens: NonZeroU64) -> Self {
        let (counts, multiple) = (Counts::default(), NonZeroUsize::MIN);
        Self { max_tokens, max_samples: None, longest_first: true, counts, multiple }
    }
}

/// Packs samples into bins, each into the first that has room, and splits the bin of the most tokens where more bins are
/// wanted. A sample longer than the cap gets a bin of its own.
///
/// # Returns
/// Bins in the order in which they were opened, samples ascending; none is empty.
///
/// # Complexity
/// **O(n log n)** time.
///
/// # Examples
/// ```
/// use flopbalance_core::{Bins, Lengths, pack};
/// use std::num::NonZeroU64;
///
/// let bins = pack(Lengths::new(&[3, 6, 5, 4])?, &Bins::new(NonZeroU64::new(10).unwrap()))?;
/// assert_eq!(bins.iter().collect::<Vec<_>>(), [[1, 3], [0, 2]]);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn pack(lengths: Lengths<'_>, how: &Bins) -> Result<Groups> {
    how.counts.check(how.multiple.get())?;
    memory::ensure(lengths.len(), PEAK)?;
    let given = 0..lengths.len() as u32;
    let order: Vec<u32> = if how.longest_first {
        sorted_by(&given.collect::<Vec<u32>>(), |sample| u64::MAX - lengths[sample as usize] as u64)
    } else {
        given.collect()
    };
    let ordered: Vec<i64> = order.iter().map(|&sample| lengths[sample as usize]).collect();
    let most = how.max_samples.map_or(usize::MAX, NonZeroUsize::get);
    let mut held: Vec<usize> = Vec::new();
    let closed = |bin: usize| {
        if most >= lengths.len() {
            return false;
        }
        held.resize(held.len().max(bin + 1), 0);
        held[bin] += 1;
        held[bin] == most
    };
    let mut bins = pack_until_closed(&ordered, i64::try_from(how.max_tokens.get()).unwrap_or(i64::MAX), closed);
    for item in &mut bins.items {
        *item = order[*item as usize];
    }
    let wanted = wanted(how, bins.len(), lengths.len())?;
    split_bins(&mut bins, wanted, &lengths)?;
    fill_empty(&mut bins);
    Ok(bins.ascending())
}

/// Bytes that are held of each sample at the peak, where each has a bin of its own.
const PEAK: usize = 96;

/// The number of bins, where the caps need `packed` of them.
fn wanted(how: &Bins, packed: usize, samples: usize) -> Result<usize> {
    let wanted = match how.counts.exactly.map(NonZeroUsize::get) {
        Some(count) if packed > count => return Err(Error::TooFewBins { exactly: count, packed }),
        Some(count) => count,
        None => {
            packed.max(how.counts.at_least.get()).checked_next_multiple_of(how.multiple.get()).unwrap_or(usize::MAX)
        }
    };
    if wanted > samples.max(1) {
        return Err(Error::TooManyBins { wanted, samples });
    }
    Ok(if samples == 0 { 0 } else { wanted })
}

/// Splitting leaves samples of no tokens together and bins empty behind them, last; these take one of them each.
fn fill_empty(bins: &mut Groups) {
    let mut giver = 0;
    for empty in 0..bins.len() {
        if bins.ranges[empty].is_empty() {
            while bins.ranges[giver].len() < 2 {
                giver += 1;
            }
            let end = bins.ranges[giver].end;
            bins.ranges[giver].end = end - 1;
            bins.ranges[empty] = end - 1..end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(lengths: &[i64], how: &Bins) -> Vec<Vec<u32>> {
        pack(Lengths::new(lengths).unwrap(), how).unwrap().iter().map(<[u32]>::to_vec).collect()
    }

    fn bins_of(max_tokens: u64) -> Bins {
        Bins::new(NonZeroU64::new(max_tokens).unwrap())
    }

    proptest! {
        #[test]
        fn bins_keep_both_caps_and_their_number(
            lengths in prop::collection::vec(0_i64..40, 1..120),
            (max_tokens, max_samples) in (1_u64..60, 1_usize..9),
            (at_least, multiple) in (1_usize..9, 1_usize..5),
            longest_first in any::<bool>(),
        ) {
            let mut how = bins_of(max_tokens);
            (how.max_samples, how.longest_first) = (NonZeroUsize::new(max_samples), longest_first);
            let few = packed(&lengths, &how);
            how.counts.at_least = NonZeroUsize::new(at_least).unwrap();
            how.multiple = NonZeroUsize::new(multiple).unwrap();
            let wanted = few.len().max(at_least).next_multiple_of(multiple);
            let Ok(bins) = pack(Lengths::new(&lengths).unwrap(), &how) else {
                prop_assert!(wanted > lengths.len());
                return Ok(());
            };
            prop_assert_eq!(bins.len(), wanted);
            let mut all = bins.iter().flatten().copied().collect::<Vec<_>>();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len() as u32).collect::<Vec<_>>());
            for bin in bins.iter() {
                let tokens: i64 = bin.iter().map(|&sample| lengths[sample as usize]).sum();
                prop_assert!(bin.len() == 1 || tokens <= max_tokens as i64);
                prop_assert!(!bin.is_empty() && bin.len() <= max_samples && bin.is_sorted());
            }
        }
    }

    #[test]
    fn bins_that_are_wanted_hold_samples_of_no_tokens_too() {
        let mut how = bins_of(10);
        how.counts.exactly = NonZeroUsize::new(4);
        assert_eq!(packed(&[0, 5, 0, 0, 0], &how), [vec![1], vec![0, 2], vec![4], vec![3]]);
        assert_eq!(packed(&[], &bins_of(10)), [[0; 0]; 0]);
    }

    #[test]
    fn impossible_numbers_of_bins_are_refused() {
        let refused = |exactly, at_least, multiple| {
            let mut how = bins_of(10);
            how.counts.exactly = NonZeroUsize::new(exactly);
            how.counts.at_least = NonZeroUsize::new(at_least).unwrap();
            how.multiple = NonZeroUsize::new(multiple).unwrap();
            pack(Lengths::new(&[9, 9, 9]).unwrap(), &how).unwrap_err()
        };
        assert_eq!(refused(2, 1, 1), Error::TooFewBins { exactly: 2, packed: 3 });
        assert_eq!(refused(4, 1, 1), Error::TooManyBins { wanted: 4, samples: 3 });
        assert_eq!(refused(0, 1, 2), Error::TooManyBins { wanted: 4, samples: 3 });
        assert_eq!(refused(0, 1, usize::MAX), Error::TooManyBins { wanted: usize::MAX, samples: 3 });
        assert_eq!(refused(3, 1, 2), Error::NoCount { exactly: 3, multiple: 2, at_least: 1 });
    }
}
