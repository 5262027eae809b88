//! Whether the samples of a small step fit into so many micro-batches, by trying: largest first, each into the fullest
//! micro-batch with room, and into the next fullest once that has led nowhere.
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::trials::Trials;
use std::cmp::Reverse;

/// Samples of a step that is small.
const MOST_SAMPLES: usize = 64;

/// Samples that are placed before the search gives up: more find hardly more, and most searches are for nothing.
const MOST_PLACED: usize = 1 << 10;

/// A packing into `count` micro-batches at most, where one is found in time.
pub(crate) fn exact_fit(samples: &Samples, count: usize) -> Option<Vec<MicroBatch>> {
    if samples.len() > MOST_SAMPLES {
        return None;
    }
    let mut largest_first: Vec<u32> = (0..samples.len() as u32).collect();
    let room = &samples.room;
    if room.has_extra() {
        largest_first.sort_by_key(|&sample| (Reverse(room.larger_share(sample)), sample));
    } else {
        largest_first.sort_by_key(|&sample| (Reverse(room.length(sample)), sample));
    }
    let mut trials = Trials::new(samples, count, MOST_PLACED);
    place(&mut trials, &largest_first).then(|| {
        let batches = samples.batches(&trials.labels, count);
        batches.into_iter().filter(|batch| !batch.samples.is_empty()).collect()
    })
}

/// Places all of these samples; `false` where they have no room or the search gives up.
fn place(trials: &mut Trials<'_>, largest_first: &[u32]) -> bool {
    let Some((&sample, others)) = largest_first.split_first() else { return true };
    let fullest = |loads: &[Load], position: usize| Reverse(loads[position].contents());
    trials.place(sample, fullest, |trials| place(trials, others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capped::limits::Caps;

    fn count(lengths: &[i64], caps: &Caps<'_>, most: usize) -> Option<usize> {
        let samples = Samples::new(lengths, &vec![1; lengths.len()], caps);
        exact_fit(&samples, most).map(|batches| batches.len())
    }

    #[test]
    fn what_fits_in_one_way_only_is_found() {
        let caps = Caps::new(42);
        let lengths = [12, 11, 12, 3, 20, 20, 10, 21, 16]; // 125 of 126 tokens
        assert_eq!((count(&lengths, &caps, 3), count(&lengths, &caps, 2)), (Some(3), None));
        let padded = Caps { padded: true, ..caps };
        assert_eq!(
            (count(&[14, 13, 12, 21, 20], &padded, 2), count(&[14, 13, 12, 21, 22], &padded, 2)),
            (Some(2), None)
        );
        let both = Caps { extra: Some((&[7, 9, 6, 0, 0, 1], 15)), ..Caps::new(53) };
        assert_eq!(
            (count(&[12, 7, 4, 24, 22, 25], &both, 2), count(&[12, 7, 4, 24, 22, 25], &both, 1)),
            (Some(2), None)
        );
    }

    #[test]
    fn a_search_that_takes_too_long_gives_up() {
        let caps = Caps::new(100);
        // Thirds of 100 and one: two fit each micro-batch, and the search cannot see that.
        let lengths: Vec<i64> = (0..60).map(|i| 34 + i % 7).collect();
        assert_eq!(count(&lengths, &caps, 29), None);
        assert_eq!(count(&[1; MOST_SAMPLES + 1], &caps, 1), None);
        assert_eq!(count(&[1; MOST_SAMPLES], &caps, 1), Some(1));
    }
}
