//! First fit: every sample goes to the lowest-numbered bin that still has room for it.
use crate::interrupt::pieces;
use crate::{Groups, Lengths, Result, memory};

/// Packs samples in the given order into bins of `max_tokens`; a sample longer than that gets a bin of its own.
///
/// # Returns
/// The bins in the order in which they were opened, samples ascending.
///
/// # Complexity
/// **O(n log b)** time for b bins; most bins are found in constant time.
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
    let mut bins = Bins::new(max_tokens);
    let mut labels = Vec::with_capacity(lengths.len());
    for piece in pieces(lengths) {
        labels.extend(piece.iter().map(|&length| {
            let bin = bins.place(length);
            if closed(bin) {
                bins.set_room(bin / BLOCK, bin % BLOCK, FULL);
            }
            bin as u32
        }));
    }
    Groups::from_labels(&labels, bins.count)
}

/// The room of a bin that is closed even to a sample of no tokens.
const FULL: i64 = -1;

/// Bins whose rooms are looked at together.
const BLOCK: usize = 8;
/// Blocks that share a maximum, such maxima that share one, and so on.
const FAN: usize = 16;
/// Lengths of one class are equal in so many bits behind the first.
const CLASS_BITS: u32 = 6;

/// The rooms of bins, which only shrink: so the first block with room for a class of lengths only moves on, and for every
/// class the search begins where the last one of it did.
struct Bins {
    max_tokens: i64,
    count: usize,
    /// Rooms; the last block is filled up with full bins.
    blocks: Vec<[i64; BLOCK]>,
    /// The largest room of every block, as soon as there are two; above it that of every [`FAN`] of these, and so on. Those
    /// above may be too large: they are taken again once they have misled a search.
    maxima: Vec<Vec<i64>>,
    /// For every class of lengths so far, a block before which there is no room for its shortest length.
    hints: Vec<u32>,
}

impl Bins {
    fn new(max_tokens: i64) -> Self {
        Self { max_tokens, count: 0, blocks: Vec::new(), maxima: Vec::new(), hints: Vec::new() }
    }

    /// Puts a sample into the first bin with room for it, or into a new one, and returns which.
    fn place(&mut self, length: i64) -> usize {
        if length > self.max_tokens {
            return self.open(FULL);
        }
        let first = match &self.blocks[..] {
            [] => None,
            [rooms] => rooms.iter().position(|&room| room >= length).map(|place| (0, place)),
            _ => self.first_block(length).map(|block| (block, first_with_room(&self.blocks[block], length))),
        };
        let Some((block, place)) = first else {
            return self.open(self.max_tokens - length);
        };
        self.set_room(block, place, self.blocks[block][place] - length);
        block * BLOCK + place
    }

    fn set_room(&mut self, block: usize, place: usize, room: i64) {
        let several = self.blocks.len() > 1;
        let rooms = &mut self.blocks[block];
        let before = std::mem::replace(&mut rooms[place], room);
        if several && before == self.maxima[0][block] {
            self.maxima[0][block] = largest(rooms);
        }
    }

    fn first_block(&mut self, length: i64) -> Option<usize> {
        let (class, shortest) = class(length);
        if class >= self.hints.len() {
            self.hints.resize(class + 1, 0);
        }
        let largest = &self.maxima[0];
        let mut block = self.hints[class] as usize;
        while block < largest.len() && largest[block] < shortest {
            block += 1;
        }
        // The next bin to be opened may have room.
        self.hints[class] = block.min(self.count / BLOCK) as u32;
        let near = largest.len().min(block + FAN);
        while block < near && largest[block] < length {
            block += 1;
        }
        if block < near {
            return Some(block);
        }
        if block < largest.len() { self.first_block_from(block, length) } else { None }
    }

    /// The first block with room from one on, found by the maxima above.
    #[cold]
    #[inline(never)]
    fn first_block_from(&mut self, block: usize, length: i64) -> Option<usize> {
        let (mut level, mut node) = (0, block);
        while level < self.maxima.len() {
            let maxima = &self.maxima[level];
            let end = maxima.len().min((node + 1).next_multiple_of(FAN));
            match (node..end).find(|&node| maxima[node] >= length) {
                Some(block) if level == 0 => return Some(block),
                Some(parent) => (level, node) = (level - 1, parent * FAN),
                None => {
                    if node % FAN == 0 && node < end && level + 1 < self.maxima.len() {
                        self.maxima[level + 1][node / FAN] = largest(&self.maxima[level][node..end]);
                    }
                    (level, node) = (level + 1, node / FAN + 1);
                }
            }
        }
        None
    }

    /// The number of a new bin.
    fn open(&mut self, room: i64) -> usize {
        let (bin, mut node) = (self.count, self.count / BLOCK);
        self.count += 1;
        if bin % BLOCK == 0 {
            if let [rooms] = &self.blocks[..] {
                self.maxima.push(vec![largest(rooms)]);
            }
            self.blocks.push([FULL; BLOCK]);
        }
        self.blocks[node][bin % BLOCK] = room;
        if node == 0 {
            return bin;
        }
        for level in 0.. {
            if level == self.maxima.len() {
                if self.maxima[level - 1].len() <= FAN {
                    break;
                }
                let of_first = largest(&self.maxima[level - 1][..FAN]);
                self.maxima.push(vec![of_first]);
            }
            let maxima = &mut self.maxima[level];
            if node == maxima.len() {
                maxima.push(room);
            } else if maxima[node] < room {
                maxima[node] = room;
            } else {
                break; // those above are no smaller
            }
            node /= FAN;
        }
        bin
    }
}

/// The class of a length, and the shortest in it.
fn class(length: i64) -> (usize, i64) {
    let lowest = (i64::BITS - length.leading_zeros()).saturating_sub(CLASS_BITS + 1);
    let high = length >> lowest;
    (((lowest as usize) << CLASS_BITS) + high as usize, high << lowest)
}

/// The first of rooms of which one is as large as that.
fn first_with_room(rooms: &[i64; BLOCK], length: i64) -> usize {
    let with_room = rooms.iter().rev().fold(0_u32, |bits, &room| bits << 1 | u32::from(room >= length));
    with_room.trailing_zeros() as usize % BLOCK
}

fn largest(rooms: &[i64]) -> i64 {
    rooms.iter().fold(FULL, |largest, &room| largest.max(room))
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
        fn equals_a_scan_of_all_bins(
            lengths in prop::collection::vec((0_i64..40, any::<u32>()), 0..900),
            max_tokens in 0_i64..60,
            bits in prop::sample::select(vec![0, 3, 32]),
        ) {
            let lengths: Vec<i64> = lengths.iter().map(|&(high, low)| high << bits | i64::from(low) & ((1 << bits) - 1)).collect();
            let max_tokens = max_tokens << bits;
            let bins = pack_first_fit(&lengths, max_tokens);
            let bins: Vec<Vec<u32>> = bins.iter().map(<[u32]>::to_vec).collect();
            prop_assert_eq!(bins, by_scanning(&lengths, max_tokens));
        }
    }

    /// So many bins that maxima have maxima of their own, which are out of date by then.
    #[test]
    fn equals_a_scan_of_thousands_of_bins() {
        let mut state: u64 = 7;
        let mut lengths: Vec<i64> = (0..9000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                600 + (state >> 33) as i64 % 300
            })
            .collect();
        lengths.extend((0..3000).map(|i| i % 400));
        let bins = pack_first_fit(&lengths, 1000);
        assert_eq!(bins.iter().map(<[u32]>::to_vec).collect::<Vec<_>>(), by_scanning(&lengths, 1000));
    }

    #[test]
    fn a_closed_bin_takes_no_other() {
        let mut left = [2, 1, 2];
        let bins = pack_until_closed(&[0, 3, 0, 1, 0], 10, |bin| {
            left[bin] -= 1;
            left[bin] == 0
        });
        assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0, 1][..], &[2], &[3, 4]]);
    }

    #[test]
    fn a_sample_above_the_cap_is_alone() {
        let bins = pack_first_fit(&[11, 0, 1], 10);
        assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0][..], &[1, 2]]);
    }
}
