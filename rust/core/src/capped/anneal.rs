//! Out of where the descent of rows ends: a search that also takes steps that make a plan a little longer.
//!
//! The descent sees the dearest micro-batch of a row alone, and is stuck where no single trade lowers it. Here a row
//! counts by the p-norm of its costs, so that those below the peak feel pressure too, the more the nearer they are to it;
//! p grows from 16 to 256, and the steps that may be worse shrink, until the norm is the peak and no step is. Trades are
//! proposed at random, mostly of samples that cost nearly the same.
//!
//! The same on every machine: numbers come from a generator of our own, a step is taken where it costs less than a
//! threshold, not by chance, and norms are products and square roots alone, which IEEE 754 rounds in one way.
//!
//! G. Dueck and T. Scheuer, *Threshold accepting*, 1990.
use crate::capped::limits::Load;
use crate::capped::samples::{MicroBatch, Samples};
use crate::interrupt::Work;

/// Proposals of a round, for each sample.
pub(crate) const PROPOSALS: u64 = 32;

/// One round over micro-batches in rows of `width`; they stay in their rows, and keep their limits and a sample each.
pub(crate) fn anneal(samples: &Samples, batches: &mut [MicroBatch], width: usize, proposals: u64, seed: u64) {
    let mut state = State::new(samples, batches, width, seed);
    let mut work = Work::default();
    for phase in 0..PHASES {
        state.sharpen(phase);
        for _ in 0..proposals / u64::from(PHASES) {
            work.did(STEPS_PER_PROPOSAL);
            state.propose();
        }
    }
    for (batch, (mut items, load)) in batches.iter_mut().zip(state.items.into_iter().zip(state.loads)) {
        items.sort_unstable();
        *batch = MicroBatch { samples: items, load };
    }
}

/// Values of p, each twice the one before it.
const PHASES: u32 = 9;

/// The first p is 2 to the power of this.
const FIRST: u32 = 4;

/// By how much the first steps may be worse, as a share of a mean micro-batch; those of each later phase by half.
const WORSE: f64 = 0.004;

/// Steps of [`Work`] in a proposal.
const STEPS_PER_PROPOSAL: usize = 24;

/// How often a row's dearest micro-batch is sought among some of them at random.
const TOURNAMENT: usize = 4;

struct State<'a> {
    samples: &'a Samples,
    width: usize,
    /// Samples of every micro-batch, in no order.
    items: Vec<Vec<u32>>,
    loads: Vec<Load>,
    /// The micro-batch of every sample, and its place there.
    homes: Vec<(u32, u32)>,
    rows: Vec<Row>,
    /// Costs as shares of their row's unit, to the power of p.
    powers: Vec<f64>,
    /// The mean micro-batch.
    mean: f64,
    /// p is 2 to the power of this.
    doublings: u32,
    threshold: f64,
    random: Random,
}

/// A row by its norm.
#[derive(Clone, Copy, Default)]
struct Row {
    /// What costs are shares of, so that their powers neither vanish nor overflow.
    unit: f64,
    /// Of the powers.
    sum: f64,
    /// In the unit of costs.
    norm: f64,
}

/// A proposal: a sample of one micro-batch for one of another, or for none.
struct Trade {
    from: usize,
    give: u32,
    to: usize,
    take: Option<u32>,
}

impl<'a> State<'a> {
    fn new(samples: &'a Samples, batches: &mut [MicroBatch], width: usize, seed: u64) -> Self {
        let mut homes = vec![(0, 0); samples.len()];
        let total: u64 = batches.iter().map(MicroBatch::cost).sum();
        let (mut items, mut loads) = (Vec::with_capacity(batches.len()), Vec::with_capacity(batches.len()));
        for (home, batch) in (0..).zip(&mut *batches) {
            for (place, &sample) in (0..).zip(&batch.samples) {
                homes[sample as usize] = (home, place);
            }
            loads.push(batch.load);
            items.push(std::mem::take(&mut batch.samples));
        }
        let count = items.len();
        Self {
            samples,
            width,
            items,
            loads,
            homes,
            rows: vec![Row::default(); count / width],
            powers: vec![0.0; count],
            mean: total as f64 / count as f64,
            doublings: 0,
            threshold: 0.0,
            random: Random(seed),
        }
    }

    fn sharpen(&mut self, phase: u32) {
        self.doublings = (FIRST + phase / 2).min(8);
        self.threshold = if phase + 1 == PHASES { 0.0 } else { WORSE * self.mean / f64::from(1 << phase) };
        for row in 0..self.rows.len() {
            self.measure(row);
        }
    }

    /// A row's unit and norm anew.
    fn measure(&mut self, row: usize) {
        let positions = row * self.width..(row + 1) * self.width;
        let unit = positions.clone().map(|position| self.loads[position].cost).max().unwrap_or(0) as f64;
        self.rows[row].unit = if unit > 0.0 { unit } else { 1.0 };
        for position in positions.clone() {
            self.powers[position] = self.power(row, self.loads[position].cost);
        }
        let sum = self.powers[positions].iter().fold(0.0, |sum, power| sum + power);
        self.rows[row].sum = sum;
        self.rows[row].norm = self.norm(row, sum);
    }

    fn power(&self, row: usize, cost: u64) -> f64 {
        (0..self.doublings).fold(cost as f64 / self.rows[row].unit, |power, _| power * power)
    }

    fn norm(&self, row: usize, sum: f64) -> f64 {
        self.rows[row].unit * (0..self.doublings).fold(sum, |root, _| root.sqrt())
    }

    fn propose(&mut self) {
        let Some(trade) = self.trade() else { return };
        let room = &self.samples.room;
        let changed = |load: Load, out: Option<u32>, joining: Option<u32>| {
            let load = out.map_or(load, |sample| room.without(load, sample));
            joining.map_or(load, |sample| room.with(load, sample))
        };
        let from = changed(self.loads[trade.from], Some(trade.give), trade.take);
        let to = changed(self.loads[trade.to], trade.take, Some(trade.give));
        if from.samples == 0 || !room.holds(from) || !room.holds(to) {
            return;
        }
        let (row, other) = (trade.from / self.width, trade.to / self.width);
        let [lower, higher] = [self.power(row, from.cost), self.power(other, to.cost)];
        let (lower, higher) = ((trade.from, lower), (trade.to, higher));
        let sums = if row == other {
            [self.sum_with(row, &[lower, higher]); 2]
        } else {
            [self.sum_with(row, &[lower]), self.sum_with(other, &[higher])]
        };
        let norms = [self.norm(row, sums[0]), self.norm(other, sums[1])];
        let mut worse = norms[0] - self.rows[row].norm;
        if row != other {
            worse += norms[1] - self.rows[other].norm;
        }
        if worse > self.threshold || !worse.is_finite() {
            return;
        }
        for (row, sum, norm) in [(row, sums[0], norms[0]), (other, sums[1], norms[1])] {
            (self.rows[row].sum, self.rows[row].norm) = (sum, norm);
        }
        (self.powers[trade.from], self.powers[trade.to]) = (lower.1, higher.1);
        self.carry_out(&trade);
        for row in [row, other] {
            if !(1e-200..1e200).contains(&self.rows[row].sum) {
                self.measure(row);
            }
        }
    }

    /// The sum of a row's powers with some of them changed.
    fn sum_with(&self, row: usize, changed: &[(usize, f64)]) -> f64 {
        let before = self.rows[row].sum;
        let sum = changed.iter().fold(before, |sum, &(position, power)| sum + (power - self.powers[position]));
        if sum > before * 1e-9 {
            return sum;
        }
        // Nearly all is taken away, and what is left has no digits.
        let power = |position: usize| {
            let new = changed.iter().find(|&&(other, _)| other == position);
            new.map_or(self.powers[position], |&(_, power)| power)
        };
        (row * self.width..(row + 1) * self.width).map(power).fold(0.0, |sum, power| sum + power)
    }

    /// A trade at random: three times of four one of samples that cost nearly the same.
    fn trade(&mut self) -> Option<Trade> {
        let kind = self.random.below(16);
        let from = if kind < 6 {
            let start = self.random.below(self.rows.len()) * self.width;
            let some = (0..TOURNAMENT).map(|_| start + self.random.below(self.width));
            some.max_by_key(|&position| (self.loads[position].cost, position))?
        } else {
            self.random.below(self.items.len())
        };
        let give = self.items[from][self.random.below(self.items[from].len())];
        let (to, take) = if kind < 12 {
            let take = self.of_nearly_the_cost(give)?;
            (self.homes[take as usize].0 as usize, Some(take))
        } else {
            let to = self.random.below(self.items.len());
            let take = (kind % 2 == 0).then(|| self.items[to][self.random.below(self.items[to].len())]);
            (to, take)
        };
        (from != to).then_some(Trade { from, give, to, take })
    }

    /// A sample that costs a little less, as a rule, than another: by up to a seventh of a mean micro-batch, or by up to
    /// a half of that, a quarter, ...
    fn of_nearly_the_cost(&mut self, sample: u32) -> Option<u32> {
        let share = (self.random.share() - 0.3) * 0.2 / f64::from(1 << self.random.below(8));
        let want = self.samples.cost(sample) as f64 - share * self.mean;
        let count = self.samples.len();
        let nearest = self.samples.room.cheaper_than(want.max(0.0) as u64) + self.random.below(5);
        nearest.checked_sub(2).filter(|&nearest| nearest < count).map(|nearest| nearest as u32)
    }

    fn carry_out(&mut self, trade: &Trade) {
        let Trade { from, give, to, take } = *trade;
        self.remove(from, give);
        if let Some(take) = take {
            self.remove(to, take);
            self.add(from, take);
        }
        self.add(to, give);
    }

    fn remove(&mut self, from: usize, sample: u32) {
        let place = self.homes[sample as usize].1 as usize;
        self.items[from].swap_remove(place);
        if let Some(&moved) = self.items[from].get(place) {
            self.homes[moved as usize].1 = place as u32;
        }
        self.loads[from] = self.samples.room.left(self.loads[from], sample, &self.items[from]);
    }

    fn add(&mut self, to: usize, sample: u32) {
        self.homes[sample as usize] = (to as u32, self.items[to].len() as u32);
        self.items[to].push(sample);
        self.loads[to] = self.samples.room.with(self.loads[to], sample);
    }
}

/// A generator of numbers without pattern, the same everywhere: Marsaglia's xorshift, multiplied.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to one less than a count.
    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
