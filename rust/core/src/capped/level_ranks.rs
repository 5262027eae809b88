//! Search for the step and pipeline objectives: ranks meet once a step, so what counts is the slowest rank.
use crate::Groups;
use crate::capped::clock::Clock;
use crate::capped::samples::MicroBatch;
use crate::capped::trade::{Gain, Search, Trade};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Which micro-batches every rank runs, as many on each, in their order.
pub(crate) struct Ranks {
    /// Positions in the list of micro-batches, rank by rank.
    batches: Vec<u32>,
    of_rank: usize,
}

impl Ranks {
    /// Equal parts as the ranks have them.
    pub fn new(parts: &Groups) -> Self {
        let batches: Vec<u32> = parts.iter().flatten().copied().collect();
        Self { of_rank: batches.len() / parts.len(), batches }
    }

    /// Runs of micro-batches, as the ranks have them.
    pub fn in_order(batches: usize, ranks: usize) -> Self {
        Self { batches: (0..batches as u32).collect(), of_rank: batches / ranks }
    }

    /// The micro-batches of every rank.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.batches.chunks(self.of_rank)
    }

    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u32]> {
        self.batches.chunks_mut(self.of_rank)
    }

    fn of(&self, rank: usize) -> &[u32] {
        &self.batches[rank * self.of_rank..][..self.of_rank]
    }

    fn of_mut(&mut self, rank: usize) -> &mut [u32] {
        &mut self.batches[rank * self.of_rank..][..self.of_rank]
    }

    /// The time of the slowest rank.
    pub fn time(&self, batches: &[MicroBatch], clock: &mut Clock) -> u64 {
        self.iter().map(|of_rank| clock.time(batches, of_rank)).max().unwrap_or(0)
    }
}

/// How far apart in the order of a pipeline micro-batches may stand that change places.
const NEAR: usize = 8;

/// How many micro-batches of either rank, the slower's costliest and the faster's cheapest, trade samples.
const TRADERS: usize = 16;

/// Relieves the slowest rank, over and over, by what levels it best with another, the fastest first. Stops within
/// the tolerance of the bound, when nothing helps or when the look-ups are spent. The slowest rank's time never rises.
pub(crate) fn level_ranks(search: &mut Search<'_>, batches: &mut [MicroBatch], ranks: &mut Ranks, clock: &mut Clock) {
    let mut times: Vec<u64> = ranks.iter().map(|of_rank| clock.time(batches, of_rank)).collect();
    let mut by_time: BTreeSet<_> = times.iter().enumerate().map(|(rank, &time)| (time, Reverse(rank))).collect();
    while search.lookups > 0 {
        let Some(&(time, Reverse(slowest))) = by_time.last() else { return };
        if time < search.bound + search.tolerance {
            return;
        }
        let mut alone = Alone { batches, of_rank: ranks.of_mut(slowest), clock, time };
        let helper = if alone.reorder(search) {
            Some(slowest)
        } else {
            let parts = clock.parts();
            let others = by_time.iter().take_while(|&&(other, _)| (time - other) / parts > 1);
            others
                .map(|&(_, Reverse(other))| other)
                .find(|&other| relieve(search, batches, ranks, clock, [slowest, other], &times))
        };
        let helper = helper.or_else(|| {
            let mut alone = Alone { batches, of_rank: ranks.of_mut(slowest), clock, time };
            alone.trade(search).then_some(slowest)
        });
        let Some(helper) = helper else { return };
        for rank in [slowest, helper] {
            by_time.remove(&(times[rank], Reverse(rank)));
            times[rank] = clock.time(batches, ranks.of(rank));
            by_time.insert((times[rank], Reverse(rank)));
        }
    }
}

/// Something two ranks can do for each other: with which micro-batch of either, and the time of the slower after it.
struct Change {
    time: u64,
    slow: u32,
    fast: u32,
    kind: Move,
}

enum Move {
    /// The micro-batches change ranks.
    Swap,
    Trade(Trade),
    /// The micro-batches become these.
    DealAnew([MicroBatch; 2]),
}

/// Levels two ranks, the slower first, as well as it can; `false` when the slower of the two gains nothing.
fn relieve(
    search: &mut Search<'_>,
    batches: &mut [MicroBatch],
    ranks: &mut Ranks,
    clock: &mut Clock,
    [slow, fast]: [usize; 2],
    times: &[u64],
) -> bool {
    let mut costliest_first = ranks.of(slow).to_vec();
    let mut cheapest_first = ranks.of(fast).to_vec();
    costliest_first.sort_unstable_by_key(|&position| (Reverse(batches[position as usize].cost()), position));
    cheapest_first.sort_unstable_by_key(|&position| (batches[position as usize].cost(), position));
    let mut pair = Pair {
        batches,
        ranks: [ranks.of(slow), ranks.of(fast)],
        times: [times[slow], times[fast]],
        clock,
        costliest_first,
        cheapest_first,
    };
    let gain = pair.gain();
    let level = pair.times[0] - (gain.want - gain.least) * pair.clock.parts();
    let mut best = pair.swap(search);
    if best.as_ref().is_none_or(|change| change.time > level) {
        best = best.into_iter().chain(pair.trade(search, level)).min_by_key(|change| change.time);
    }
    let Some(change) = best.or_else(|| pair.deal_anew(search)) else { return false };
    match change.kind {
        Move::Swap => {
            for (rank, from, to) in [(slow, change.slow, change.fast), (fast, change.fast, change.slow)] {
                let taken = ranks.of_mut(rank).iter_mut().filter(|position| **position == from);
                taken.for_each(|position| *position = to);
            }
        }
        Move::Trade(trade) => search.carry_out(trade, batches, change.slow as usize, change.fast as usize),
        Move::DealAnew([one, other]) => {
            batches[change.slow as usize] = one;
            batches[change.fast as usize] = other;
        }
    }
    true
}

/// Two ranks, the slower first.
struct Pair<'a> {
    batches: &'a [MicroBatch],
    ranks: [&'a [u32]; 2],
    times: [u64; 2],
    clock: &'a mut Clock,
    costliest_first: Vec<u32>,
    cheapest_first: Vec<u32>,
}

impl Pair<'_> {
    fn batch(&self, position: u32) -> &MicroBatch {
        &self.batches[position as usize]
    }

    fn gain(&self) -> Gain {
        Gain::level((self.times[0] - self.times[1]) / self.clock.parts())
    }

    /// The time of a rank once one of its micro-batches has another cost.
    fn time_after(&mut self, search: &mut Search<'_>, rank: usize, changed: u32, cost: u64) -> u64 {
        let Self { batches, ranks, times, clock, .. } = self;
        if clock.pipeline().is_none() {
            return times[rank] - batches[changed as usize].cost() + cost;
        }
        if search.lookups == 0 {
            return u64::MAX; // what is not looked at helps nobody
        }
        search.spend(clock.lookups(ranks[rank].len()));
        clock.time_of(
            ranks[rank].iter().map(
                |&position| {
                    if position == changed { cost } else { batches[position as usize].cost() }
                },
            ),
        )
    }

    /// The change, if it leaves both ranks faster than the slower was.
    fn change(
        &mut self,
        search: &mut Search<'_>,
        [slow, fast]: [u32; 2],
        costs: [u64; 2],
        kind: Move,
    ) -> Option<Change> {
        let mut time = self.time_after(search, 0, slow, costs[0]);
        if time < self.times[0] {
            time = time.max(self.time_after(search, 1, fast, costs[1]));
        }
        (time < self.times[0]).then_some(Change { time, slow, fast, kind })
    }

    /// The micro-batches whose change of ranks levels best. **O(m log m)** for m of them on a rank.
    fn swap(&mut self, search: &mut Search<'_>) -> Option<Change> {
        let want = self.gain().want;
        let mut best: Option<Change> = None;
        for place in 0..self.costliest_first.len() {
            let slow = self.costliest_first[place];
            let cost = self.batch(slow).cost();
            let position = self.cheapest_first.partition_point(|&fast| self.batch(fast).cost() + want < cost);
            for place in (position.saturating_sub(1)..self.cheapest_first.len()).take(2) {
                let fast = self.cheapest_first[place];
                search.spend(1);
                let change = self.change(search, [slow, fast], [self.batch(fast).cost(), cost], Move::Swap);
                best = best.into_iter().chain(change).min_by_key(|change| change.time);
            }
        }
        best
    }

    /// The best trade of samples, or the first that is as good as `level`.
    fn trade(&mut self, search: &mut Search<'_>, level: u64) -> Option<Change> {
        let mut best: Option<Change> = None;
        for [slow, fast] in self.traders() {
            let [x, y] = [slow, fast].map(|position| self.batch(position));
            if let Some(trade) = search.trade(x, y, self.gain()) {
                let costs = [x.cost() - trade.gain, y.cost() + trade.gain];
                let change = self.change(search, [slow, fast], costs, Move::Trade(trade));
                best = best.into_iter().chain(change).min_by_key(|change| change.time);
                if best.as_ref().is_some_and(|change| change.time <= level) {
                    break;
                }
            }
        }
        best
    }

    /// The first two micro-batches that level the ranks when they are dealt anew.
    fn deal_anew(&mut self, search: &mut Search<'_>) -> Option<Change> {
        let parts = self.clock.parts();
        self.traders().into_iter().find_map(|[slow, fast]| {
            let [x, y] = [slow, fast].map(|position| self.batch(position));
            let ahead = [self.times[0] / parts - x.cost(), self.times[1] / parts - y.cost()];
            let anew = search.deal_anew([x, y], ahead)?;
            self.change(search, [slow, fast], anew.each_ref().map(MicroBatch::cost), Move::DealAnew(anew))
        })
    }

    fn traders(&self) -> Vec<[u32; 2]> {
        let some = |positions: &[u32]| positions.iter().copied().take(TRADERS).collect::<Vec<_>>();
        let fast = some(&self.cheapest_first);
        some(&self.costliest_first)
            .into_iter()
            .flat_map(move |slow| fast.clone().into_iter().map(move |fast| [slow, fast]))
            .collect()
    }
}

/// A rank whose pipeline ends later than it need, by the order of its micro-batches or by their costs.
struct Alone<'a> {
    batches: &'a mut [MicroBatch],
    of_rank: &'a mut [u32],
    clock: &'a mut Clock,
    time: u64,
}

impl Alone<'_> {
    /// Exchanges the two micro-batches, near each other, whose exchange helps most.
    fn reorder(&mut self, search: &mut Search<'_>) -> bool {
        if self.clock.pipeline().is_none() {
            return false;
        }
        let count = self.of_rank.len();
        let mut best = (self.time, [0, 0]);
        for one in 0..count {
            for other in (one + 1..count).take(NEAR) {
                if search.lookups == 0 {
                    break;
                }
                self.of_rank.swap(one, other);
                search.spend(self.clock.lookups(count));
                let time = self.clock.time(self.batches, self.of_rank);
                self.of_rank.swap(one, other);
                if time < best.0 {
                    best = (time, [one, other]);
                }
            }
        }
        let [one, other] = best.1;
        self.of_rank.swap(one, other);
        best.0 < self.time
    }

    /// A trade between two of the rank's micro-batches.
    fn trade(&mut self, search: &mut Search<'_>) -> bool {
        if self.clock.pipeline().is_none() {
            return false;
        }
        let mut costliest_first = self.of_rank.to_vec();
        costliest_first.sort_unstable_by_key(|&position| (Reverse(self.batches[position as usize].cost()), position));
        for (place, &giver) in costliest_first.iter().enumerate() {
            for &taker in costliest_first[place + 1..].iter().rev() {
                let [x, y] = [giver, taker].map(|position| &self.batches[position as usize]);
                let gap = x.cost() - y.cost();
                if gap < 2 || search.lookups == 0 {
                    continue;
                }
                let Some(trade) = search.trade(x, y, Gain::level(gap)) else { continue };
                search.spend(self.clock.lookups(self.of_rank.len()));
                let batches = &self.batches;
                let time = self.clock.time_of(self.of_rank.iter().map(|&position| {
                    let cost = batches[position as usize].cost();
                    match position {
                        position if position == giver => cost - trade.gain,
                        position if position == taker => cost + trade.gain,
                        _ => cost,
                    }
                }));
                if time < self.time {
                    search.carry_out(trade, self.batches, giver as usize, taker as usize);
                    return true;
                }
            }
        }
        false
    }
}
