//! Laws of the capped planner, and how near it comes to the optimum where the optimum can be found.
mod common;

use common::{Aim, Case, Numbers};
use proptest::prelude::*;
use std::cmp::Reverse;

/// The fewest micro-batches that first fit decreasing needs, by a plain scan: by tokens, by the second amount, by the
/// larger share of the caps.
fn first_fit_decreasing(case: &Case) -> usize {
    let length = |&sample: &u32| case.lengths[sample as usize];
    let (amounts, max_extra) = case.extra.clone().unwrap_or((vec![0; case.lengths.len()], 0));
    let extra = |&sample: &u32| amounts[sample as usize];
    let share = |sample: &u32| (length(sample) * max_extra).max(extra(sample) * case.max_tokens);
    let keys = |sample: &u32| [(length(sample), 0), (extra(sample), length(sample)), (share(sample), 0)];
    let count = |which: usize| {
        let mut order: Vec<u32> = (0..case.lengths.len() as u32).collect();
        order.sort_by_key(|sample| Reverse(keys(sample)[which]));
        first_fit(case, &order)
    };
    (0..3).map(count).min().unwrap()
}

fn first_fit(case: &Case, order: &[u32]) -> usize {
    let mut bins: Vec<Vec<u32>> = Vec::new();
    for &sample in order {
        let fits = |bin: &&mut Vec<u32>| case.holds(&[&bin[..], &[sample]].concat());
        match bins.iter_mut().find(fits) {
            Some(bin) => bin.push(sample),
            None => bins.push(vec![sample]),
        }
    }
    bins.len()
}

prop_compose! {
    fn case()(samples in prop::collection::vec((0_i64..60, 0_u64..1000, 0_i64..9), 1..60))(
        samples in Just(samples),
        convex in any::<bool>(),
        max_tokens in 1_i64..120,
        max_extra in 0_i64..30,
        padded in any::<bool>(),
        two_budgets in any::<bool>(),
        max_samples in prop::option::of(1_usize..12),
        dp_size in 1_usize..5,
        multiple in 1_usize..3,
        aim in prop::sample::select(vec![Aim::Step, Aim::MicroBatch, Aim::Pipeline(4, 0.001), Aim::PipelinedRows(3, 0.01)]),
        effort in 0_u64..300,
    ) -> Case {
        let cost = |&(length, cost, _): &(i64, u64, i64)| {
            let length = length.unsigned_abs();
            if convex { 100 * length + length * length } else { cost }
        };
        Case {
            lengths: samples.iter().map(|sample| sample.0).collect(),
            costs: samples.iter().map(cost).collect(),
            extra: two_budgets.then(|| (samples.iter().map(|sample| sample.2).collect(), max_extra)),
            max_samples, max_tokens, padded, dp_size, multiple, aim, effort,
            ..Case::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_is_placed_once_within_the_limits_in_no_more_micro_batches_than_first_fit_decreasing_needs(case in case()) {
        let unit = case.dp_size * case.multiple;
        let count = first_fit_decreasing(&case).next_multiple_of(unit);
        let Ok(plan) = case.plan() else {
            prop_assert!(count > case.lengths.len());
            return Ok(());
        };
        let batches: Vec<&Vec<u32>> = plan.ranks.iter().flatten().collect();
        let mut placed: Vec<u32> = batches.iter().copied().flatten().copied().collect();
        placed.sort_unstable();
        prop_assert!(placed.into_iter().eq(0..case.lengths.len() as u32));
        prop_assert!(batches.iter().all(|batch| !batch.is_empty() && case.holds(batch) && batch.is_sorted()));
        prop_assert!(batches.len() % unit == 0);
        // A pipeline may have more to be short, one rank to be even.
        prop_assert!(batches.len() <= count || case.aim.pipeline().is_some() || case.dp_size == 1);
    }

    #[test]
    fn the_plan_is_the_same_every_time(case in case()) {
        prop_assert_eq!(case.plan(), case.plan());
    }

    #[test]
    fn more_effort_is_never_worse(case in case(), more in 0_u64..300) {
        let Ok(plan) = case.plan() else { return Ok(()) };
        let harder = Case { effort: case.effort + more, ..case.clone() };
        prop_assert!(case.time(&harder.plan().unwrap()) <= case.time(&plan));
    }

    #[test]
    fn the_rank_that_had_the_least_so_far_gets_the_heaviest_part(case in case(), step_size in 4_usize..12) {
        let case = Case { step_size: Some(step_size.min(case.lengths.len())), ..case };
        let Ok(plan) = case.plan() else { return Ok(()) };
        let mut carried = vec![0; case.dp_size];
        let mut start = 0;
        for &count in &plan.per_step {
            let cost = |batch: &Vec<u32>| batch.iter().map(|&sample| case.costs[sample as usize]).sum::<u64>();
            let parts: Vec<u64> =
                plan.ranks.iter().map(|rank| rank[start..start + count].iter().map(cost).sum()).collect();
            let mut least_first: Vec<usize> = (0..case.dp_size).collect();
            least_first.sort_by_key(|&rank| carried[rank]);
            prop_assert!(least_first.is_sorted_by(|&one, &other| parts[one] >= parts[other]));
            carried.iter_mut().zip(parts).for_each(|(carried, part)| *carried += part);
            start += count;
        }
    }
}

/// The best time over all plans with `per_rank` micro-batches a rank: every sample goes everywhere it may.
fn optimum(case: &Case, per_rank: usize) -> u64 {
    fn place(case: &Case, sample: u32, batches: &mut Vec<Vec<u32>>, best: &mut u64) {
        if sample as usize == case.lengths.len() {
            if batches.iter().all(|batch| !batch.is_empty()) {
                let cost = |batch: &Vec<u32>| batch.iter().map(|&sample| case.costs[sample as usize]).sum();
                let mut costs: Vec<u64> = batches.iter().map(cost).collect();
                let time: u64 = if case.aim == Aim::MicroBatch {
                    // Rows in descending order; within a row the ranks do not matter.
                    costs.sort_unstable_by(|a, b| b.cmp(a));
                    costs.chunks(case.dp_size).map(|row| row[0]).sum()
                } else {
                    costs.chunks(costs.len() / case.dp_size).map(|rank| rank.iter().sum()).max().unwrap()
                };
                *best = time.min(*best);
            }
            return;
        }
        for batch in 0..batches.len() {
            batches[batch].push(sample);
            if case.holds(&batches[batch]) {
                place(case, sample + 1, batches, best);
            }
            batches[batch].pop();
        }
    }
    let mut best = u64::MAX;
    place(case, 0, &mut vec![vec![]; per_rank * case.dp_size], &mut best);
    best
}

#[test]
fn tiny_problems_are_planned_as_short_as_can_be() {
    let mut numbers = Numbers(5);
    let (mut tried, mut exact, mut within) = (0, 0, 0);
    let mut worst = 1.0;
    while tried < 200 {
        let lengths: Vec<i64> = (0..5 + numbers.below(4)).map(|_| 1 + numbers.below(100) as i64).collect();
        let cost = |&length: &i64| (100 * length + length * length).unsigned_abs();
        let case = Case {
            costs: lengths.iter().map(cost).collect(),
            max_tokens: 100 + numbers.below(100) as i64,
            aim: if tried % 2 == 0 { Aim::Step } else { Aim::MicroBatch },
            lengths,
            ..Case::default()
        };
        let Ok(plan) = case.plan() else { continue };
        let (time, best) = (case.time(&plan), optimum(&case, plan.per_step[0]));
        let ratio = time as f64 / best as f64;
        tried += 1;
        exact += u32::from(time == best);
        within += u32::from(ratio <= 1.05);
        worst = ratio.max(worst);
    }
    println!("optimal {exact}, within 5 % {within} of {tried}; worst {worst:.3}");
    assert!(exact == 200, "optimal {exact}, within 5 % {within} of {tried}; worst {worst:.3}");
}
