//! First fit where a micro-batch has more to keep than a sum of tokens: padding, a second budget.
use crate::capped::limits::{Load, Room};
use crate::packing::Rooms;

/// The bins of first fit, in a tree that holds their room by several measures: tokens, the second amount, and the scarcer
/// of the two, weighed in several ways. Where a sample needs the two in nearly one of these proportions, few nodes seem
/// to have room and have not.
pub(crate) struct Bins<'a> {
    room: &'a Room,
    loads: Vec<Load>,
    rooms: Rooms<i32, MEASURES>,
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
