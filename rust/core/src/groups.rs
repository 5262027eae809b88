//! Groups of items (parts, bins, micro-batches) as ranges of one flat array.
use crate::interrupt::{Work, pieces};
use crate::{Error, Result, memory};
use std::num::NonZeroUsize;
use std::ops::{Add, Range};

/// Disjoint groups of item indices, in an order of their own.
///
/// # Examples
/// ```
/// use flopbalance_core::Groups;
///
/// let groups = Groups::from_sizes(&[4, 0, 2], &[2, 1], 5).unwrap();
/// assert_eq!(groups.iter().collect::<Vec<_>>(), [&[4, 0][..], &[2]]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Item indices; group `g` holds `items[ranges[g]]`.
    pub(crate) items: Vec<u32>,
    /// Ranges need not stand in order, so that a group can be split in place.
    pub(crate) ranges: Vec<Range<u32>>,
}

impl Groups {
    /// Groups of ascending indices from every item's group number, which is below `groups`. Computes in
    /// **O(n + groups)** time.
    pub(crate) fn from_labels(labels: &[u32], groups: usize) -> Self {
        let mut sizes = vec![0..0; groups];
        for piece in pieces(labels) {
            for &label in piece {
                sizes[label as usize].end += 1;
            }
        }
        Self::from_labels_and_sizes(labels, sizes)
    }

    /// The same, where the sizes of the groups are known: that of ranges from 0 on.
    pub(crate) fn from_labels_and_sizes(labels: &[u32], mut ranges: Vec<Range<u32>>) -> Self {
        let mut next = 0;
        for range in &mut ranges {
            let size = range.end;
            *range = next..next;
            next += size;
        }
        let mut items = vec![0; labels.len()];
        let mut item = 0;
        for piece in pieces(labels) {
            for &label in piece {
                let end = &mut ranges[label as usize].end;
                items[*end as usize] = item;
                *end += 1;
                item += 1;
            }
        }
        Self { items, ranges }
    }

    /// Adds a group behind the others.
    pub(crate) fn push(&mut self, items: impl IntoIterator<Item = u32>) {
        let start = self.items.len() as u32;
        self.items.extend(items);
        self.ranges.push(start..self.items.len() as u32);
    }

    /// The number of the group of every item below `bound`; that of an item in none is `len()`.
    pub(crate) fn labels(&self, bound: usize) -> Vec<u32> {
        let mut labels = vec![self.len() as u32; bound];
        let mut work = Work::default();
        for (label, items) in (0..).zip(self.iter()) {
            work.did(items.len());
            for &item in items {
                labels[item as usize] = label;
            }
        }
        labels
    }

    /// Groups from indices below `bound`, each once at most, and the sizes of the groups.
    ///
    /// Computes in **O(n + bound)** time.
    pub fn from_sizes(items: &[i64], sizes: &[i64], bound: usize) -> Result<Self> {
        let bound = bound.min(u32::MAX as usize);
        memory::ensure(bound, 1)?;
        memory::ensure(items.len().saturating_add(sizes.len()), 12)?;
        let mut seen = vec![false; bound];
        let read = |&item: &i64| {
            let index = usize::try_from(item).ok().filter(|&index| index < bound);
            let index = index.ok_or(Error::NoItem { item, bound })?;
            if std::mem::replace(&mut seen[index], true) {
                return Err(Error::RepeatedItem { item: index as u32 });
            }
            Ok(index as u32)
        };
        let items = items.iter().map(read).collect::<Result<Vec<u32>>>()?;
        let mut next = 0_usize;
        let ranges = sizes.iter().map(|&size| {
            let start = next;
            next = start.checked_add(usize::try_from(size).ok()?).filter(|&end| end <= items.len())?;
            Some(start as u32..next as u32)
        });
        let ranges = ranges.collect::<Option<Vec<_>>>();
        match ranges.filter(|_| next == items.len()) {
            Some(ranges) => Ok(Self { items, ranges }),
            None => Err(Error::GroupSizes { items: items.len() }),
        }
    }

    /// Consecutive runs of `size` items; the last may be shorter.
    pub(crate) fn runs(items: usize, size: NonZeroUsize) -> Self {
        let ends = (0..items).step_by(size.get()).map(|start| (start, start.saturating_add(size.get()).min(items)));
        let ranges = ends.map(|(start, end)| start as u32..end as u32).collect();
        Self { items: (0..items as u32).collect(), ranges }
    }

    /// The same groups, the items of each ascending. Computes in **O(n + groups)** time where the groups hold every
    /// item from 0 on, as parts do.
    #[must_use]
    pub fn ascending(mut self) -> Self {
        let bound = self.items.iter().max().map_or(0, |&item| item as usize + 1);
        if bound != self.items.len() {
            for range in &self.ranges {
                self.items[range.start as usize..range.end as usize].sort_unstable();
            }
            return self;
        }
        Self::from_labels(&self.labels(bound), self.len())
    }

    /// The sum of each group's values, of which every item has one, where it is the same in every order.
    ///
    /// Values are read in a row: groups have their items anywhere, and every look would be a miss.
    pub(crate) fn sums<T: Copy + Default + Add<Output = T>>(&self, values: &[T]) -> Vec<T> {
        let labels = self.labels(values.len());
        let mut sums = vec![T::default(); self.len()];
        let mut work = Work::default();
        for (&value, &label) in values.iter().zip(&labels) {
            work.did(1);
            if let Some(sum) = sums.get_mut(label as usize) {
                *sum = *sum + value;
            }
        }
        sums
    }

    /// The number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The items of one group, which there must be.
    pub(crate) fn get(&self, group: usize) -> &[u32] {
        let Range { start, end } = self.ranges[group];
        &self.items[start as usize..end as usize]
    }

    /// The items in the order of the groups, and where each group ends, after a leading 0.
    #[must_use]
    pub fn flat(&self) -> (Vec<i64>, Vec<i64>) {
        let mut items = Vec::with_capacity(self.items.len());
        let mut offsets = Vec::with_capacity(self.len() + 1);
        offsets.push(0);
        let mut work = Work::default();
        for group in self.iter() {
            work.did(1 + group.len());
            items.extend(group.iter().map(|&item| i64::from(item)));
            offsets.push(items.len() as i64);
        }
        (items, offsets)
    }

    /// The items of every group, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        (0..self.len()).map(|group| self.get(group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_from_sizes_are_checked() {
        let refused = |items: &[i64], sizes: &[i64]| Groups::from_sizes(items, sizes, 3).unwrap_err();
        assert!(Groups::from_sizes(&[2, 0], &[0, 1, 1], 3).is_ok());
        assert_eq!(refused(&[0, 3], &[2]), Error::NoItem { item: 3, bound: 3 });
        assert_eq!(refused(&[-1], &[1]), Error::NoItem { item: -1, bound: 3 });
        assert_eq!(refused(&[1 << 32], &[1]), Error::NoItem { item: 1 << 32, bound: 3 });
        assert_eq!(refused(&[2, 2], &[2]), Error::RepeatedItem { item: 2 });
        for sizes in [&[1][..], &[3], &[-1, 3], &[3, -1], &[i64::MAX, 3], &[]] {
            assert_eq!(refused(&[0, 1], sizes), Error::GroupSizes { items: 2 });
        }
    }

    #[test]
    fn items_ascend_within_their_groups() {
        let ascending = |items: &[i64], bound| Groups::from_sizes(items, &[2, 1], bound).unwrap().ascending().flat().0;
        assert_eq!(ascending(&[2, 0, 1], 3), [0, 2, 1]);
        assert_eq!(ascending(&[7, 3, 5], 9), [3, 7, 5]);
    }

    #[test]
    fn runs_end_with_what_is_left() {
        let runs = |items, size| Groups::runs(items, NonZeroUsize::new(size).unwrap());
        assert_eq!(runs(5, 2).ranges, [0..2, 2..4, 4..5]);
        assert_eq!(runs(4, usize::MAX).ranges, [Range { start: 0, end: 4 }]);
        assert!(runs(0, 3).is_empty());
    }
}
