//! The published way, index for index: pack a step, bring the number of micro-batches up, deal them to ranks.
use crate::interrupt::Work;
use crate::packing::{pack_first_fit, split_bins};
use crate::partition::{ItemOrder, partition};
use crate::plan::limits::Limits;
use crate::plan::request::{Packing, Request};
use crate::plan::schedule::Step;
use crate::steps::{Steps, gather};
use crate::weights::Weight;
use crate::{Error, Groups, Result};
use std::num::NonZeroUsize;

/// Plans every step with one of the published packings.
pub(crate) fn plan_published<'a, W: Weight>(
    limits: &Limits<'_>,
    costs: &[W],
    steps: &'a Steps,
    request: &Request<'_>,
) -> Result<Vec<Step<'a>>> {
    steps.plan_each(|number, samples| {
        let (lengths, costs) = (gather(&limits.tokens, samples), gather(costs, samples));
        let mut micro_batches = pack(&lengths, &costs, limits.max_tokens, request);
        align(&mut micro_batches, &lengths, number, request)?;
        let ranks = deal(&micro_batches, &costs, request);
        Ok(Step { samples: samples.into(), micro_batches, ranks })
    })
}

fn pack<W: Weight>(lengths: &[i64], costs: &[W], max_tokens: i64, request: &Request<'_>) -> Groups {
    match request.packing {
        Packing::Fixed { micro_batch_size } => Groups::runs(lengths.len(), micro_batch_size),
        Packing::Flops(_) => {
            let tokens: i64 = lengths.iter().sum();
            let parts = tokens.unsigned_abs().div_ceil(max_tokens.unsigned_abs()).max(1);
            if parts >= lengths.len() as u64 {
                return Groups::runs(lengths.len(), NonZeroUsize::MIN);
            }
            partition(costs, parts as usize, false, ItemOrder::Ascending)
        }
        Packing::FirstFit(_) | Packing::Capped(..) => pack_first_fit(lengths, max_tokens),
    }
}

/// Brings the number of micro-batches up to a multiple of what the ranks need.
fn align(micro_batches: &mut Groups, lengths: &[i64], step: usize, request: &Request<'_>) -> Result<()> {
    let (dp_size, micro_batch_multiple) = (request.dp_size.get(), request.micro_batch_multiple.get());
    let samples = lengths.len();
    if samples < dp_size {
        return Err(Error::TooFewSamples { step, samples, dp_size });
    }
    let unit = dp_size.saturating_mul(micro_batch_multiple);
    let target = micro_batches.len().checked_next_multiple_of(unit).unwrap_or(usize::MAX);
    let splits = !matches!(request.packing, Packing::Fixed { .. });
    if splits && target <= samples {
        split_bins(micro_batches, target, lengths)?;
    }
    if micro_batches.iter().any(<[u32]>::is_empty) {
        return Err(Error::EmptyMicroBatch { step, target });
    }
    if micro_batches.len() == target {
        return Ok(());
    }
    Err(Error::NoMultiple { step, micro_batches: micro_batches.len(), samples, dp_size, micro_batch_multiple })
}

/// The micro-batches of every rank, ascending.
fn deal<W: Weight>(micro_batches: &Groups, costs: &[W], request: &Request<'_>) -> Groups {
    let (count, ranks) = (micro_batches.len(), request.dp_size.get());
    if !request.balance_ranks {
        let labels: Vec<u32> = (0..count).map(|micro_batch| (micro_batch % ranks) as u32).collect();
        return Groups::from_labels(&labels, ranks);
    }
    let mut work = Work::default();
    let sum = |items: &[u32]| {
        work.did(items.len());
        items.iter().fold(W::default(), |sum, &item| sum + costs[item as usize])
    };
    let sums = if W::EXACT { micro_batches.sums(costs) } else { micro_batches.iter().map(sum).collect() };
    partition(&sums, ranks, true, ItemOrder::Ascending)
}
