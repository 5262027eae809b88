//! Bins of one rank: even ones, for those who only pack.
use crate::plan::plan;
use crate::plan::request::{Cap, Capped, Objective, Packing, Request};
use crate::{Bins, Error, Groups, Lengths, Result, Weights, pack};
use std::num::NonZeroUsize;

/// Packs samples into bins whose costs are as even as those of the micro-batches of one rank that is planned within the
/// cap; as few bins as were found to do, or as many as are wanted. The order of `how` does not matter.
///
/// # Returns
/// The costliest bin first, samples ascending; none is empty.
///
/// # Complexity
/// As for [`Packing::Capped`].
///
/// # Examples
/// ```
/// use flopbalance_core::{Bins, Lengths, Weights, pack_evenly};
/// use std::num::NonZeroU64;
///
/// let (lengths, costs) = ([6, 5, 4, 3, 2, 2], Weights::from_u64(vec![6, 5, 4, 3, 2, 2]));
/// let bins = pack_evenly(Lengths::new(&lengths)?, &costs, &Bins::new(NonZeroU64::new(12).unwrap()))?;
/// assert_eq!(bins.len(), 2);
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn pack_evenly(lengths: Lengths<'_>, costs: &Weights<'_>, how: &Bins) -> Result<Groups> {
    how.counts.check(how.multiple.get())?;
    if lengths.is_empty() {
        return pack(lengths, how); // no bins, or too many of them
    }
    let mut capped = Capped::new(Objective::MicroBatch);
    (capped.counts, capped.max_samples) = (how.counts, how.max_samples);
    let mut request = Request::new(NonZeroUsize::MIN, Packing::Capped(Cap::new(how.max_tokens), capped));
    request.micro_batch_multiple = how.multiple;
    let schedule = plan(lengths, costs, &request).map_err(of_bins)?;
    let sizes: Vec<i64> = schedule.micro_batch_offsets.windows(2).map(|ends| ends[1] - ends[0]).collect();
    Groups::from_sizes(&schedule.samples, &sizes, lengths.len())
}

/// A refusal of a step's micro-batches in terms of bins.
fn of_bins(error: Error) -> Error {
    match error {
        Error::Shortage { needed, samples, .. } => Error::TooManyBins { wanted: needed, samples },
        Error::TooFewMicroBatches { exactly, packed, .. } => Error::TooFewBins { exactly, packed },
        other => other,
    }
}
