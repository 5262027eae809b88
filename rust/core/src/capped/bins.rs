//! First fit where a micro-batch has more to keep than a sum of tokens: padding, a second budget.
use crate::capped::limits::{Load, Room};
use crate::capped::rooms::Rooms;

/// The bins of first fit, in a tree that holds their room by several measures: tokens, the second amount, and the scarcer
/// of the two, weighed in several ways. Where a sample needs the two in nearly one of these proportions, few nodes seem
/// to have room and have not.
pub(crate) struct Bins<'a> {
    room: &'a Room,
    loads: Vec<Load>,
    rooms: Rooms<MEASURES>,
}

const MEASURES: usize = 7;

const FULL: [i32; MEASURES] = [-1; MEASURES];

/// Nodes that a sample looks at, before only the last bin is asked.
const MOST_NODES: usize = 1 << 11;

impl<'a> Bins<'a> {
    pub fn new(room: &'a Room) -> Self {
        Self { room, loads: vec![], rooms: Rooms::new(FULL) }
    }

    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Puts a sample into the first bin with room, or a new one; returns the bin. **O(log b)** for b bins.
    pub fn put(&mut self, sample: u32) -> u32 {
        let needs = measures(self.room.shares([self.room.length(sample), self.room.extra_of(sample)]));
        let has_room = |bin: usize| self.room.holds(self.room.with(self.loads[bin], sample));
        let first = self.rooms.first_of(&needs, MOST_NODES, has_room);
        let bin = first.unwrap_or_else(|| {
            self.loads.push(Load::default());
            self.rooms.open()
        });
        let load = self.room.with(self.loads[bin], sample);
        self.loads[bin] = load;
        let left = self.room.longest_welcome(load).zip(self.room.most_extra(load));
        self.rooms.set(bin, left.map_or(FULL, |(tokens, extra)| measures(self.room.shares([tokens, extra]))));
        bin as u32
    }
}

/// Shares of the two caps, and the smaller of both at 16 : 1, 4 : 1, 1 : 1 and so on.
fn measures([tokens, extra]: [i32; 2]) -> [i32; MEASURES] {
    let smaller = |tokens_bits: u32, extra_bits: u32| (tokens << tokens_bits).min(extra << extra_bits);
    [tokens, extra, smaller(0, 0), smaller(2, 0), smaller(0, 2), smaller(4, 0), smaller(0, 4)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capped::limits::Caps;
    use crate::capped::samples::Samples;
    use proptest::prelude::*;

    /// Bins of samples in their order, by both ways.
    fn both_ways(lengths: &[i64], amounts: &[i64], caps: [i64; 2], padded: bool) -> [Vec<u32>; 2] {
        let costs: Vec<u64> = (0..lengths.len() as u64).collect();
        let caps = Caps { padded, extra: Some((amounts, caps[1])), ..Caps::new(caps[0]) };
        let samples = Samples::new(lengths, &costs, &caps);
        let mut bins = Bins::new(&samples.room);
        let mut loads: Vec<Load> = vec![];
        let by_scan = |sample| {
            let bin = loads.iter().position(|&load| samples.accepts(load, sample)).unwrap_or(loads.len());
            loads.resize(loads.len().max(bin + 1), Load::default());
            loads[bin] = samples.room.with(loads[bin], sample);
            bin as u32
        };
        let all = 0..lengths.len() as u32;
        [all.clone().map(|sample| bins.put(sample)).collect(), all.map(by_scan).collect()]
    }

    proptest! {
        #[test]
        fn equals_a_scan_of_all_bins(
            samples in prop::collection::vec((0_i64..40, 0_i64..40), 1..300),
            cap in 0_i64..60,
            max_extra in prop::sample::select(vec![0_i64, 20, 100, 1 << 40]),
            padded in any::<bool>(),
        ) {
            let (lengths, amounts): (Vec<i64>, Vec<i64>) = samples.into_iter().unzip();
            let [bins, by_scan] = both_ways(&lengths, &amounts, [cap, max_extra], padded);
            prop_assert_eq!(bins, by_scan);
        }
    }

    #[test]
    fn bins_that_are_full_in_one_way_each_are_passed_over() {
        let (mut lengths, mut amounts) = ([995, 300].repeat(600), [300, 995].repeat(600));
        lengths.extend([5; 400]);
        amounts.extend([5; 400]);
        let [bins, by_scan] = both_ways(&lengths, &amounts, [999, 999], false);
        assert_eq!(bins, by_scan);
        assert_eq!(bins.last(), Some(&1202));
    }

    #[test]
    fn a_search_that_takes_too_long_ends_at_the_last_bin() {
        // What fits nowhere is between two weights: every measure has bins that seem to have room.
        let (mut lengths, mut amounts) = ([997, 900].repeat(600), [990, 994].repeat(600));
        lengths.extend([4; 200]);
        amounts.extend([8; 200]);
        let [bins, by_scan] = both_ways(&lengths, &amounts, [999, 999], false);
        assert_eq!(bins.last(), by_scan.last());
    }
}
