//! First fit: every sample goes to the lowest-numbered bin that still has room for it.
use crate::groups::Groups;

/// Packs samples in the given order into bins of `max_tokens`; a sample longer than that gets a bin of its own.
///
/// # Arguments
/// - `lengths`: non-negative token counts, as in [`Lengths`](crate::Lengths).
/// - `max_tokens`: the cap, at least 0.
///
/// # Returns
/// The bins in the order in which they were opened, samples ascending.
///
/// # Complexity
/// **O(n log b)** time for b bins: the first bin with room is found in a tree of maxima.
#[must_use]
pub fn first_fit(lengths: &[i64], max_tokens: i64) -> Groups {
    let mut rooms = Rooms::new();
    let labels: Vec<u32> = lengths
        .iter()
        .map(|&length| match rooms.first(length) {
            Some(bin) => rooms.set(bin, rooms.levels[0][bin] - length),
            None => rooms.open((max_tokens - length).max(FULL)),
        })
        .collect();
    Groups::from_labels(&labels, rooms.bins)
}

/// The room of a bin that is closed even to a sample of no tokens.
const FULL: i64 = -1;

/// Children of a node: one cache line or two, scanned without a branch.
const FAN_OUT: usize = 16;

/// The room of every bin, under a tree of maxima: `levels[l + 1][i]` is the largest of the `FAN_OUT` values
/// of `levels[l]` from `FAN_OUT * i` on; the last level is the root's children. Unused places are full.
struct Rooms {
    levels: Vec<Vec<i64>>,
    bins: usize,
}

impl Rooms {
    fn new() -> Self {
        Self { levels: vec![vec![FULL; FAN_OUT]], bins: 0 }
    }

    /// The first bin with room for `length`.
    fn first(&self, length: i64) -> Option<usize> {
        self.levels.iter().rev().try_fold(0, |node, level| {
            let start = node * FAN_OUT;
            level[start..start + FAN_OUT].iter().position(|&room| room >= length).map(|child| start + child)
        })
    }

    fn open(&mut self, room: i64) -> u32 {
        let bin = self.bins;
        self.bins += 1;
        let mut node = bin;
        for level in 0.. {
            let children = &mut self.levels[level];
            if node < children.len() {
                break;
            }
            children.resize(children.len() + FAN_OUT, FULL);
            if level + 1 == self.levels.len() {
                // The root had one node's children and gets a second: it moves up.
                let mut top = vec![FULL; FAN_OUT];
                top[0] = self.levels[level].iter().copied().fold(FULL, i64::max);
                self.levels.push(top);
            }
            node /= FAN_OUT;
        }
        self.set(bin, room)
    }

    fn set(&mut self, bin: usize, room: i64) -> u32 {
        let (mut node, mut value) = (bin, room);
        for level in 0..self.levels.len() {
            let before = std::mem::replace(&mut self.levels[level][node], value);
            if before == value {
                break;
            }
            let start = node / FAN_OUT * FAN_OUT;
            value = self.levels[level][start..start + FAN_OUT].iter().copied().fold(FULL, i64::max);
            node /= FAN_OUT;
        }
        bin as u32
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
            let bins = first_fit(&lengths, max_tokens);
            let bins: Vec<Vec<u32>> = bins.iter().map(<[u32]>::to_vec).collect();
            prop_assert_eq!(bins, by_scanning(&lengths, max_tokens));
        }
    }

    #[test]
    fn a_sample_above_the_cap_is_alone() {
        let bins = first_fit(&[11, 0, 1], 10);
        assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0][..], &[1, 2]]);
    }
}
