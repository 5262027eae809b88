//! Placing samples in micro-batches and taking them back: what searches through small steps have in common.
use crate::capped::limits::Load;
use crate::capped::samples::Samples;

/// The samples that are placed, and how many may be before the search gives up.
pub(super) struct Trials<'a> {
    pub samples: &'a Samples,
    pub loads: Vec<Load>,
    /// The micro-batch of every sample that is placed.
    pub labels: Vec<u32>,
    left: usize,
}

impl<'a> Trials<'a> {
    /// With `count` empty micro-batches.
    pub fn new(samples: &'a Samples, count: usize, most_placed: usize) -> Self {
        let (loads, labels) = (vec![Load::default(); count], vec![0; samples.len()]);
        Self { samples, loads, labels, left: most_placed }
    }

    /// Places a sample in one micro-batch with room after the other, the least `kind` first and one of each, until `search`
    /// says that this led to an end or the search gives up; whether it did lead to one.
    pub fn place<K: Ord>(
        &mut self,
        sample: u32,
        kind: impl Fn(&[Load], usize) -> K,
        mut search: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let with_room = (0..self.loads.len()).filter(|&position| self.samples.accepts(self.loads[position], sample));
        let mut positions: Vec<_> = with_room.map(|position| (kind(&self.loads, position), position)).collect();
        positions.sort_unstable();
        positions.dedup_by(|(one, _), (other, _)| one == other); // as good as one another
        for (_, position) in positions {
            if self.left == 0 {
                return false;
            }
            self.left -= 1;
            let before = self.loads[position];
            self.loads[position] = self.samples.room.with(before, sample);
            self.labels[sample as usize] = position as u32;
            if search(self) {
                return true;
            }
            self.loads[position] = before;
        }
        false
    }
}
