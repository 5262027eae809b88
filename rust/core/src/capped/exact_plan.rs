//! The shortest plan of a step of few samples, by trying: costliest first, each into the cheapest micro-batch with room and
//! then into the others, as long as the plan is shorter than the best that is known.
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::trials::Trials;

/// Samples of a step that is searched through.
pub(crate) const FEW: usize = 12;

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
/// by rank if that is how they end. For [`FEW`] samples.
pub(crate) fn exact_plan(samples: &Samples, loads: &[Load], ends: Ends) -> Option<Vec<MicroBatch>> {
    let mut shortest = Shortest { ends, time: u64::MAX, labels: None, costs: vec![] };
    shortest.time = shortest.time_of(loads);
    shortest.search(&mut Trials::new(samples, loads.len(), MOST_PLACED), samples.len());
    shortest.labels.map(|labels| samples.batches(&labels, loads.len()))
}

/// The best plan so far.
struct Shortest {
    ends: Ends,
    time: u64,
    /// The micro-batch of every sample, if the search found it.
    labels: Option<Vec<u32>>,
    /// Room to sort in.
    costs: Vec<u64>,
}

impl Shortest {
    /// Of a plan of some samples, which more can only lengthen.
    fn time_of(&mut self, loads: &[Load]) -> u64 {
        self.costs.clear();
        self.costs.extend(loads.iter().map(|load| load.cost));
        match self.ends {
            Ends::InRows(width) => {
                self.costs.sort_unstable();
                self.costs.iter().rev().step_by(width).sum()
            }
            Ends::OnRanks(count) => self.costs.chunks(count).map(|of_rank| of_rank.iter().sum()).max().unwrap_or(0),
        }
    }

    /// Places the cheapest `count` samples; never says that this is an end, since a shorter plan may come.
    fn search(&mut self, trials: &mut Trials<'_>, count: usize) -> bool {
        let empty = trials.loads.iter().filter(|load| load.samples == 0).count();
        let Some(sample) = count.checked_sub(1).map(|sample| sample as u32) else {
            if empty == 0 {
                (self.time, self.labels) = (self.time_of(&trials.loads), Some(trials.labels.clone()));
            }
            return false;
        };
        if empty > count {
            return false;
        }
        let ends = self.ends;
        let kind = |loads: &[Load], position: usize| kind(loads, position, ends);
        trials.place(sample, kind, |trials| self.time_of(&trials.loads) < self.time && self.search(trials, count - 1))
    }
}

/// What tells micro-batches apart that are not as good as one another: their loads, and those of their ranks.
fn kind(loads: &[Load], position: usize, ends: Ends) -> Vec<(u64, [u64; 4])> {
    let kind = |load: &Load| (load.cost, load.contents());
    let mut kinds = vec![kind(&loads[position])];
    if let Ends::OnRanks(count) = ends {
        let start = position - position % count;
        kinds.extend(loads[start..start + count].iter().map(kind));
        kinds[1..].sort_unstable();
    }
    kinds
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
        exact_plan(samples, &given.iter().map(|batch| batch.load).collect::<Vec<_>>(), ends)
            .map(|batches| time(&batches, ends))
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
