//! First fit: every sample goes to the lowest-numbered bin that still has room for it.
use crate::interrupt::pieces;
use crate::{Groups, Lengths, Result, memory};

/// Packs samples in the given order into bins of `max_tokens`; a sample longer than that gets a bin of its own.
///
/// # Returns
/// The bins in the order in which they were opened, samples ascending.
///
/// # Complexity
/// **O(n log b)** time for b bins: the first bin with room is found in a tree of maxima.
///
/// # Examples
/// ```
/// use flopbalance_core::{Lengths, first_fit};
///
/// let bins = first_fit(Lengths::new(&[11, 0, 1])?, 10)?;
/// assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0][..], &[1, 2]]);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn first_fit(lengths: Lengths<'_>, max_tokens: u64) -> Result<Groups> {
    memory::ensure(lengths.len(), PEAK)?;
    Ok(pack_first_fit(&lengths, i64::try_from(max_tokens).unwrap_or(i64::MAX)))
}

/// Bytes that are held of each sample at the peak, where each has a bin of its own.
const PEAK: usize = 48;

/// The same for lengths as [`Lengths`] checks them, and a cap of at least 0.
pub(crate) fn pack_first_fit(lengths: &[i64], max_tokens: i64) -> Groups {
    pack_until_closed(lengths, max_tokens, |_| false)
}

/// The same, where `closed` is told the bin of every sample and says whether it takes no other.
pub(crate) fn pack_until_closed(lengths: &[i64], max_tokens: i64, mut closed: impl FnMut(usize) -> bool) -> Groups {
    let mut rooms = Rooms::new([FULL]);
    let mut labels = Vec::with_capacity(lengths.len());
    for piece in pieces(lengths) {
        labels.extend(piece.iter().map(|&length| {
            let (bin, room) = match rooms.first(length) {
                Some(bin) => (bin, rooms.room(bin)),
                None => (rooms.open(), max_tokens),
            };
            rooms.set(bin, [if closed(bin) { FULL } else { (room - length).max(FULL) }]);
            bin as u32
        }));
    }
    Groups::from_labels(&labels, rooms.bins)
}

/// The room of a bin that is closed even to a sample of no tokens.
const FULL: i64 = -1;

/// The room of every bin, as one number or several, in a binary tree of maxima: `tree[leaves + bin]` is a bin's room,
/// `tree[i]` the larger of `tree[2 * i]` and `tree[2 * i + 1]`, number by number; leaves without a bin are full.
///
/// Wider nodes, compared in vector registers, took as long: what they save in levels they lose when the maximum of
/// a node is taken again.
pub(crate) struct Rooms<T, const N: usize> {
    tree: Vec<[T; N]>,
    full: [T; N],
    leaves: usize,
    bins: usize,
}

impl<T: Copy + Ord> Rooms<T, 1> {
    fn room(&self, bin: usize) -> T {
        self.tree[self.leaves + bin][0]
    }

    /// The first bin with room for `length`.
    fn first(&self, length: T) -> Option<usize> {
        if self.tree[1][0] < length {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.tree[node][0] < length);
        }
        Some(node - self.leaves)
    }
}

impl<T: Copy + Ord, const N: usize> Rooms<T, N> {
    /// No bin yet; `full` is the room of one that is closed.
    pub fn new(full: [T; N]) -> Self {
        Self { tree: vec![full; 2], full, leaves: 1, bins: 0 }
    }

    /// The first bin whose every number is as large as that of `needs`, and which has room indeed. A node may be as large
    /// and none of its bins: the search looks at `most` nodes, and then at the last bin only.
    pub fn first_of(&self, needs: &[T; N], most: usize, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let mut node = 1;
        for _ in 0..most {
            let large = self.tree[node].iter().zip(needs).all(|(room, need)| room >= need);
            if large && node < self.leaves {
                node *= 2;
                continue;
            }
            if large && has_room(node - self.leaves) {
                return Some(node - self.leaves);
            }
            // On to the subtree at the right, up from the last child of a node.
            node >>= node.trailing_ones();
            if node == 0 {
                return None;
            }
            node += 1;
        }
        self.bins.checked_sub(1).filter(|&last| has_room(last))
    }

    /// The number of a new bin, which is full until its room is set.
    pub fn open(&mut self) -> usize {
        if self.bins == self.leaves {
            self.grow();
        }
        self.bins += 1;
        self.bins - 1
    }

    pub fn set(&mut self, bin: usize, room: [T; N]) {
        let mut node = self.leaves + bin;
        self.tree[node] = room;
        while node > 1 {
            node /= 2;
            let mut largest = self.tree[2 * node];
            largest.iter_mut().zip(&self.tree[2 * node + 1]).for_each(|(one, &other)| *one = other.max(*one));
            if self.tree[node] == largest {
                break;
            }
            self.tree[node] = largest;
        }
    }

    /// Doubles the leaves: the old tree becomes the left half of the new one, level by level.
    fn grow(&mut self) {
        let mut grown = vec![self.full; 4 * self.leaves];
        grown[1] = self.tree[1];
        let mut width = 1;
        while width <= self.leaves {
            grown[2 * width..3 * width].copy_from_slice(&self.tree[width..2 * width]);
            width *= 2;
        }
        (self.tree, self.leaves) = (grown, 2 * self.leaves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_scanning(lengths: &[i64], max_tokens: i64) -> Vec<Vec<u32>> {
        let mut bins: Vec<(i64, Vec<u32>)> = Vec::new();
        for (item, &length) in (0..).zip(lengths) {
            match bins.iter_mut().find(|(sum, _)| sum + length <= max_tokens) {
                Some((sum, bin)) => {
                    *sum += length;
                    bin.push(item);
                }
                None => bins.push((length, vec![item])),
            }
        }
        bins.into_iter().map(|(_, bin)| bin).collect()
    }

    proptest! {
        #[test]
        fn equals_a_scan_of_all_bins(lengths in prop::collection::vec(0_i64..40, 0..900), max_tokens in 0_i64..60) {
            let bins = pack_first_fit(&lengths, max_tokens);
            let bins: Vec<Vec<u32>> = bins.iter().map(<[u32]>::to_vec).collect();
            prop_assert_eq!(bins, by_scanning(&lengths, max_tokens));
        }
    }

    #[test]
    fn a_sample_above_the_cap_is_alone() {
        let bins = pack_first_fit(&[11, 0, 1], 10);
        assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0][..], &[1, 2]]);
    }
}
