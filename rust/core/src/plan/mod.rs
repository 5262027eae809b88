//! The whole way from lengths and costs to a schedule: steps, packing, alignment, dealing to ranks.
mod capped;
mod limits;
mod published;
mod request;
mod schedule;

use crate::steps::{Steps, gather};
use crate::weights::{Values, Weights};
use crate::{Error, Lengths, Result};
use capped::plan_capped;
use limits::{Kept, Limits};
use published::plan_published;
pub use request::{
    Cap, Capped, ExtraBudget, Objective, OnLeftover, OnOversize, OnShortage, Packing, PadTo, Pipeline, Request,
};
pub use schedule::Schedule;

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
    let (limits, kept) = Limits::new(lengths, request)?;
    let Some(some) = kept.samples() else { return plan_kept(lengths, &limits, &kept, costs, request) };
    let ids = request.rollout_ids.map(|ids| gather(ids, some));
    let request = Request { rollout_ids: ids.as_deref(), ..*request };
    plan_kept(lengths, &limits, &kept, &costs.of(some), &request)
}

/// Plans the samples that are kept; costs and request are of these alone.
fn plan_kept(
    lengths: Lengths<'_>,
    limits: &Limits<'_>,
    kept: &Kept,
    costs: &Weights<'_>,
    request: &Request<'_>,
) -> Result<Schedule> {
    let steps = Steps::new(limits.tokens.len(), request.rollout_ids, request.global_batch_size, request.on_leftover)?;
    let planned = match (&request.packing, &costs.values) {
        (Packing::Capped(_, how), Values::U64(values)) => {
            plan_capped::<_, u128>(limits, values, costs.exponent, &steps, request, how)
        }
        (Packing::Capped(_, how), Values::U128(values)) => {
            plan_capped::<_, u128>(limits, values, costs.exponent, &steps, request, how)
        }
        (Packing::Capped(_, how), Values::F64(values)) => {
            plan_capped::<_, f64>(limits, values, costs.exponent, &steps, request, how)
        }
        (_, Values::U64(values)) => plan_published(limits, values, &steps, request),
        (_, Values::U128(values)) => plan_published(limits, values, &steps, request),
        (_, Values::F64(values)) => plan_published(limits, values, &steps, request),
    };
    Ok(Schedule::new(&lengths, kept, &steps, &planned?, request.dp_size.get()))
}
