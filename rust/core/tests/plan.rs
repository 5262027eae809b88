//! The whole way from lengths to a schedule: published packings, padding, samples above the cap, refusals.
use flopbalance_core::{
    Cap, Capped, Error, ExtraBudget, Groups, Kind, Lengths, Objective, OnLeftover, OnOversize, OnShortage, Packing,
    PadTo, Pipeline, Request, Schedule, Weights, first_fit, plan, split,
};
use std::num::{NonZeroU64, NonZeroUsize};

fn count(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).unwrap()
}

fn tokens(value: u64) -> NonZeroU64 {
    NonZeroU64::new(value).unwrap()
}

fn cap(max_tokens: u64) -> Cap {
    Cap::new(tokens(max_tokens))
}

fn capped(max_tokens: u64) -> Packing<'static> {
    Packing::Capped(cap(max_tokens), Capped::new(Objective::Step))
}

/// Plans lengths with costs that are their squares.
fn planned(lengths: &[i64], request: &Request<'_>) -> Result<Schedule, Error> {
    let squares: Vec<u64> = lengths.iter().map(|&length| (length * length).unsigned_abs()).collect();
    plan(Lengths::new(lengths).unwrap(), &Weights::from_u64(squares), request)
}

/// The samples of every micro-batch, rank by rank.
fn micro_batches(schedule: &Schedule) -> Vec<Vec<i64>> {
    let ends = schedule.micro_batch_offsets.windows(2);
    ends.map(|ends| schedule.samples[ends[0] as usize..ends[1] as usize].to_vec()).collect()
}

fn with_pad(max_tokens: u64, sample: u64, micro_batch: u64) -> Cap {
    let mut cap = cap(max_tokens);
    cap.pad_to = PadTo { sample: tokens(sample), micro_batch: tokens(micro_batch) };
    cap
}

fn with_oversize(max_tokens: u64, on_oversize: OnOversize) -> Cap {
    let mut cap = cap(max_tokens);
    cap.on_oversize = on_oversize;
    cap
}

#[test]
fn first_fit_is_split_for_the_ranks_and_dealt_by_cost() {
    let schedule = planned(&[7, 2, 5, 4, 3], &Request::new(count(2), Packing::FirstFit(cap(8)))).unwrap();
    // Bins [0], [1, 2], [3, 4] become four, and the heavier two ranks' parts are level.
    assert_eq!(micro_batches(&schedule), [vec![0], vec![4], vec![1, 2], vec![3]].map(|batch| batch));
    assert_eq!(schedule.micro_batch_tokens, [7, 3, 7, 4]);
    assert_eq!(schedule.micro_batches_per_step, [2]);
    assert_eq!(schedule.rollouts_per_step, [5]);
    assert!(schedule.dropped.is_empty() && schedule.is_padding == [false; 5]);
}

#[test]
fn ranks_take_turns_where_they_are_not_balanced() {
    let mut request = Request::new(count(2), Packing::Fixed { micro_batch_size: count(1) });
    request.balance_ranks = false;
    let schedule = planned(&[9, 8, 1, 2], &request).unwrap();
    assert_eq!(micro_batches(&schedule), [[0], [2], [1], [3]]);
    request.balance_ranks = true;
    assert_eq!(micro_batches(&planned(&[9, 8, 1, 2], &request).unwrap()), [[0], [2], [1], [3]].map(|batch| batch));
    assert_eq!(micro_batches(&planned(&[9, 1, 8, 2], &request).unwrap()), [[0], [1], [2], [3]]);
}

#[test]
fn fixed_runs_are_never_split() {
    let mut request = Request::new(count(2), Packing::Fixed { micro_batch_size: count(2) });
    assert_eq!(micro_batches(&planned(&[1, 2, 3, 4], &request).unwrap()), [[2, 3], [0, 1]]);
    request.micro_batch_multiple = count(2);
    let refused = planned(&[1, 2, 3, 4], &request).unwrap_err();
    let expected = Error::NoMultiple { step: 0, micro_batches: 2, samples: 4, dp_size: 2, micro_batch_multiple: 2 };
    assert_eq!(refused, expected);
    assert!(refused.to_string().contains("must be a multiple of 4 (dp_size = 2 ranks x micro_batch_multiple = 2)"));
    assert_eq!(refused.kind(), Kind::Schedule);
}

#[test]
fn packing_by_flops_makes_as_many_parts_as_the_cap_would_need_and_may_exceed_it() {
    let request = Request::new(count(1), Packing::Flops(cap(8)));
    let schedule = planned(&[7; 8], &request).unwrap();
    assert_eq!(schedule.micro_batch_tokens.len(), 7); // 56 tokens over 8
    assert_eq!(schedule.micro_batch_tokens.iter().max(), Some(&14));
    // As many parts as samples: each alone, in order.
    assert_eq!(micro_batches(&planned(&[8, 8, 8], &request).unwrap()), [[0], [1], [2]]);
    assert_eq!(micro_batches(&planned(&[8, 8, 9], &request).unwrap()), [[0], [1], [2]]);
    // No tokens at all: one part, which is all there is to split.
    assert_eq!(micro_batches(&planned(&[0, 0], &request).unwrap()), [[0, 1]]);
}

#[test]
fn a_step_needs_a_sample_for_every_rank() {
    let refused = planned(&[5, 5], &Request::new(count(3), Packing::FirstFit(cap(8)))).unwrap_err();
    assert_eq!(refused, Error::TooFewSamples { step: 0, samples: 2, dp_size: 3 });
    assert!(planned(&[5, 5, 5], &Request::new(count(3), Packing::FirstFit(cap(8)))).is_ok());
    // Enough samples, but of no tokens: splitting would leave empty micro-batches.
    let refused = planned(&[0, 0, 0], &Request::new(count(3), Packing::FirstFit(cap(8)))).unwrap_err();
    assert_eq!(refused, Error::EmptyMicroBatch { step: 0, target: 3 });
    // More micro-batches than samples cannot be had by splitting.
    let mut request = Request::new(count(2), Packing::FirstFit(cap(8)));
    request.micro_batch_multiple = count(2);
    let refused = planned(&[5, 5, 5], &request).unwrap_err();
    assert!(matches!(refused, Error::NoMultiple { micro_batches: 3, samples: 3, .. }), "{refused:?}");
}

#[test]
fn steps_are_runs_of_whole_rollouts() {
    let mut request = Request::new(count(1), Packing::Fixed { micro_batch_size: count(1) });
    request.global_batch_size = Some(count(2));
    request.rollout_ids = Some(&[7, 8, 7, 9, 10]);
    let schedule = planned(&[1, 2, 3, 4, 5], &request).unwrap();
    assert_eq!(micro_batches(&schedule), [[0], [2], [1], [3], [4]]);
    assert_eq!((schedule.micro_batches_per_step, schedule.rollouts_per_step), (vec![3, 2], vec![2, 2]));
    request.rollout_ids = None;
    assert_eq!(planned(&[1, 2, 3, 4, 5], &request).unwrap().dropped, [4]);
    request.on_leftover = OnLeftover::Partial;
    assert_eq!(planned(&[1, 2, 3, 4, 5], &request).unwrap().rollouts_per_step, [2, 2, 1]);
    request.on_leftover = OnLeftover::Error;
    let refused = planned(&[1, 2, 3, 4, 5], &request).unwrap_err();
    assert_eq!(refused, Error::RolloutsLeftOver { rollouts: 5, global_batch_size: 2 });
    assert!(planned(&[1, 2, 3, 4], &request).is_ok());
    let refused = planned(&[1], &request).unwrap_err();
    assert_eq!(refused, Error::TooFewRollouts { rollouts: 1, global_batch_size: 2 });
    request.global_batch_size = None;
    assert_eq!(planned(&[], &request).unwrap_err(), Error::NoSamples);
}

#[test]
fn every_argument_holds_one_for_each_sample() {
    let lengths = Lengths::new(&[1, 2, 3]).unwrap();
    let mut request = Request::new(count(1), Packing::FirstFit(cap(8)));
    let refused = plan(lengths, &Weights::from_u64(vec![1, 2]), &request).unwrap_err();
    assert_eq!(refused, Error::Count { argument: "costs", samples: 3, count: 2 });
    assert_eq!(refused.to_string(), "costs must hold one cost for each of the 3 samples, got 2");
    request.rollout_ids = Some(&[1; 4]);
    let refused = plan(lengths, &Weights::from_u64(vec![1; 3]), &request).unwrap_err();
    assert_eq!(refused.to_string(), "rollout_ids must hold one id for each of the 3 samples, got 4");
    let mut how = Capped::new(Objective::Step);
    how.extra_budget = Some(ExtraBudget { amounts: &[1], cap: 1 });
    let refused = planned(&[1, 2, 3], &Request::new(count(1), Packing::Capped(cap(8), how))).unwrap_err();
    assert_eq!(refused.to_string(), "extra_budget.amounts must hold one amount for each of the 3 samples, got 1");
}

#[test]
fn second_amounts_are_checked() {
    let plan_with = |amounts: &[i64], limit| {
        let mut how = Capped::new(Objective::Step);
        how.extra_budget = Some(ExtraBudget { amounts, cap: limit });
        planned(&[1, 1], &Request::new(count(1), Packing::Capped(cap(8), how)))
    };
    assert_eq!(plan_with(&[5, -1], 9).unwrap_err(), Error::NegativeAmount { index: 1, amount: -1 });
    assert_eq!(plan_with(&[1 << 61, 1 << 61], 9).unwrap_err(), Error::TotalAmount);
    assert!(plan_with(&[1 << 61, (1 << 61) - 1], u64::MAX).is_ok());
    assert_eq!(micro_batches(&plan_with(&[5, 5], 10).unwrap()), [[0, 1]]);
    assert_eq!(micro_batches(&plan_with(&[5, 5], 9).unwrap()), [[1], [0]]);
}

#[test]
fn lengths_and_caps_are_rounded_before_they_meet() {
    let batches = |lengths: &[i64], cap| {
        let schedule = planned(lengths, &Request::new(count(1), Packing::FirstFit(cap))).unwrap();
        (schedule.micro_batch_offsets.len() - 1, schedule.micro_batch_tokens[0])
    };
    assert_eq!(batches(&[5, 5], cap(10)), (1, 10));
    assert_eq!(batches(&[5, 5], with_pad(15, 8, 1)), (2, 5)); // 8 + 8 tokens, but those of the samples are reported
    assert_eq!(batches(&[5, 5], with_pad(16, 8, 1)), (1, 10));
    assert_eq!(batches(&[8, 8], with_pad(16, 8, 1)), (1, 16)); // multiples stay as they are
    assert_eq!(batches(&[5, 5], with_pad(11, 1, 4)), (2, 5)); // 10 tokens would be padded to 12
    assert_eq!(batches(&[5, 5], with_pad(12, 1, 4)), (1, 10));
    let refused = |lengths: &[i64], cap| planned(lengths, &Request::new(count(1), Packing::FirstFit(cap))).unwrap_err();
    assert_eq!(refused(&[1], with_pad(3, 1, 4)), Error::CapBelowPadding { max_tokens: 3, pad_to: 4 });
    assert!(planned(&[1], &Request::new(count(1), Packing::FirstFit(with_pad(4, 1, 4)))).is_ok());
    let large = tokens(1 << 62).get();
    let lengths = Lengths::new(&[(1 << 62) + 1]).unwrap();
    let refuse = |lengths, cap| {
        plan(
            lengths,
            &Weights::from_u64(vec![1; 2][..lengths_of(lengths)].to_vec()),
            &Request::new(count(1), Packing::FirstFit(cap)),
        )
    };
    let padded = refuse(lengths, with_pad(u64::MAX, large, 1)).unwrap_err();
    assert_eq!(padded, Error::PaddedLength { length: (1 << 62) + 1, pad_to: 1 << 62 });
    let total = refuse(Lengths::new(&[1, 1]).unwrap(), with_pad(u64::MAX, large, 1)).unwrap_err();
    assert_eq!(total, Error::TotalLength { total: 1 << 63 });
}

fn lengths_of(lengths: Lengths<'_>) -> usize {
    lengths.len()
}

#[test]
fn a_sample_above_the_cap_is_alone_dropped_or_refused() {
    let lengths = [5, 11, 10, 3];
    let with = |cap: Cap| planned(&lengths, &Request::new(count(1), Packing::FirstFit(cap)));
    assert_eq!(micro_batches(&with(cap(10)).unwrap()), [vec![0, 3], vec![1], vec![2]]);
    let dropped = with(with_oversize(10, OnOversize::Drop)).unwrap();
    assert_eq!(micro_batches(&dropped), [vec![0, 3], vec![2]]);
    assert_eq!((&dropped.dropped[..], &dropped.rollouts_per_step[..]), (&[1][..], &[4][..]));
    let refused = with(with_oversize(10, OnOversize::Error)).unwrap_err();
    let expected = Error::Oversize { amounts: "lengths", index: 1, amount: 11, cap: 10, oversize: 1, samples: 4 };
    assert_eq!(refused, expected);
    assert!(with(with_oversize(11, OnOversize::Error)).is_ok());
    assert_eq!(with(with_oversize(2, OnOversize::Drop)).unwrap_err(), Error::AllOversize { samples: 4 });
}

#[test]
fn a_dropped_sample_leaves_its_own_step_only() {
    let with = |lengths: &[i64], dp_size, rollouts| {
        let mut request = Request::new(count(dp_size), Packing::FirstFit(with_oversize(10, OnOversize::Drop)));
        request.global_batch_size = Some(count(rollouts));
        planned(lengths, &request)
    };
    let schedule = with(&[50, 5, 5, 5, 5, 5, 5, 5], 1, 4).unwrap();
    assert_eq!(micro_batches(&schedule), [vec![1, 2], vec![3], vec![4, 5], vec![6, 7]]);
    assert_eq!((&schedule.micro_batches_per_step[..], &schedule.rollouts_per_step[..]), (&[2, 2][..], &[4, 4][..]));
    assert_eq!(schedule.dropped, [0]);
    assert_eq!(with(&[5, 5, 5, 5, 5, 5, 5, 50], 2, 8).unwrap().dropped, [7]);
    // What is left must do for the ranks of every step.
    let refused = with(&[5, 5, 50, 50, 50, 5], 2, 3).unwrap_err();
    let why = Error::TooFewSamples { step: 1, samples: 1, dp_size: 2 };
    assert_eq!(refused, Error::AfterDropping { oversize: 2, error: Box::new(why) });
    let text = "step 1 must hold at least one sample for each of the dp_size = 2 ranks, got 1; 2 more are above \
                the cap, and dropped";
    assert_eq!(refused.to_string(), text);
    assert_eq!(refused.kind(), Kind::Schedule);
    // A step of which nothing is left is none.
    let schedule = with(&[50, 50, 5, 5], 2, 2).unwrap();
    assert_eq!((schedule.dropped, schedule.rollouts_per_step), (vec![0, 1], vec![2]));
}

#[test]
fn padded_tokens_of_dropped_samples_do_not_count() {
    let plan_with = |on_oversize| {
        let mut cap = with_pad(1 << 61, 1 << 61, 1);
        cap.on_oversize = on_oversize;
        let costs = Weights::from_u64(vec![1; 3]);
        plan(
            Lengths::new(&[1, 1 << 61, (1 << 61) + 1]).unwrap(),
            &costs,
            &Request::new(count(1), Packing::FirstFit(cap)),
        )
    };
    assert_eq!(plan_with(OnOversize::Alone).unwrap_err(), Error::TotalLength { total: 1 << 63 });
    assert_eq!(plan_with(OnOversize::Drop).unwrap().dropped, [2]);
}

#[test]
fn leftovers_that_cannot_fill_the_ranks_get_no_step() {
    let with = |packing, samples: usize| {
        let mut request = Request::new(count(2), packing);
        request.global_batch_size = Some(count(8));
        request.on_leftover = OnLeftover::Partial;
        planned(&vec![5; samples], &request)
    };
    let capped = |on_shortage| {
        let mut how = Capped::new(Objective::Step);
        how.on_shortage = on_shortage;
        Packing::Capped(cap(10), how)
    };
    let published =
        [Packing::Fixed { micro_batch_size: count(1) }, Packing::FirstFit(cap(10)), Packing::Flops(cap(10))];
    for packing in [&published[..], &[capped(OnShortage::Error)]].concat() {
        let schedule = with(packing, 9).unwrap();
        assert_eq!((schedule.dropped, schedule.rollouts_per_step), (vec![8], vec![8]), "{packing:?}");
        assert_eq!(with(packing, 10).unwrap().rollouts_per_step, [8, 2]);
        // Where they are all there is, nothing would be left of the plan.
        assert_eq!(with(packing, 1).unwrap_err().kind(), Kind::Schedule);
    }
    let repeated = with(capped(OnShortage::Repeat), 9).unwrap();
    assert_eq!((repeated.dropped, repeated.rollouts_per_step), (vec![], vec![8, 1]));
    assert_eq!(repeated.is_padding.iter().filter(|&&padding| padding).count(), 1);
}

#[test]
fn ranks_go_on_with_what_they_carry() {
    let with = |carried: Option<&Weights<'_>>, costs: &Weights<'_>| {
        let mut how = Capped::new(Objective::Step);
        how.carried = carried;
        let request = Request::new(count(2), Packing::Capped(cap(100), how));
        plan(Lengths::new(&[9, 4, 3]).unwrap(), costs, &request)
    };
    let heavy_rank = |carried: &Weights<'_>, costs: &Weights<'_>| {
        let batches = micro_batches(&with(Some(carried), costs).unwrap());
        batches.iter().position(|batch| batch == &[0]).unwrap()
    };
    let costs = Weights::from_u64(vec![9, 4, 3]);
    assert_eq!(with(None, &costs).unwrap(), with(Some(&Weights::from_u64(vec![0, 0])), &costs).unwrap());
    let beyond = Weights::from_u128(vec![9 << 100, 4 << 100, 3 << 100]).unwrap();
    let floats = |values: &[f64]| Weights::from_f64(values.to_vec()).unwrap();
    for costs in [&costs, &beyond, &floats(&[4.5, 2.0, 1.5]), &floats(&[0.9, 0.4, 0.3])] {
        for (more, less) in [(1.0, 0.0), (0.3, 0.1), (1e300, 1e299)] {
            assert_eq!(heavy_rank(&floats(&[less, more]), costs), 0, "{less} {more} {costs:?}");
            assert_eq!(heavy_rank(&floats(&[more, less]), costs), 1, "{more} {less} {costs:?}");
        }
    }
    // Exact as far as 128 bits reach.
    let large = Weights::from_u128(vec![1 << 126, (1 << 126) - 1]).unwrap();
    assert_eq!([&costs, &beyond].map(|costs| heavy_rank(&large, costs)), [1, 1]);
    for (more, less) in [(0.1 + f64::EPSILON, 0.1), (1e-30, 0.0)] {
        assert_eq!(heavy_rank(&floats(&[more, less]), &costs), 1);
    }
    let refused = with(Some(&Weights::from_u64(vec![1; 3])), &costs).unwrap_err();
    assert_eq!(refused, Error::Loads { loads: 3, dp_size: 2 });
    assert_eq!(refused.to_string(), "carried must hold one load for each of the dp_size = 2 ranks, got 3");
}

#[test]
fn loads_are_added_in_one_unit() {
    // Steps of two samples: the second goes by what was carried and the first together.
    let parts = |carried: Weights<'_>, costs: Weights<'_>| {
        let mut how = Capped::new(Objective::Step);
        how.carried = Some(&carried);
        let mut request = Request::new(count(2), Packing::Capped(cap(1), how));
        request.global_batch_size = Some(count(2));
        micro_batches(&plan(Lengths::new(&[1; 4]).unwrap(), &costs, &request).unwrap())
    };
    let floats = |values: &[f64]| Weights::from_f64(values.to_vec()).unwrap();
    let ints = |values: &[u64]| Weights::from_u64(values.to_vec());
    let (crossed, straight) = ([[0], [3], [1], [2]], [[0], [2], [1], [3]]);
    // Sample 0 goes to rank 0, which carries less; sample 2 to the rank that then has less.
    assert_eq!(parts(ints(&[0, 1]), ints(&[3, 1, 3, 1])), crossed);
    assert_eq!(parts(ints(&[0, 3]), ints(&[3, 1, 3, 1])), straight);
    assert_eq!(parts(floats(&[0.0, 1.75]), ints(&[3, 1, 3, 1])), crossed);
    assert_eq!(parts(floats(&[0.0, 2.25]), ints(&[3, 1, 3, 1])), straight);
    assert_eq!(parts(ints(&[0, 1]), floats(&[3.5, 1.0, 3.5, 1.0])), crossed);
    assert_eq!(parts(ints(&[0, 3]), floats(&[3.5, 1.0, 3.5, 1.0])), straight);
    assert_eq!(parts(ints(&[0, 1]), floats(&[3.1, 1.3, 3.1, 1.3])), crossed);
    assert_eq!(parts(ints(&[0, 3]), floats(&[3.1, 1.3, 3.1, 1.3])), straight);
}

#[test]
fn dropped_samples_take_their_ids_costs_and_second_amounts_with_them() {
    let mut how = Capped::new(Objective::Step);
    how.extra_budget = Some(ExtraBudget { amounts: &[1, 1, 9, 1, 1], cap: 2 });
    let mut request = Request::new(count(2), Packing::Capped(with_oversize(10, OnOversize::Drop), how));
    request.rollout_ids = Some(&[1, 2, 3, 4, 4]);
    request.global_batch_size = Some(count(4));
    let schedule = planned(&[20, 4, 4, 4, 4], &request).unwrap();
    let mut samples = schedule.samples.clone();
    samples.sort_unstable();
    assert_eq!((samples, schedule.dropped, schedule.rollouts_per_step), (vec![1, 3, 4], vec![0, 2], vec![4]));
    let mut how = Capped::new(Objective::Step);
    how.extra_budget = Some(ExtraBudget { amounts: &[1, 3], cap: 2 });
    let request = Request::new(count(1), Packing::Capped(with_oversize(10, OnOversize::Error), how));
    let refused = planned(&[4, 4], &request).unwrap_err();
    let expected =
        Error::Oversize { amounts: "extra_budget.amounts", index: 1, amount: 3, cap: 2, oversize: 1, samples: 2 };
    assert_eq!(refused, expected);
    // Rollouts that fill no step stand beside them, in order.
    let mut request = Request::new(count(1), Packing::FirstFit(with_oversize(10, OnOversize::Drop)));
    request.global_batch_size = Some(count(2));
    assert_eq!(planned(&[4, 11, 4, 4, 11], &request).unwrap().dropped, [1, 4]);
}

#[test]
fn a_step_of_too_few_samples_is_refused_or_repeats_its_cheapest() {
    let mut how = Capped::new(Objective::Step);
    let request = |how| {
        let mut request = Request::new(count(2), Packing::Capped(cap(8), how));
        request.micro_batch_multiple = count(2);
        request
    };
    let refused = planned(&[5, 8, 6], &request(how)).unwrap_err();
    let expected = Error::Shortage {
        step: 0,
        samples: 3,
        packed: 3,
        needed: 4,
        dp_size: 2,
        micro_batch_multiple: 2,
        asked_for: None,
    };
    assert_eq!(refused, expected);
    how.on_shortage = OnShortage::Repeat;
    let schedule = planned(&[5, 8, 6], &request(how)).unwrap();
    let repeated = schedule.samples.iter().zip(&schedule.is_padding).filter(|(_, is_padding)| **is_padding);
    assert_eq!(repeated.map(|(&sample, _)| sample).collect::<Vec<_>>(), [0]);
    // The shorter of equally cheap ones comes first, then the one that was given first; then all over again.
    let costs = Weights::from_u64(vec![1; 3]);
    let mut request = request(how);
    request.micro_batch_multiple = count(4);
    let schedule = plan(Lengths::new(&[6, 5, 5]).unwrap(), &costs, &request).unwrap();
    let mut times = [0; 3];
    schedule.samples.iter().for_each(|&sample| times[sample as usize] += 1);
    assert_eq!(times, [2, 3, 3]);
    request.micro_batch_multiple = count(1 << 24);
    let refused = plan(Lengths::new(&[6, 5, 5]).unwrap(), &costs, &request).unwrap_err();
    assert!(matches!(refused, Error::TooManyRepeats { needed: 33_554_432, most: 16_777_216, .. }), "{refused:?}");
}

#[test]
fn what_ranks_carry_decides_who_gets_the_heaviest_part() {
    let mut request = Request::new(count(2), capped(10));
    request.global_batch_size = Some(count(2));
    let schedule = planned(&[9, 4, 9, 4, 9, 4], &request).unwrap();
    // Rank by rank: the heavy sample of the first step, the light one of the second, ...
    assert_eq!(schedule.samples, [0, 3, 4, 1, 2, 5]);
}

#[test]
fn pipelines_are_checked_and_an_overhead_is_in_the_unit_of_costs() {
    let through_four = |overhead: f64| {
        let pipeline = Pipeline::new(tokens(4), tokens(1), None).unwrap();
        let mut how = Capped::new(Objective::Pipeline(pipeline));
        how.micro_batch_overhead = Some(overhead);
        Request::new(count(2), Packing::Capped(cap(200), how))
    };
    for overhead in [-1.0, f64::INFINITY, f64::NAN] {
        assert!(matches!(planned(&[1, 2], &through_four(overhead)), Err(Error::Overhead { .. })));
    }
    // Whatever power of two costs and overhead are multiplied by, the plan is the same.
    let lengths: Vec<i64> = (0..60).map(|i| 1 + i * 37 % 101).collect();
    let with = |unit: f64| {
        let costs: Vec<f64> = lengths.iter().map(|&length| unit * (length * length) as f64).collect();
        let costs = Weights::from_f64(costs).unwrap();
        plan(Lengths::new(&lengths).unwrap(), &costs, &through_four(unit * 2000.0)).unwrap()
    };
    let plain = with(1.0);
    for unit in [0.5, 0.25, 8.0, 2_f64.powi(-900), 2_f64.powi(900)] {
        assert_eq!(with(unit), plain, "{unit}");
    }
    // The costlier a micro-batch is by itself, the fewer there are.
    let batches = |overhead| planned(&lengths, &through_four(overhead)).unwrap().micro_batch_tokens.len();
    assert!(batches(0.0) > batches(2000.0) && batches(2000.0) > batches(1e6));
}

#[test]
fn the_published_parts_answer_by_themselves() {
    let lengths = Lengths::new(&[11, 0, 1, 9]).unwrap();
    let mut bins = first_fit(lengths, 10).unwrap();
    assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0][..], &[1, 2, 3]]);
    split(&mut bins, 3, lengths).unwrap();
    assert_eq!(bins.iter().collect::<Vec<_>>(), [&[0][..], &[3], &[2, 1]]);
    let mut bins = Groups::from_sizes(&[3, 4], &[2], 5).unwrap();
    assert_eq!(split(&mut bins, 2, lengths), Err(Error::NoItem { item: 4, bound: 4 }));
}

#[test]
fn repeats_that_carry_the_tokens_past_63_bits_are_refused() {
    let repeated = |length: i64| {
        let mut capped = Capped::new(Objective::Step);
        capped.on_shortage = OnShortage::Repeat;
        let request = Request::new(count(4), Packing::Capped(cap(8), capped));
        plan(Lengths::new(&[length]).unwrap(), &Weights::from_u64(vec![1]), &request)
    };
    assert_eq!(repeated((1 << 61) - 1).unwrap().micro_batch_tokens, [(1 << 61) - 1; 4]);
    assert_eq!(repeated(1 << 61).unwrap_err(), Error::RepeatedTokens { total: 1 << 63 });
}
