//! Splitting bins until there are as many as wanted.
use crate::interrupt::Work;
use crate::{Error, Groups, Lengths, Result, memory};
use std::collections::BinaryHeap;

/// Splits the bin of the largest token sum (at a tie, the last) until there are `target` bins or only
/// one-sample bins are left. Its samples, longest first, go one by one to the half of the smaller sum (at a
/// tie, the first); the first half replaces the bin, the second is appended.
///
/// # Complexity
/// **O(n log n)** time to order the samples and **O(m + log b)** for every split of a bin of m samples,
/// which deals the samples of a bin over two halves of nearly equal sum.
///
/// # Examples
/// ```
/// use flopbalance_core::{Groups, Lengths, split};
///
/// let mut bins = Groups::from_sizes(&[0, 1, 2, 3], &[4], 4)?;
/// split(&mut bins, 2, Lengths::new(&[1, 5, 4, 2])?)?;
/// assert_eq!(bins.iter().collect::<Vec<_>>(), [[1, 0], [2, 3]]);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn split(bins: &mut Groups, target: usize, lengths: Lengths<'_>) -> Result<()> {
    if let Some(&item) = bins.items.iter().find(|&&item| item as usize >= lengths.len()) {
        return Err(Error::NoItem { item: item.into(), bound: lengths.len() });
    }
    memory::ensure(bins.items.len(), PEAK)?;
    split_bins(bins, target, &lengths)
}

/// Bytes that are held of each sample at the peak, where each has a bin of its own.
const PEAK: usize = 48;

/// Empty bins beyond this many are a slip rather than a wish.
const MOST_EMPTY: usize = 1 << 24;

/// The same for bins of items that have lengths.
pub(crate) fn split_bins(bins: &mut Groups, target: usize, lengths: &[i64]) -> Result<()> {
    if bins.len() >= target {
        return Ok(());
    }
    let longest_first = |&a: &u32, &b: &u32| lengths[b as usize].cmp(&lengths[a as usize]);
    let sums = bins.sums(lengths);
    let divisible = sums.into_iter().enumerate().filter(|&(bin, _)| bins.ranges[bin].len() > 1);
    let mut divisible: BinaryHeap<(i64, usize)> = divisible.map(|(bin, sum)| (sum, bin)).collect();
    let mut second_half = Vec::new();
    let mut work = Work::default();
    while bins.len() < target {
        let Some((total, bin)) = divisible.pop() else { return Ok(()) };
        let range = bins.ranges[bin].clone();
        if total == 0 {
            // Samples of no tokens all stay in the first half, however often it is split.
            if target > MOST_EMPTY {
                return Err(Error::EmptyBins { target, most: MOST_EMPTY });
            }
            bins.ranges.resize(target, range.end..range.end);
            return Ok(());
        }
        let items = &mut bins.items[range.start as usize..range.end as usize];
        work.did(8 + items.len());
        items.sort_by(longest_first); // stable; halves are in order already
        let (mut first, mut second, mut kept) = (0, 0, 0);
        for i in 0..items.len() {
            let item = items[i];
            if first <= second {
                first += lengths[item as usize];
                items[kept] = item;
                kept += 1;
            } else {
                second += lengths[item as usize];
                second_half.push(item);
            }
        }
        items[kept..].copy_from_slice(&second_half);
        let middle = range.start + kept as u32;
        bins.ranges[bin] = range.start..middle;
        bins.ranges.push(middle..range.end);
        if kept > 1 {
            divisible.push((first, bin));
        }
        if second_half.len() > 1 {
            divisible.push((second, bins.len() - 1));
        }
        second_half.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_into(lengths: &[i64], target: usize) -> Vec<Vec<u32>> {
        let mut bins = Groups::from_labels(&vec![0; lengths.len()], 1);
        split_bins(&mut bins, target, lengths).unwrap();
        bins.iter().map(<[u32]>::to_vec).collect()
    }

    #[test]
    fn halves_take_turns_by_sum() {
        assert_eq!(split_into(&[1, 5, 4, 2], 2), [vec![1, 0], vec![2, 3]]);
        assert_eq!(split_into(&[3, 3, 3], 3), [vec![0], vec![1], vec![2]]);
        assert_eq!(split_into(&[3, 3, 3], 9).len(), 3);
    }

    #[test]
    fn samples_of_no_tokens_stay_together() {
        assert_eq!(split_into(&[0, 0], 4), [vec![0, 1], vec![], vec![], vec![]]);
        let mut bins = Groups::from_labels(&[0, 0], 1);
        let refused = split_bins(&mut bins, 1 << 40, &[0, 0]);
        assert_eq!(refused, Err(Error::EmptyBins { target: 1 << 40, most: 1 << 24 }));
        assert!(split_bins(&mut bins, 1 << 40, &[3, 0]).is_ok() && bins.len() == 2);
    }

    #[test]
    fn both_halves_are_split_again() {
        assert_eq!(split_into(&[8, 7, 6, 5], 4), [vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(split_into(&[4, 4, 4, 4, 4, 4, 4, 4], 8).concat().len(), 8);
    }

    #[test]
    fn a_bin_of_one_sample_is_left_alone() {
        let mut bins = Groups { items: vec![0, 1, 2], ranges: vec![0..1, 1..3] };
        split_bins(&mut bins, 3, &[100, 2, 1]).unwrap();
        assert_eq!(bins.iter().collect::<Vec<_>>(), [[0], [1], [2]]);
    }
}
