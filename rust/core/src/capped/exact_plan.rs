//! The shortest plan of a step of few samples, by trying: costliest first, each into the cheapest micro-batch with room and
//! then into the others, as long as the plan is shorter than the best that is known.
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};

/// Samples of a step that are few.
const MOST_SAMPLES: usize = 12;

/// Samples that are placed before the search gives up, so that it takes about a millisecond at most.
const MOST_PLACED: usize = 1 << 12;

/// When micro-batches end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends {
    /// In rows of so many. Those of given micro-batches are shortest where these are sorted by cost.
    InRows(usize),
    /// So many on each rank, one after the other.
    OnRanks(usize),
}

/// As many micro-batches as there are `loads`, of a shorter plan than these, where there is one and it is found in time; rank
/// by rank if that is how they end.
pub(crate) fn exact_plan(samples: &Samples, loads: Vec<Load>, ends: Ends) -> Option<Vec<MicroBatch>> {
    if samples.len() > MOST_SAMPLES {
        return None;
    }
    let count = loads.len();
    let mut search = ExactPlan {
        samples,
        ends,
        loads,
        costs: vec![],
        labels: vec![0; samples.len()],
        shortest: (0, None),
        left: MOST_PLACED,
    };
    search.shortest.0 = search.time();
    search.loads.fill(Load::default());
    search.place(samples.len());
    search.shortest.1.map(|labels| samples.batches(&labels, count))
}

struct ExactPlan<'a> {
    samples: &'a Samples,
    ends: Ends,
    loads: Vec<Load>,
    costs: Vec<u64>,
    /// The micro-batch of every sample that is placed.
    labels: Vec<u32>,
    /// The time of the best plan, and its labels if it was found here.
    shortest: (u64, Option<Vec<u32>>),
    left: usize,
}

impl ExactPlan<'_> {
    /// Of the plan so far, which samples can only lengthen.
    fn time(&mut self) -> u64 {
        self.costs.clear();
        self.costs.extend(self.loads.iter().map(|load| load.cost));
        match self.ends {
            Ends::InRows(width) => {
                self.costs.sort_unstable();
                self.costs.iter().rev().step_by(width).sum()
            }
            Ends::OnRanks(count) => self.costs.chunks(count).map(|of_rank| of_rank.iter().sum()).max().unwrap_or(0),
        }
    }

    /// What tells micro-batches apart that are not as good as one another: their loads, and those of their ranks.
    fn kind(&self, position: usize) -> Vec<(u64, [u64; 4])> {
        let kind = |load: &Load| (load.cost, load.contents());
        let mut kinds = vec![kind(&self.loads[position])];
        if let Ends::OnRanks(count) = self.ends {
            let start = position - position % count;
            kinds.extend(self.loads[start..start + count].iter().map(kind));
            kinds[1..].sort_unstable();
        }
        kinds
    }

    /// Places the cheapest so many samples.
    fn place(&mut self, count: usize) {
        let empty = self.loads.iter().filter(|load| load.samples == 0).count();
        let Some(sample) = count.checked_sub(1).map(|sample| sample as u32) else {
            if empty == 0 {
                self.shortest = (self.time(), Some(self.labels.clone()));
            }
            return;
        };
        if empty > count {
            return;
        }
        let with_room = (0..self.loads.len()).filter(|&position| self.samples.accepts(self.loads[position], sample));
        let mut positions: Vec<_> = with_room.map(|position| (self.kind(position), position)).collect();
        positions.sort_unstable();
        positions.dedup_by(|(one, _), (other, _)| one == other);
        for (_, position) in positions {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let before = self.loads[position];
            self.loads[position] = self.samples.room.with(before, sample);
            self.labels[sample as usize] = position as u32;
            if self.time() < self.shortest.0 {
                self.place(count - 1);
            }
            self.loads[position] = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capped::limits::Caps;
    use proptest::prelude::*;

    fn time(batches: &[MicroBatch], ends: Ends) -> u64 {
        let mut costs: Vec<u64> = batches.iter().map(MicroBatch::cost).collect();
        match ends {
            Ends::InRows(width) => {
                costs.sort_unstable();
                costs.iter().rev().step_by(width).sum()
            }
            Ends::OnRanks(count) => costs.chunks(count).map(|of_rank| of_rank.iter().sum()).max().unwrap(),
        }
    }

    fn better(samples: &Samples, given: &[MicroBatch], ends: Ends) -> Option<u64> {
        exact_plan(samples, given.iter().map(|batch| batch.load).collect(), ends).map(|batches| time(&batches, ends))
    }

    /// The shortest plan of all labellings, `u64::MAX` where none keeps the limits.
    fn by_all_labels(samples: &Samples, count: usize, ends: Ends) -> u64 {
        let labellings = (0..count.pow(samples.len() as u32)).filter_map(|number| {
            let digit = |sample: usize| (number / count.pow(sample as u32) % count) as u32;
            let batches = samples.batches(&(0..samples.len()).map(digit).collect::<Vec<u32>>(), count);
            let keep = |batch: &MicroBatch| !batch.samples.is_empty() && samples.room.holds(batch.load);
            batches.iter().all(keep).then(|| time(&batches, ends))
        });
        labellings.min().unwrap_or(u64::MAX)
    }

    proptest! {
        #[test]
        fn no_labels_are_shorter(
            lengths in prop::collection::vec(0_i64..20, 4..7), cap in 5_i64..40, half in 1_usize..3, padded in any::<bool>(),
            in_rows in any::<bool>(),
        ) {
            let costs: Vec<u64> = lengths.iter().map(|&length| (length * length + 30 * length).unsigned_abs()).collect();
            let samples = Samples::new(&lengths, &costs, &Caps { padded, ..Caps::new(cap) });
            let (count, ends) = (2 * half, if in_rows { Ends::InRows(half) } else { Ends::OnRanks(half) });
            let shortest = by_all_labels(&samples, count, ends);
            prop_assume!(shortest < u64::MAX);
            // Which may be above the cap.
            let labels: Vec<u32> = (0..lengths.len()).map(|sample| sample.min(count - 1) as u32).collect();
            let given = samples.batches(&labels, count);
            let before = time(&given, ends);
            prop_assert_eq!(better(&samples, &given, ends).unwrap_or(before), shortest.min(before));
        }
    }

    #[test]
    fn six_samples_over_two_ranks() {
        let lengths = [8, 8, 34, 77, 60, 48];
        let costs: Vec<u64> =
            lengths.iter().map(|&length: &i64| (100 * length + length * length).unsigned_abs()).collect();
        let samples = Samples::new(&lengths, &costs, &Caps::new(115));
        let given = samples.batches(&[0, 0, 1, 2, 1, 3], 4);
        assert_eq!(better(&samples, &given, Ends::InRows(2)), Some(19_049));
    }
}
