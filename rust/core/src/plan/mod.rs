//! The whole way from lengths and costs to a schedule: steps, packing, alignment, dealing to ranks.
mod bins;
mod capped;
mod carried;
mod limits;
mod published;
mod request;
mod schedule;

use crate::steps::Steps;
use crate::weights::{Values, Weights};
use crate::{Error, Lengths, Result, memory};
pub use bins::pack_evenly;
use capped::plan_capped;
use carried::Carried;
use limits::Limits;
use published::plan_published;
pub use request::{
    Cap, Capped, Counts, ExtraBudget, Objective, OnLeftover, OnOversize, OnShortage, Packing, PadTo, Request,
};
pub use schedule::Schedule;

/// Bytes that are held of each sample at the peak, where each has a micro-batch of its own.
const PEAK: usize = 80;

/// Plans every step of `lengths`.
///
/// # Arguments
/// - `lengths`: tokens of every sample.
/// - `costs`: what every sample costs, in any unit; one for each length.
/// - `request`: ranks, packing and steps.
///
/// # Returns
/// The same schedule on every machine. With [`Request::balance_ranks`] rank 0 has the heaviest part of a published
/// step; with [`Packing::Capped`] the rank that had the least so far.
///
/// # Complexity
/// **O(n log n)** time and **O(n)** space for n samples; [`Packing::Capped`] takes **O(n effort)** time on top.
///
/// # Examples
/// ```
/// use flopbalance_core::{Cap, Capped, Lengths, Objective, Packing, Request, Weights, plan};
/// use std::num::{NonZeroU64, NonZeroUsize};
///
/// let (dp_size, cap) = (NonZeroUsize::new(2).unwrap(), Cap::new(NonZeroU64::new(8).unwrap()));
/// let request = Request::new(dp_size, Packing::Capped(cap, Capped::new(Objective::Step)));
/// let schedule = plan(Lengths::new(&[7, 2, 5, 4, 3])?, &Weights::from_u64(vec![49, 4, 25, 16, 9]), &request)?;
/// assert!(schedule.micro_batch_tokens.iter().all(|&tokens| tokens <= 8));
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn plan(lengths: Lengths<'_>, costs: &Weights<'_>, request: &Request<'_>) -> Result<Schedule> {
    let samples = lengths.len();
    let counts = [("costs", Some(costs.len())), ("rollout_ids", request.rollout_ids.map(<[i64]>::len))];
    for (argument, count) in counts {
        match count {
            Some(count) if count != samples => return Err(Error::Count { argument, samples, count }),
            _ => {}
        }
    }
    memory::ensure(samples, PEAK)?;
    let limits = Limits::new(lengths, request)?;
    let steps = Steps::new(samples, request.rollout_ids, request.global_batch_size, request.on_leftover)?;
    let steps = limits.keep(steps, request)?;
    let (exponent, dp_size) = (costs.exponent, request.dp_size.get());
    let planned = match (&request.packing, &costs.values) {
        (Packing::Capped(_, how), Values::U64(values)) => {
            let carried = Carried::exact(how.carried, values, exponent, dp_size)?;
            plan_capped(&limits, values, exponent, carried, &steps, request, how)
        }
        (Packing::Capped(_, how), Values::U128(values)) => {
            let carried = Carried::exact(how.carried, values, exponent, dp_size)?;
            plan_capped(&limits, values, exponent, carried, &steps, request, how)
        }
        (Packing::Capped(_, how), Values::F64(values)) => {
            let carried = Carried::rounded(how.carried, dp_size)?;
            plan_capped(&limits, values, exponent, carried, &steps, request, how)
        }
        (_, Values::U64(values)) => plan_published(&limits, values, &steps, request),
        (_, Values::U128(values)) => plan_published(&limits, values, &steps, request),
        (_, Values::F64(values)) => plan_published(&limits, values, &steps, request),
    };
    let schedule = Schedule::new(&lengths, &steps, &planned?, dp_size);
    let total = schedule.micro_batch_tokens.iter().map(|&tokens| i128::from(tokens)).sum();
    if total > i128::from(i64::MAX) {
        return Err(Error::RepeatedTokens { total });
    }
    Ok(schedule)
}
