//! Micro-batches that give and take samples.
use crate::Groups;
use crate::capped::limits::{Caps, Load, Room};
use crate::interrupt::Work;
use crate::partition::sorted_by;

/// Samples of one step, by their position in ascending order of cost, and their sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct MicroBatch {
    /// Ascending, and so ascending by cost.
    pub samples: Vec<u32>,
    pub load: Load,
}

impl MicroBatch {
    pub fn cost(&self) -> u64 {
        self.load.cost
    }

    /// The same with ascending samples, once all were put in from the costliest down.
    pub fn reversed(mut self) -> Self {
        self.samples.reverse();
        self
    }
}

/// The samples of one step in ascending order of (cost, length, index).
pub(crate) struct Samples {
    pub room: Room,
    /// The index of each sample in the caller's order.
    pub original: Vec<u32>,
}

/// Steps of [`Work`] in adding up a sample that lies anywhere.
const STEPS_PER_SAMPLE: usize = 8;

impl Samples {
    pub fn new(lengths: &[i64], costs: &[u64], limits: &Caps<'_>) -> Self {
        let given: Vec<u32> = (0..costs.len() as u32).collect();
        let by_length = sorted_by(&given, |sample| lengths[sample as usize] as u64);
        let original = sorted_by(&by_length, |sample| costs[sample as usize]);
        Self { room: Room::new(lengths, costs, limits, &original), original }
    }

    pub fn len(&self) -> usize {
        self.original.len()
    }

    /// The samples in the caller's order.
    pub fn as_given(&self) -> Vec<u32> {
        let mut given = vec![0; self.len()];
        for (sample, &index) in (0..).zip(&self.original) {
            given[index as usize] = sample;
        }
        given
    }

    pub fn cost(&self, sample: u32) -> u64 {
        self.room.cost(sample)
    }

    /// A micro-batch of these samples, which ascend.
    pub fn batch(&self, samples: Vec<u32>) -> MicroBatch {
        MicroBatch { load: self.room.of(&samples), samples }
    }

    /// Micro-batches from every sample's number of one, which is below `count`.
    pub fn batches(&self, labels: &[u32], count: usize) -> Vec<MicroBatch> {
        let mut work = Work::default();
        let batch = |samples: &[u32]| {
            work.did(STEPS_PER_SAMPLE * samples.len());
            self.batch(samples.to_vec())
        };
        Groups::from_labels(labels, count).iter().map(batch).collect()
    }

    pub fn accepts(&self, load: Load, sample: u32) -> bool {
        self.room.holds(self.room.with(load, sample))
    }

    /// Puts a sample behind the others.
    pub fn push(&self, batch: &mut MicroBatch, sample: u32) {
        batch.samples.push(sample);
        batch.load = self.room.with(batch.load, sample);
    }

    /// Puts a sample in its place among the others.
    pub fn add(&self, batch: &mut MicroBatch, sample: u32) {
        let position = batch.samples.partition_point(|&other| other < sample);
        batch.samples.insert(position, sample);
        batch.load = self.room.with(batch.load, sample);
    }

    pub fn remove(&self, batch: &mut MicroBatch, sample: u32) {
        let position = batch.samples.partition_point(|&other| other < sample);
        batch.samples.remove(position);
        batch.load = self.room.left(batch.load, sample, &batch.samples);
    }

    /// Whether `batch` keeps its limits, and a sample at least, when `out` leaves it and `joining` comes.
    pub fn swaps(&self, batch: &MicroBatch, out: Option<u32>, joining: Option<u32>) -> bool {
        let load = out.map_or(batch.load, |sample| self.room.without(batch.load, sample));
        let load = joining.map_or(load, |sample| self.room.with(load, sample));
        load.samples > 0 && self.room.holds(load)
    }
}
