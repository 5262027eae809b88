//! Search for the step and pipeline objectives: ranks meet once a step, so what counts is the slowest rank.
use crate::Groups;
use crate::capped::samples::MicroBatch;
use crate::capped::trade::{Gain, Search, Trade};
use crate::measure;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Which micro-batches every rank runs, as many on each.
pub(crate) struct Ranks {
    /// Positions in the list of micro-batches, rank by rank.
    batches: Vec<u32>,
    of_rank: usize,
    /// Pipeline stages; with one, a rank's time is the sum of its costs.
    stages: u64,
}

/// What decides a rank's time: the sum of its costs, and the costliest once more for every further stage, while the
/// pipeline fills and drains.
#[derive(Clone, Copy)]
struct RankTime {
    sum: u64,
    costliest: u64,
    second: u64,
    further_stages: u64,
}

impl RankTime {
    fn time(self) -> u64 {
        measure::rank_time(self.sum, self.costliest, self.further_stages)
    }

    /// The time once a micro-batch of one cost has another.
    fn time_after(self, from: u64, to: u64) -> u64 {
        let others = if from == self.costliest { self.second } else { self.costliest };
        measure::rank_time(self.sum - from + to, others.max(to), self.further_stages)
    }
}

impl Ranks {
    /// Equal parts as the ranks have them.
    pub fn new(parts: &Groups, stages: u64) -> Self {
        let batches: Vec<u32> = parts.iter().flatten().copied().collect();
        Self { of_rank: batches.len() / parts.len(), batches, stages }
    }

    /// The micro-batches of every rank.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.batches.chunks(self.of_rank)
    }

    fn of(&self, rank: usize) -> &[u32] {
        &self.batches[rank * self.of_rank..][..self.of_rank]
    }

    fn of_mut(&mut self, rank: usize) -> &mut [u32] {
        &mut self.batches[rank * self.of_rank..][..self.of_rank]
    }

    fn rank_time(&self, of_rank: &[u32], batches: &[MicroBatch]) -> RankTime {
        let mut rank_time = RankTime { sum: 0, costliest: 0, second: 0, further_stages: self.stages - 1 };
        for &position in of_rank {
            let cost = batches[position as usize].cost();
            rank_time.sum += cost;
            rank_time.second = rank_time.second.max(cost.min(rank_time.costliest));
            rank_time.costliest = rank_time.costliest.max(cost);
        }
        rank_time
    }

    /// The time of the slowest rank.
    pub fn time(&self, batches: &[MicroBatch]) -> u64 {
        self.iter().map(|of_rank| self.rank_time(of_rank, batches).time()).max().unwrap_or(0)
    }
}

/// How many micro-batches of either rank, the slower's costliest and the faster's cheapest, trade samples.
const TRADERS: usize = 16;

/// Relieves the slowest rank, over and over, by what levels it best with another, the fastest first. Stops within
/// the tolerance of the bound, when nothing helps or when the look-ups are spent. The slowest rank's time never rises.
pub(crate) fn level_ranks(search: &mut Search<'_>, batches: &mut [MicroBatch], ranks: &mut Ranks) {
    let mut rank_times: Vec<RankTime> = ranks.iter().map(|of_rank| ranks.rank_time(of_rank, batches)).collect();
    let key = |rank_times: &[RankTime], rank: usize| (rank_times[rank].time(), Reverse(rank));
    let mut by_time: BTreeSet<_> = (0..rank_times.len()).map(|rank| key(&rank_times, rank)).collect();
    while search.lookups > 0 {
        let Some(&(time, Reverse(slowest))) = by_time.last() else { return };
        if time < search.bound + search.tolerance {
            return;
        }
        let others = by_time.iter().take_while(|&&(other, _)| time - other > 1);
        let helper = others
            .map(|&(_, Reverse(other))| other)
            .find(|&other| relieve(search, batches, ranks, [slowest, other], &rank_times));
        let Some(helper) = helper.or_else(|| flatten(search, batches, ranks, slowest).then_some(slowest)) else {
            return;
        };
        for rank in [slowest, helper] {
            by_time.remove(&key(&rank_times, rank));
            rank_times[rank] = ranks.rank_time(ranks.of(rank), batches);
            by_time.insert(key(&rank_times, rank));
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
    [slow, fast]: [usize; 2],
    rank_times: &[RankTime],
) -> bool {
    let mut costliest_first = ranks.of(slow).to_vec();
    let mut cheapest_first = ranks.of(fast).to_vec();
    costliest_first.sort_unstable_by_key(|&position| (Reverse(batches[position as usize].cost()), position));
    cheapest_first.sort_unstable_by_key(|&position| (batches[position as usize].cost(), position));
    let pair = Pair { batches, rank_times: [rank_times[slow], rank_times[fast]], costliest_first, cheapest_first };
    let level = pair.rank_times[0].time() - pair.gain().want + pair.gain().least;
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
    rank_times: [RankTime; 2],
    costliest_first: Vec<u32>,
    cheapest_first: Vec<u32>,
}

impl Pair<'_> {
    fn batch(&self, position: u32) -> &MicroBatch {
        &self.batches[position as usize]
    }

    fn gain(&self) -> Gain {
        Gain::level(self.rank_times[0].time() - self.rank_times[1].time())
    }

    /// The change, if it leaves both ranks faster than the slower was.
    fn change(&self, [slow, fast]: [u32; 2], costs: [u64; 2], kind: Move) -> Option<Change> {
        let after = |rank: usize, position| self.rank_times[rank].time_after(self.batch(position).cost(), costs[rank]);
        let time = after(0, slow).max(after(1, fast));
        (time < self.rank_times[0].time()).then_some(Change { time, slow, fast, kind })
    }

    /// The micro-batches whose change of ranks levels best. **O(m log m)** for m of them on a rank.
    fn swap(&self, search: &mut Search<'_>) -> Option<Change> {
        let want = self.gain().want;
        let mut best: Option<Change> = None;
        for &slow in &self.costliest_first {
            let cost = self.batch(slow).cost();
            let position = self.cheapest_first.partition_point(|&fast| self.batch(fast).cost() + want < cost);
            for &fast in self.cheapest_first[position.saturating_sub(1)..].iter().take(2) {
                search.spend(1);
                let change = self.change([slow, fast], [self.batch(fast).cost(), cost], Move::Swap);
                best = best.into_iter().chain(change).min_by_key(|change| change.time);
            }
        }
        best
    }

    /// The best trade of samples, or the first that is as good as `level`.
    fn trade(&self, search: &mut Search<'_>, level: u64) -> Option<Change> {
        let mut best: Option<Change> = None;
        for [slow, fast] in self.traders() {
            let [x, y] = [slow, fast].map(|position| self.batch(position));
            if let Some(trade) = search.trade(x, y, self.gain()) {
                let change =
                    self.change([slow, fast], [x.cost() - trade.gain, y.cost() + trade.gain], Move::Trade(trade));
                best = best.into_iter().chain(change).min_by_key(|change| change.time);
                if best.as_ref().is_some_and(|change| change.time <= level) {
                    break;
                }
            }
        }
        best
    }

    /// The first two micro-batches that level the ranks when they are dealt anew.
    fn deal_anew(&self, search: &mut Search<'_>) -> Option<Change> {
        self.traders().find_map(|[slow, fast]| {
            let [x, y] = [slow, fast].map(|position| self.batch(position));
            let ahead = [self.rank_times[0].time() - x.cost(), self.rank_times[1].time() - y.cost()];
            let anew = search.deal_anew([x, y], ahead)?;
            self.change([slow, fast], anew.each_ref().map(MicroBatch::cost), Move::DealAnew(anew))
        })
    }

    fn traders(&self) -> impl Iterator<Item = [u32; 2]> {
        let some = |positions: &[u32]| positions.iter().copied().take(TRADERS).collect::<Vec<_>>();
        let fast = some(&self.cheapest_first);
        some(&self.costliest_first)
            .into_iter()
            .flat_map(move |slow| fast.clone().into_iter().map(move |fast| [slow, fast]))
    }
}

/// Lowers the costliest micro-batch of a rank whose pipeline it holds up, with the help of a cheap one of its own.
fn flatten(search: &mut Search<'_>, batches: &mut [MicroBatch], ranks: &Ranks, rank: usize) -> bool {
    let mut positions = ranks.of(rank).to_vec();
    positions.sort_unstable_by_key(|&position| (Reverse(batches[position as usize].cost()), position));
    let Some((&costliest, others)) = positions.split_first() else { return false };
    if ranks.stages == 1 {
        return false;
    }
    for &other in others.iter().rev() {
        let gap = batches[costliest as usize].cost() - batches[other as usize].cost();
        let (costliest, other) = (costliest as usize, other as usize);
        if gap < 2 {
            continue;
        }
        if let Some(trade) = search.trade(&batches[costliest], &batches[other], Gain::level(gap)) {
            search.carry_out(trade, batches, costliest, other);
            return true;
        }
    }
    false
}
