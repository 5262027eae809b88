//! What two micro-batches can do for each other: trade a sample, or pool their samples and deal them anew.
use crate::capped::samples::{MicroBatch, Samples};
use crate::interrupt::Work;

/// A sample that leaves the giver, and the cheaper one, if any, that comes back from the taker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trade {
    give: u32,
    take: Option<u32>,
    /// What the giver's cost falls by and the taker's rises by.
    pub gain: u64,
}

/// The gains asked of a trade: as near to `want` as possible, within `least..=most`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gain {
    pub least: u64,
    pub want: u64,
    pub most: u64,
}

impl Gain {
    /// What levels two costs that differ by `gap`, and at least a sixteenth of the gap off both ends.
    pub fn level(gap: u64) -> Self {
        let least = (gap / 16).max(1);
        Self { least, want: gap / 2, most: gap - least }
    }
}

/// A descent over the samples of a step, and when it stops.
pub(crate) struct Search<'a> {
    pub samples: &'a Samples,
    /// Pairs of samples that may still be looked at.
    pub lookups: u64,
    /// No plan is shorter.
    pub bound: u64,
    /// Differences below this are not worth a look; at least 1.
    pub tolerance: u64,
    pub work: Work,
}

/// Steps of [`Work`] in a look-up.
const STEPS_PER_LOOKUP: usize = 8;

/// Samples of a micro-batch that are moved up in the time of a look-up when one leaves or joins.
const MOVED_PER_LOOKUP: usize = 256;

/// How many pairs a look-up tries on either side of the wanted gain before it gives up.
const REACH: usize = 8;

impl Search<'_> {
    pub fn spend(&mut self, lookups: usize) {
        self.lookups = self.lookups.saturating_sub(lookups as u64);
        self.work.did(STEPS_PER_LOOKUP * lookups);
    }

    /// A trade of nearly the wanted gain after which both micro-batches keep their limits and a sample.
    ///
    /// For every sample of the giver the taker's samples around the wanted difference in cost are found by
    /// bisection: **O(m log m)** for micro-batches of m samples.
    pub fn trade(&mut self, giver: &MicroBatch, taker: &MicroBatch, gain: Gain) -> Option<Trade> {
        let Gain { least, want, most } = gain;
        let mut best: Option<(u64, Trade)> = None;
        for &give in giver.samples.iter().rev() {
            let cost = self.samples.cost(give);
            let position = taker.samples.partition_point(|&take| self.samples.cost(take) + want < cost);
            let (cheaper, costlier) = taker.samples.split_at(position);
            // Each side is walked away from the wanted gain, so the first pair that fits is its best.
            let mut goes_on = |take: Option<u32>| {
                let Some(gain) = cost.checked_sub(take.map_or(0, |take| self.samples.cost(take))) else { return false };
                let distance = gain.abs_diff(want);
                if gain < least || gain > most || best.is_some_and(|(nearest, _)| distance >= nearest) {
                    return false;
                }
                self.lookups = self.lookups.saturating_sub(1);
                let fits = self.samples.swaps(giver, Some(give), take) && self.samples.swaps(taker, take, Some(give));
                if fits {
                    best = Some((distance, Trade { give, take, gain }));
                }
                !fits
            };
            costlier.iter().copied().map(Some).take(REACH).all(&mut goes_on);
            cheaper.iter().rev().copied().map(Some).chain([None]).take(REACH).all(&mut goes_on);
            self.spend(1);
            if best.is_some_and(|(distance, _)| distance <= want / 8) {
                break;
            }
        }
        best.map(|(_, trade)| trade)
    }

    /// Carries out a trade between two of `batches`.
    pub fn carry_out(&mut self, trade: Trade, batches: &mut [MicroBatch], giver: usize, taker: usize) {
        self.spend((batches[giver].samples.len() + batches[taker].samples.len()) / MOVED_PER_LOOKUP);
        let mut hand_over = |sample, from: usize, to: usize| {
            self.samples.remove(&mut batches[from], sample);
            self.samples.add(&mut batches[to], sample);
        };
        hand_over(trade.give, giver, taker);
        if let Some(take) = trade.take {
            hand_over(take, taker, giver);
        }
    }

    /// The samples of two micro-batches dealt anew, costliest first, each to the side that costs less so far and
    /// has room; `ahead` is what the sides cost before. `None` when a sample fits nowhere or a side stays empty.
    ///
    /// Finds what no single trade does, such as one costly sample for several cheap ones. **O(m log m)**.
    pub fn deal_anew(&mut self, pair: [&MicroBatch; 2], ahead: [u64; 2]) -> Option<[MicroBatch; 2]> {
        let mut pool = [&pair[0].samples[..], &pair[1].samples].concat();
        pool.sort_unstable();
        self.spend(pool.len());
        let mut sides = [MicroBatch::default(), MicroBatch::default()];
        for sample in pool.into_iter().rev() {
            let cheaper = usize::from(ahead[0] + sides[0].cost() > ahead[1] + sides[1].cost());
            let mut order = [cheaper, 1 - cheaper].into_iter();
            let side = order.find(|&side| self.samples.accepts(sides[side].load, sample))?;
            self.samples.push(&mut sides[side], sample);
        }
        sides.iter().all(|side| side.load.samples > 0).then(|| sides.map(MicroBatch::reversed))
    }
}
