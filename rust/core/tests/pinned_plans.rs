//! The plans within the cap, pinned: version 0.1.0's answers on synthetic steps are the contract, sample by sample, since
//! every rank of a cluster, whatever its version, must come to one plan.
//!
//! `pinned/capped.txt` holds a line a scenario: a hash of the whole schedule, then micro-batches per rank, time by the
//! objective and time ÷ lower bound, so that a change can be read and not only be seen. `pinned/small.txt` holds the same of
//! small steps full of ties, where one comparison turned round changes the plan. When a change is meant:
//!
//! ```text
//! WRITE_PINS=1 cargo test --package flopbalance-core --test pinned_plans
//! git diff rust/core/tests/pinned
//! ```
mod common;

use common::{Aim, Case, Numbers, Plan};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pinned");

/// What samples look like, and how far above the lower bound the plans of [`LARGE`] samples or more may end: the mean
/// over the scenarios and any one of them, where ranks meet by step or micro-batch, and the same for pipelines. The bound
/// knows neither cap nor padding, and for a pipeline only its cheapest sample at the ends; what these force counts too.
const FAMILIES: [(&str, [Gate; 2]); 9] = [
    ("heavy-tailed, convex costs", [Gate(1.0025, 1.008), Gate(1.2, 1.32)]),
    ("heavy-tailed, costs as tokens", [Gate(1.001, 1.001), Gate(1.14, 1.2)]),
    ("heavy-tailed, costs unrelated", [Gate(1.003, 1.005), Gate(1.055, 1.075)]),
    ("uniform, convex costs", [Gate(1.015, 1.075), Gate(1.095, 1.17)]),
    ("uniform, costs unrelated", [Gate(1.008, 1.021), Gate(1.075, 1.13)]),
    ("two lengths", [Gate(1.015, 1.055), Gate(1.11, 1.33)]),
    ("equal lengths", [Gate(1.016, 1.07), Gate(1.115, 1.175)]),
    ("one giant", [Gate(1.085, 1.2), Gate(1.005, 1.01)]),
    ("some empty, some free", [Gate(1.03, 1.08), Gate(1.21, 1.36)]),
];

/// The largest mean and the largest single ratio of time to bound.
struct Gate(f64, f64);

/// From here on the bound is near, where there are as many micro-batches as that.
const LARGE: usize = 90;

const SIZES: [usize; 7] = [6, 11, 24, 50, 90, 200, 420];

/// Lengths and costs of one family.
fn samples(family: usize, count: usize, numbers: &mut Numbers) -> (Vec<i64>, Vec<u64>) {
    let lengths: Vec<i64> = (0..count)
        .map(|sample| {
            let length = match family {
                0..=2 => {
                    let magnitude = numbers.below(8);
                    1 + numbers.below(16 << magnitude)
                }
                3 | 4 => 1 + numbers.below(1000),
                5 => [130, 900][usize::from(numbers.below(4) == 0)],
                6 => 250,
                7 => [1 + numbers.below(60), 3000][usize::from(sample == count / 2)],
                _ => numbers.below(3) * numbers.below(400),
            };
            length as i64
        })
        .collect();
    let cost = |&length: &i64| {
        let length = length.unsigned_abs();
        match family {
            1 => length,
            2 | 4 => numbers.below(10_000),
            8 => numbers.below(2) * (700 * length + length * length),
            _ => 700 * length + length * length,
        }
    };
    let costs = lengths.iter().map(cost).collect();
    (lengths, costs)
}

struct Scenario {
    family: usize,
    name: String,
    case: Case,
    plan: Result<Plan, String>,
}

/// Planned once for all tests.
static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(scenarios);

/// Every family under every objective and cap, in three sizes; what else can be asked for turns up in a fixed sequence.
fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut numbers = Numbers(2026);
    let aims = [Aim::Step, Aim::MicroBatch, Aim::Pipeline(4, 0.0), Aim::Pipeline(3, 0.002)];
    for family in 0..FAMILIES.len() {
        for aim in aims {
            for tight in [true, false] {
                for sizes in [&SIZES[..3], &SIZES[2..5], &SIZES[4..]] {
                    let samples = numbers.pick(sizes);
                    scenarios.push(scenario(family, aim, tight, samples, &mut numbers));
                }
            }
        }
    }
    for (family, aim) in [(0, Aim::Step), (2, Aim::MicroBatch), (0, Aim::MicroBatch), (3, Aim::Pipeline(4, 0.0))] {
        scenarios.push(scenario(family, aim, true, 2000, &mut numbers));
    }
    scenarios
}

fn scenario(family: usize, aim: Aim, tight: bool, count: usize, numbers: &mut Numbers) -> Scenario {
    let (lengths, costs) = samples(family, count, numbers);
    let longest = *lengths.iter().max().unwrap();
    let mean = lengths.iter().sum::<i64>() / count as i64;
    // A giant is above its cap, and so alone.
    let cap = if family == 7 { 20 * mean.min(40) } else { longest.max(2 * mean) };
    let extra: Vec<i64> = (0..count).map(|_| numbers.below(50) as i64).collect();
    let case = Case {
        max_tokens: if tight { cap } else { 4 * cap },
        padded: numbers.below(4) == 0,
        extra: (numbers.below(4) == 0).then_some((extra, 150)),
        max_samples: None,
        dp_size: if count < 24 { 2 } else { numbers.pick(&[2, 3, 4, 8]) },
        multiple: numbers.pick(&[1, 1, 1, 2]),
        effort: numbers.pick(&[0, 16, 256, 256]),
        step_size: (numbers.below(4) == 0).then_some(count / 2 - numbers.below(2) as usize),
        repeat: numbers.below(2) == 0,
        aim,
        lengths,
        costs,
    };
    let mut name = format!("{}, {count} samples, {aim:?}, cap {}", FAMILIES[family].0, case.max_tokens);
    write!(name, ", {} ranks x {}, effort {}", case.dp_size, case.multiple, case.effort).unwrap();
    for (word, has) in [("padded", case.padded), ("extra", case.extra.is_some()), ("repeat", case.repeat)] {
        name += if has { ", " } else { "" };
        name += if has { word } else { "" };
    }
    if let Some(size) = case.step_size {
        write!(name, ", steps of {size}").unwrap();
    }
    Scenario { family, name, plan: case.plan(), case }
}

/// A small step with few different lengths and costs, of every kind.
fn small(seed: u64) -> Case {
    let mut numbers = Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    numbers.below(2); // the first of near seeds are alike
    numbers.below(2);
    let most = numbers.pick(&[30, 30, 30, 150]);
    let count = 3 + numbers.below(most);
    let longer = numbers.pick(&[4, 12, 60, 1000]);
    let lengths: Vec<u64> = (0..count).map(|_| numbers.below(longer)).collect();
    let kind = numbers.below(4);
    let costlier = numbers.pick(&[3, 10, 40, 1000, 100_000]);
    let cost = |&length: &u64| match kind {
        0 => length,
        1 => length * length + 10 * length,
        _ => numbers.below(costlier),
    };
    let costs: Vec<u64> = lengths.iter().map(cost).collect();
    let extra: Vec<i64> = (0..count).map(|_| numbers.below(9) as i64).collect();
    let (longest, total) = (lengths.iter().max().unwrap(), lengths.iter().sum::<u64>());
    let tight = numbers.below(3) == 0;
    let max_tokens = if tight { 1 + numbers.below(1 + total) } else { longest + numbers.below(2 * longer + 1) };
    let aim = numbers.below(5);
    let share = numbers.pick(&[0.001, 0.02, 0.3, 1.5]);
    let stages = [2 + numbers.below(7), 2 + numbers.below(3)];
    Case {
        max_tokens: max_tokens.max(1) as i64,
        aim: match aim {
            0 => Aim::Step,
            1 | 2 => Aim::MicroBatch,
            3 => Aim::Pipeline(stages[0], 0.0),
            _ => Aim::Pipeline(stages[1], share),
        },
        padded: numbers.below(4) == 0,
        extra: (numbers.below(4) == 0).then_some((extra, 9 + numbers.below(40) as i64)),
        dp_size: 1 + numbers.below(5) as usize,
        multiple: numbers.pick(&[1, 1, 2]),
        effort: numbers.pick(&[2, 20, 256]),
        lengths: lengths.into_iter().map(|length| length as i64).collect(),
        costs,
        ..Case::default()
    }
}

/// The first 400, and some that show a change of the planner that these do not.
fn small_seeds() -> impl Iterator<Item = u64> {
    (0..400).chain([410, 557, 768, 776, 945, 1061, 1124, 1225, 1850, 2048, 2725, 3209])
}

/// A line of a table.
fn line(name: &str, case: &Case, plan: &Result<Plan, String>) -> String {
    match plan {
        Ok(plan) => {
            let (time, bound) = (case.time(plan), case.bound(plan).max(1));
            let per_step = &plan.per_step;
            format!("{name}: {:016x} {per_step:?} {time} {:.4}", plan.hash(), time as f64 / bound as f64)
        }
        Err(refusal) => format!("{name}: {refusal}"),
    }
}

/// Compares with a table, or writes it.
fn check(table: &str, now: &[String]) {
    let table = format!("{TABLES}/{table}");
    if std::env::var_os("WRITE_PINS").is_some() {
        std::fs::write(table, now.join("\n") + "\n").unwrap();
        return;
    }
    let table = std::fs::read_to_string(table).unwrap();
    let pinned: Vec<&str> = table.lines().collect();
    assert_eq!(pinned.len(), now.len(), "scenarios in the table");
    let changed: Vec<String> = pinned
        .iter()
        .zip(now)
        .filter(|(pinned, now)| pinned != now)
        .map(|(pinned, now)| format!("- {pinned}\n+ {now}"))
        .collect();
    assert!(changed.is_empty(), "{} of {} plans changed:\n{}", changed.len(), now.len(), changed.join("\n"));
}

#[test]
fn plans_are_those_of_the_table() {
    let line = |Scenario { name, case, plan, .. }: &Scenario| line(name, case, plan);
    check("capped.txt", &SCENARIOS.iter().map(line).collect::<Vec<_>>());
}

#[test]
fn plans_of_small_steps_are_those_of_the_table() {
    let line = |seed: u64| {
        let case = small(seed);
        let name = format!("{seed}: {} samples, {:?}, {} ranks", case.lengths.len(), case.aim, case.dp_size);
        line(&name, &case, &case.plan())
    };
    check("small.txt", &small_seeds().map(line).collect::<Vec<_>>());
}

#[test]
fn plans_keep_the_limits_and_place_every_sample() {
    for Scenario { name, case, plan, .. } in SCENARIOS.iter() {
        let Ok(plan) = plan else { continue };
        assert!(plan.ranks.iter().flatten().all(|batch| !batch.is_empty() && case.holds(batch)), "{name}");
        let mut placed: Vec<u32> = plan.ranks.iter().flatten().flatten().chain(&plan.dropped).copied().collect();
        placed.sort_unstable();
        placed.dedup();
        assert!(placed.into_iter().eq(0..case.lengths.len() as u32), "{name}");
    }
}

#[test]
fn plans_come_near_the_bound() {
    let mut ratios: BTreeMap<(usize, bool), Vec<(f64, &str)>> = BTreeMap::new();
    for Scenario { family, name, case, plan } in SCENARIOS.iter() {
        let Ok(plan) = plan else { continue };
        if case.lengths.len() >= LARGE && case.effort > 0 {
            let ratio = case.time(plan) as f64 / case.bound(plan) as f64;
            ratios.entry((*family, matches!(case.aim, Aim::Pipeline(..)))).or_default().push((ratio, name));
        }
    }
    assert_eq!(ratios.len(), 2 * FAMILIES.len());
    for ((family, pipeline), ratios) in ratios {
        let (name, gates) = &FAMILIES[family];
        let Gate(most_mean, most) = gates[usize::from(pipeline)];
        let mean = ratios.iter().map(|(ratio, _)| ratio).sum::<f64>() / ratios.len() as f64;
        let (worst, scenario) = ratios.iter().max_by(|(one, _), (other, _)| one.total_cmp(other)).unwrap();
        println!("{name}: {} plans, mean {mean:.4}, worst {worst:.4} ({scenario})", ratios.len());
        assert!(mean <= most_mean, "{name}: mean {mean:.4} of {} plans", ratios.len());
        assert!(*worst <= most, "{scenario}: {worst:.4}");
    }
}
