//! Starts of the search, each with as many micro-batches as its objective may want.
use crate::capped::StepProblem;
use crate::capped::cheapest::Cheapest;

use crate::capped::draft::Draft;
use crate::capped::objective::WholeObjective;
use crate::capped::ramps::pipeline_drafts;
use crate::capped::samples::{MicroBatch, Samples};
use crate::capped::starts::{deal_rows, deal_to_cheapest, first_fit_as_given, split_costliest};

/// How many starts are improved, the shortest first.
pub(crate) const STARTS: usize = 3;

/// Rows within one part in so many of their mean are even.
const EVEN: u64 = 400;

/// The shortest of several starts of so many micro-batches; for a pipeline, also of more.
pub(crate) fn drafts(problem: &StepProblem<'_>, samples: &Samples, packed: &[MicroBatch], count: usize) -> Vec<Draft> {
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
    let width = problem.dp_size;
    let mut cheapest = Cheapest::new(samples, width);
    for evenness in [EVEN, EVEN / 4] {
        deal_rows(samples, &mut cheapest, width, count / width, evenness).into_iter().for_each(&mut add);
    }
    drop(cheapest);
    deal_to_cheapest(samples, count).into_iter().for_each(&mut add);
    Some(first_fit_as_given(samples)).filter(|batches| batches.len() <= count).into_iter().for_each(&mut add);
    add(packed.to_vec());
    drafts
}

/// Adds a draft and leaves the shortest, the first of equals.
pub(super) fn keep_shortest(drafts: &mut Vec<Draft>, draft: Draft) {
    drafts.push(draft);
    drafts.sort_by_key(|draft| draft.time);
    drafts.truncate(STARTS);
}
