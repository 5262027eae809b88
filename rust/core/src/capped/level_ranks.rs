//! Search for the step and pipeline objectives: ranks meet once a step, so what counts is the slowest rank.
use crate::capped::samples::MicroBatch;
use crate::capped::trade::{Gain, Search, Trade};
use crate::measure::rank_time;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Which micro-batches every rank runs.
pub(crate) struct Ranks {
    /// Places in the list of micro-batches, rank by rank.
    pub batches: Vec<Vec<u32>>,
    /// Pipeline stages; with one, a rank's time is the sum of its costs.
    pub stages: u64,
}

/// What decides a rank's time: the sum of its costs, and the dearest once more for every further stage, while the
/// pipeline fills and drains.
#[derive(Clone, Copy)]
struct Pace {
    sum: u64,
    dearest: u64,
    second: u64,
    further_stages: u64,
}

impl Pace {
    fn time(self) -> u64 {
        rank_time(self.sum, self.dearest, self.further_stages)
    }

    /// The time once a micro-batch of one cost has another.
    fn time_after(self, from: u64, to: u64) -> u64 {
        let others = if from == self.dearest { self.second } else { self.dearest };
        rank_time(self.sum - from + to, others.max(to), self.further_stages)
    }
}

impl Ranks {
    fn pace(&self, rank: usize, batches: &[MicroBatch]) -> Pace {
        let mut pace = Pace { sum: 0, dearest: 0, second: 0, further_stages: self.stages - 1 };
        for &place in &self.batches[rank] {
            let cost = batches[place as usize].cost;
            pace.sum += cost;
            pace.second = pace.second.max(cost.min(pace.dearest));
            pace.dearest = pace.dearest.max(cost);
        }
        pace
    }

    /// The time of the slowest rank.
    pub fn time(&self, batches: &[MicroBatch]) -> u64 {
        (0..self.batches.len()).map(|rank| self.pace(rank, batches).time()).max().unwrap_or(0)
    }
}

/// How many micro-batches of either rank, the slower's dearest and the faster's cheapest, trade samples.
const TRADERS: usize = 16;

/// Relieves the slowest rank, over and over, by what levels it best with another, the fastest first. Stops within
/// the tolerance of the bound, when nothing helps or when the look-ups are spent. The slowest rank's time never rises.
pub(crate) fn level_ranks(search: &mut Search<'_>, batches: &mut [MicroBatch], ranks: &mut Ranks) {
    let mut paces: Vec<Pace> = (0..ranks.batches.len()).map(|rank| ranks.pace(rank, batches)).collect();
    let key = |paces: &[Pace], rank: usize| (paces[rank].time(), Reverse(rank));
    let mut by_time: BTreeSet<_> = (0..paces.len()).map(|rank| key(&paces, rank)).collect();
    while search.lookups > 0 {
        let Some(&(time, Reverse(slowest))) = by_time.last() else { return };
        if time < search.bound + search.tolerance {
            return;
        }
        let others = by_time.iter().take_while(|&&(other, _)| time - other > 1);
        let helper = others
            .map(|&(_, Reverse(other))| other)
            .find(|&other| relieve(search, batches, ranks, [slowest, other], &paces));
        let Some(helper) = helper.or_else(|| flatten(search, batches, ranks, slowest).then_some(slowest)) else {
            return;
        };
        for rank in [slowest, helper] {
            by_time.remove(&key(&paces, rank));
            paces[rank] = ranks.pace(rank, batches);
            by_time.insert(key(&paces, rank));
        }
    }
}

/// Something two ranks can do for each other: with which micro-batch of either, and the time of the slower after it.
struct Change {
    time: u64,
    slow: u32,
    fast: u32,
    deed: Deed,
}

enum Deed {
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
    paces: &[Pace],
) -> bool {
    let mut dearest_first = ranks.batches[slow].clone();
    let mut cheapest_first = ranks.batches[fast].clone();
    dearest_first.sort_unstable_by_key(|&place| (Reverse(batches[place as usize].cost), place));
    cheapest_first.sort_unstable_by_key(|&place| (batches[place as usize].cost, place));
    let pair = Pair { batches, paces: [paces[slow], paces[fast]], dearest_first, cheapest_first };
    let level = pair.paces[0].time() - pair.gain().want + pair.gain().least;
    let mut best = pair.swap(search);
    if best.as_ref().is_none_or(|change| change.time > level) {
        best = best.into_iter().chain(pair.trade(search, level)).min_by_key(|change| change.time);
    }
    let Some(change) = best.or_else(|| pair.deal_anew(search)) else { return false };
    match change.deed {
        Deed::Swap => {
            for (rank, from, to) in [(slow, change.slow, change.fast), (fast, change.fast, change.slow)] {
                ranks.batches[rank].iter_mut().filter(|place| **place == from).for_each(|place| *place = to);
            }
        }
        Deed::Trade(trade) => search.carry_out(trade, batches, change.slow as usize, change.fast as usize),
        Deed::DealAnew([one, other]) => {
            batches[change.slow as usize] = one;
            batches[change.fast as usize] = other;
        }
    }
    true
}

/// Two ranks, the slower first.
struct Pair<'a> {
    batches: &'a [MicroBatch],
    paces: [Pace; 2],
    dearest_first: Vec<u32>,
    cheapest_first: Vec<u32>,
}

impl Pair<'_> {
    fn batch(&self, place: u32) -> &MicroBatch {
        &self.batches[place as usize]
    }

    fn gain(&self) -> Gain {
        Gain::level(self.paces[0].time() - self.paces[1].time())
    }

    /// The change, if it leaves both ranks faster than the slower was.
    fn change(&self, [slow, fast]: [u32; 2], costs: [u64; 2], deed: Deed) -> Option<Change> {
        let after = |rank: usize, place| self.paces[rank].time_after(self.batch(place).cost, costs[rank]);
        let time = after(0, slow).max(after(1, fast));
        (time < self.paces[0].time()).then_some(Change { time, slow, fast, deed })
    }

    /// The micro-batches whose change of ranks levels best. **O(m log m)** for m of them on a rank.
    fn swap(&self, search: &mut Search<'_>) -> Option<Change> {
        let want = self.gain().want;
        let mut best: Option<Change> = None;
        for &slow in &self.dearest_first {
            let cost = self.batch(slow).cost;
            let place = self.cheapest_first.partition_point(|&fast| self.batch(fast).cost + want < cost);
            for &fast in self.cheapest_first[place.saturating_sub(1)..].iter().take(2) {
                search.spend(1);
                let change = self.change([slow, fast], [self.batch(fast).cost, cost], Deed::Swap);
                best = best.into_iter().chain(change).min_by_key(|change| change.time);
            }
        }
        best
    }

    /// The best trade of samples, or the first that is as good as `level`.
    fn trade(&self, search: &mut Search<'_>, level: u64) -> Option<Change> {
        let mut best: Option<Change> = None;
        for [slow, fast] in self.traders() {
            let [x, y] = [slow, fast].map(|place| self.batch(place));
            if let Some(trade) = search.trade(x, y, self.gain()) {
                let change = self.change([slow, fast], [x.cost - trade.gain, y.cost + trade.gain], Deed::Trade(trade));
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
            let [x, y] = [slow, fast].map(|place| self.batch(place));
            let ahead = [self.paces[0].time() - x.cost, self.paces[1].time() - y.cost];
            let anew = search.deal_anew([x, y], ahead)?;
            self.change([slow, fast], anew.each_ref().map(|batch| batch.cost), Deed::DealAnew(anew))
        })
    }

    fn traders(&self) -> impl Iterator<Item = [u32; 2]> {
        let some = |places: &[u32]| places.iter().copied().take(TRADERS).collect::<Vec<_>>();
        let fast = some(&self.cheapest_first);
        some(&self.dearest_first)
            .into_iter()
            .flat_map(move |slow| fast.clone().into_iter().map(move |fast| [slow, fast]))
    }
}

/// Lowers the dearest micro-batch of a rank whose pipeline it holds up, with the help of a cheap one of its own.
fn flatten(search: &mut Search<'_>, batches: &mut [MicroBatch], ranks: &Ranks, rank: usize) -> bool {
    let mut places = ranks.batches[rank].clone();
    places.sort_unstable_by_key(|&place| (Reverse(batches[place as usize].cost), place));
    let Some((&dearest, others)) = places.split_first() else { return false };
    if ranks.stages == 1 {
        return false;
    }
    for &other in others.iter().rev() {
        let gap = batches[dearest as usize].cost - batches[other as usize].cost;
        let (dearest, other) = (dearest as usize, other as usize);
        if gap < 2 {
            continue;
        }
        if let Some(trade) = search.trade(&batches[dearest], &batches[other], Gain::level(gap)) {
            search.carry_out(trade, batches, dearest, other);
            return true;
        }
    }
    false
}
