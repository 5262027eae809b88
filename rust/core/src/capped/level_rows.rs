//! Search for the micro-batch objective: ranks meet at every micro-batch, so what counts is the costliest
//! micro-batch of every row, and rows are the runs of one micro-batch per rank in descending order of cost.
use crate::capped::samples::MicroBatch;
use crate::capped::trade::{Gain, Search};
use std::cmp::Reverse;

/// Partners that a row's peak tries, in its own row and in the others, before the row is left as it is.
const PARTNERS: usize = 16;

/// Micro-batches that are passed in review in the time of a look-up.
const PLACES_PER_LOOKUP: usize = 8;

/// Micro-batches in rows of `width`.
pub(crate) struct Rows<'a> {
    batches: &'a mut [MicroBatch],
    width: usize,
    /// The highest cost of every row.
    peaks: Vec<u64>,
}

impl<'a> Rows<'a> {
    /// Sorts the micro-batches into rows, costliest first; equal costs by their samples, so that the order is total.
    pub fn new(batches: &'a mut [MicroBatch], width: usize) -> Self {
        batches.sort_by(|a, b| b.cost().cmp(&a.cost()).then_with(|| a.samples.cmp(&b.samples)));
        let peaks = batches.iter().step_by(width).map(|batch| batch.cost()).collect();
        Self { batches, width, peaks }
    }

    /// The sum of the peaks.
    pub fn time(&self) -> u64 {
        self.peaks.iter().sum()
    }

    /// Lowers the peak of every row, over and over, until nothing worth while is gained or the look-ups are spent.
    /// Never raises the time: a row is always finished, since rows that are half done may sort into worse ones.
    pub fn level(mut self, search: &mut Search<'_>) {
        loop {
            let before = self.time();
            for row in 0..self.peaks.len() {
                if search.lookups == 0 {
                    return;
                }
                let steps = std::iter::from_fn(|| self.lower_peak(search, row).then_some(())).count();
                if steps > 0 {
                    self = Self::new(self.batches, self.width);
                }
            }
            if before - self.time() < search.tolerance {
                return;
            }
        }
    }

    /// One step down for one row: a trade that levels its peak with a cheap micro-batch of the row, or the two dealt
    /// anew, or a trade with a micro-batch that has room below the peak of another row. `false` when there is none.
    fn lower_peak(&mut self, search: &mut Search<'_>, row: usize) -> bool {
        let positions = row * self.width..(row + 1) * self.width;
        let Some(top) = positions.clone().max_by_key(|&position| (self.batches[position].cost(), Reverse(position)))
        else {
            return false;
        };
        let peak = self.batches[top].cost();
        self.peaks[row] = peak;
        let mean = self.batches[positions.clone()].iter().map(|batch| batch.cost()).sum::<u64>() / self.width as u64;
        if self.batches[top].samples.len() == 1 || peak < mean + search.tolerance {
            return false;
        }
        for partner in self.lowest(positions.clone(), search.tolerance) {
            if self.trade(search, top, partner, Gain::level(self.below_peak(partner))) {
                return true;
            }
        }
        for partner in self.lowest(positions.clone(), search.tolerance) {
            let anew = search.deal_anew([&self.batches[top], &self.batches[partner]], [0, 0]);
            let lower = |[one, other]: &[MicroBatch; 2]| one.cost().max(other.cost()) + search.tolerance <= peak;
            if let Some([one, other]) = anew.filter(lower) {
                (self.batches[top], self.batches[partner]) = (one, other);
                return true;
            }
        }
        search.spend(self.batches.len() / PLACES_PER_LOOKUP);
        let elsewhere = (0..positions.start).chain(positions.end..self.batches.len());
        self.lowest(elsewhere, search.tolerance).into_iter().any(|partner| {
            // A costlier row gets all it has room for, a cheaper one no more than this row has above its mean.
            let most = self.below_peak(partner);
            let want = if partner < top { most } else { most.min(peak - mean) };
            self.trade(search, top, partner, Gain { least: (want / 16).max(1), want, most })
        })
    }

    /// By how much a micro-batch costs less than the peak of its row.
    fn below_peak(&self, position: usize) -> u64 {
        self.peaks[position / self.width] - self.batches[position].cost()
    }

    /// The few of `positions` farthest below the peak of their row.
    fn lowest(&self, positions: impl Iterator<Item = usize>, tolerance: u64) -> Vec<usize> {
        let mut positions: Vec<usize> = positions.filter(|&position| self.below_peak(position) > tolerance).collect();
        let key = |&position: &usize| (Reverse(self.below_peak(position)), position);
        if positions.len() > PARTNERS {
            positions.select_nth_unstable_by_key(PARTNERS, key);
            positions.truncate(PARTNERS);
        }
        positions.sort_unstable_by_key(key);
        positions
    }

    fn trade(&mut self, search: &mut Search<'_>, giver: usize, taker: usize, gain: Gain) -> bool {
        let trade = search.trade(&self.batches[giver], &self.batches[taker], gain);
        if let Some(trade) = trade {
            search.carry_out(trade, self.batches, giver, taker);
        }
        trade.is_some()
    }
}
