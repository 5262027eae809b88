//! Groups of items (parts, bins, micro-batches) as ranges of one flat array.
use crate::{Error, Result};
use std::ops::Range;

/// Disjoint groups of item indices. Group `g` holds `items[ranges[g]]`; ranges need not stand in order,
/// so that a group can be split in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Item indices, group by group.
    pub items: Vec<u32>,
    /// Where each group lies in `items`.
    pub ranges: Vec<Range<u32>>,
}

impl Groups {
    /// Groups of ascending indices from every item's group number. Computes in **O(n + groups)** time.
    #[must_use]
    pub fn from_labels(labels: &[u32], groups: usize) -> Self {
        let mut ranges = vec![0..0; groups];
        for &label in labels {
            ranges[label as usize].end += 1;
        }
        let mut next = 0;
        for range in &mut ranges {
            let size = range.end;
            *range = next..next;
            next += size;
        }
        let mut items = vec![0; labels.len()];
        for (item, &label) in (0..).zip(labels) {
            let end = &mut ranges[label as usize].end;
            items[*end as usize] = item;
            *end += 1;
        }
        Self { items, ranges }
    }

    /// Groups from indices below `bound` and the sizes of the groups; `name` is the argument's, for the refusal.
    pub fn from_sizes(name: &str, items: &[i64], sizes: &[i64], bound: usize) -> Result<Self> {
        let read = |&item: &i64| {
            u32::try_from(item).ok().filter(|&item| (item as usize) < bound).ok_or_else(|| {
                Error::Value(format!("{name} must hold indices of samples, >= 0 and < {bound}, got {item}"))
            })
        };
        let items = items.iter().map(read).collect::<Result<Vec<u32>>>()?;
        let mut next = 0;
        let ranges = sizes.iter().map(|&size| {
            let start = next;
            next += size as u32;
            start..next
        });
        Ok(Self { ranges: ranges.collect(), items })
    }

    /// Consecutive runs of `size` items; the last may be shorter.
    #[must_use]
    pub fn runs(items: usize, size: usize) -> Self {
        let ranges = (0..items).step_by(size).map(|start| start as u32..(start + size).min(items) as u32).collect();
        Self { items: (0..items as u32).collect(), ranges }
    }

    /// The same groups, the items of each ascending. Computes in **O(n + groups)** time.
    #[must_use]
    pub fn ascending(&self) -> Self {
        let mut labels = vec![0; self.items.len()];
        for (label, items) in (0..).zip(self.iter()) {
            for &item in items {
                labels[item as usize] = label;
            }
        }
        Self::from_labels(&labels, self.len())
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

    /// The items of one group.
    #[must_use]
    pub fn get(&self, group: usize) -> &[u32] {
        let Range { start, end } = self.ranges[group];
        &self.items[start as usize..end as usize]
    }

    /// The items in the order of the groups, and where each group ends, after a leading 0.
    #[must_use]
    pub fn flat(&self) -> (Vec<i64>, Vec<i64>) {
        let mut items = Vec::with_capacity(self.items.len());
        let mut offsets = Vec::with_capacity(self.len() + 1);
        offsets.push(0);
        for group in self.iter() {
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
