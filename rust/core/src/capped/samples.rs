//! Micro-batches that give and take samples.
use crate::capped::limits::{Caps, Load, Room};

/// Samples of one step, by their position in ascending order of cost, and their sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct MicroBatch {
    /// Ascending, and so ascending by cost.
    pub samples: Vec<u32>,
    pub cost: u64,
    pub load: Load,
}

/// The samples of one step in ascending order of (cost, length, index).
pub(crate) struct Samples {
    pub costs: Vec<u64>,
    pub room: Room,
    /// The index of each sample in the caller's order.
    pub original: Vec<u32>,
}

impl Samples {
    pub fn new(lengths: &[i64], costs: &[u64], limits: &Caps<'_>) -> Self {
        let mut original: Vec<u32> = (0..costs.len() as u32).collect();
        original.sort_unstable_by_key(|&sample| (costs[sample as usize], lengths[sample as usize], sample));
        Self {
            costs: original.iter().map(|&sample| costs[sample as usize]).collect(),
            room: Room::new(lengths, limits, &original),
            original,
        }
    }

    pub fn len(&self) -> usize {
        self.costs.len()
    }

    pub fn cost(&self, sample: u32) -> u64 {
        self.costs[sample as usize]
    }

    pub fn batch(&self, samples: impl IntoIterator<Item = u32>) -> MicroBatch {
        let mut batch = MicroBatch::default();
        samples.into_iter().for_each(|sample| self.add(&mut batch, sample));
        batch
    }

    pub fn accepts(&self, batch: &MicroBatch, sample: u32) -> bool {
        self.room.holds(self.room.with(batch.load, sample))
    }

    pub fn add(&self, batch: &mut MicroBatch, sample: u32) {
        let position = batch.samples.partition_point(|&other| other < sample);
        batch.samples.insert(position, sample);
        batch.load = self.room.with(batch.load, sample);
        batch.cost += self.cost(sample);
    }

    pub fn remove(&self, batch: &mut MicroBatch, sample: u32) {
        batch.load = self.room.without(batch.load, &batch.samples, sample);
        batch.cost -= self.cost(sample);
        batch.samples.retain(|&other| other != sample);
    }

    /// Whether `batch` keeps its limits, and a sample at least, when `out` leaves it and `joining` comes.
    pub fn swaps(&self, batch: &MicroBatch, out: Option<u32>, joining: Option<u32>) -> bool {
        let load = out.map_or(batch.load, |sample| self.room.without(batch.load, &batch.samples, sample));
        let load = joining.map_or(load, |sample| self.room.with(load, sample));
        load.samples > 0 && self.room.holds(load)
    }
}
