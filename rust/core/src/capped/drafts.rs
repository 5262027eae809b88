//! Starts of the search, each with as many micro-batches as its objective may want.
use crate::capped::StepProblem;
use crate::capped::cheapest::Cheapest;
use crate::capped::draft::Draft;
use crate::capped::objective::WholeObjective;
use crate::capped::ramps::pipeline_drafts;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::starts::{deal_rows, deal_to_cheapest, first_fit_as_given, split_costliest};
use crate::partition::{ItemOrder, partition};

/// How many starts are improved, the shortest first.
pub(crate) const STARTS: usize = 3;

/// Rows within one part in so many of their mean are even.
const EVEN: u64 = 400;

/// The shortest of several starts of so many micro-batches; for a pipeline, also of more.
pub(crate) fn drafts(
    problem: &StepProblem<'_>,
    samples: &Samples,
    packed: &[MicroBatch],
    fewer: Option<&Draft>,
    count: usize,
) -> Vec<Draft> {
    if count == samples.len() {
        // Alone in its micro-batch, every sample is where any start puts it.
        let alone: Vec<u32> = (0..count as u32).collect();
        return vec![Draft::new(samples.batches(&alone, count), problem)];
    }
    if let WholeObjective::Pipeline(pipeline) = problem.objective {
        return pipeline_drafts(problem, pipeline, samples, packed, count);
    }
    let mut drafts = Vec::new();
    let mut add = |mut batches: Vec<MicroBatch>| {
        split_costliest(samples, &mut batches, count);
        keep_shortest(&mut drafts, Draft::new(batches, problem));
    };
    let width = problem.width(count);
    let mut cheapest = Cheapest::new(samples, width);
    for evenness in [EVEN, EVEN / 4] {
        deal_rows(samples, &mut cheapest, width, count / width, evenness).into_iter().for_each(&mut add);
    }
    drop(cheapest);
    deal_to_cheapest(samples, count).into_iter().for_each(&mut add);
    Some(first_fit_as_given(samples)).filter(|batches| batches.len() <= count).into_iter().for_each(&mut add);
    if width == count {
        parts_by_cost(samples, count).into_iter().for_each(&mut add);
    }
    fewer.and_then(|fewer| with_cheapest_apart(samples, &fewer.batches, count)).into_iter().for_each(&mut add);
    add(packed.to_vec());
    drafts
}

/// Karmarkar–Karp by cost into so many parts, where all keep the limits: as even as can be where caps are loose.
pub(crate) fn parts_by_cost(samples: &Samples, count: usize) -> Option<Vec<MicroBatch>> {
    let costs: Vec<u64> = (0..samples.len() as u32).map(|sample| samples.cost(sample)).collect();
    let labels = partition(&costs, count, false, ItemOrder::Ascending).labels(samples.len());
    let batches = samples.batches(&labels, count);
    let keep = |batch: &MicroBatch| !batch.samples.is_empty() && samples.room.holds(batch.load);
    batches.iter().all(keep).then_some(batches)
}

/// A plan of fewer micro-batches with the cheapest samples in micro-batches of their own, so that one of more need never
/// be much longer.
fn with_cheapest_apart(samples: &Samples, fewer: &[MicroBatch], count: usize) -> Option<Vec<MicroBatch>> {
    let mut labels = vec![0; samples.len()];
    let mut left: Vec<usize> = fewer.iter().map(|batch| batch.samples.len()).collect();
    for (label, batch) in (0..).zip(fewer) {
        batch.samples.iter().for_each(|&sample| labels[sample as usize] = label);
    }
    let mut batches = fewer.len();
    for label in &mut labels {
        if batches == count {
            break;
        }
        let home = *label as usize;
        if left[home] > 1 {
            left[home] -= 1;
            *label = batches as u32;
            batches += 1;
        }
    }
    (batches == count).then(|| samples.batches(&labels, count))
}

/// Adds a draft and leaves the shortest, the first of equals.
pub(super) fn keep_shortest(drafts: &mut Vec<Draft>, draft: Draft) {
    drafts.push(draft);
    drafts.sort_by_key(|draft| draft.time);
    drafts.truncate(STARTS);
}
