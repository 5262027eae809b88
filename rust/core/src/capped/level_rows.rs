//! Search for the micro-batch objective: ranks meet at every micro-batch, so what counts is the costliest
//! micro-batch of every row, and rows are the runs of one micro-batch per rank in descending order of cost.
use crate::capped::samples::MicroBatch;
use crate::capped::trade::{Gain, Search};
use crate::interrupt::Work;
use std::cmp::Reverse;

/// Partners that a row's peak tries, in its own row and in the others, before the row is left as it is.
const PARTNERS: usize = 16;

/// Micro-batches that are passed in review in the time of a look-up.
const PLACES_PER_LOOKUP: usize = 8;

/// Sorts micro-batches into rows, costliest first; equal costs by their samples, so that the order is total.
pub(crate) fn sort_into_rows(batches: &mut [MicroBatch]) {
    let mut work = Work::default();
    batches.sort_by(|a, b| {
        work.did(1);
        b.cost().cmp(&a.cost()).then_with(|| a.samples.cmp(&b.samples))
    });
}

/// Micro-batches in rows of `width`.
pub(crate) struct Rows<'a> {
    batches: &'a mut [MicroBatch],
    width: usize,
    /// Cost and index of the micro-batch at every position, row by row.
    order: Vec<(u64, u32)>,
    /// The highest cost of every row.
    peaks: Vec<u64>,
}

impl<'a> Rows<'a> {
    /// Rows of micro-batches that are sorted into rows.
    pub fn new(batches: &'a mut [MicroBatch], width: usize) -> Self {
        let order = (0..).zip(&*batches).map(|(index, batch)| (batch.cost(), index)).collect();
        let mut rows = Self { batches, width, order, peaks: vec![] };
        rows.sort();
        rows
    }

    fn sort(&mut self) {
        let samples = |index: u32| &self.batches[index as usize].samples;
        self.order.sort_by(|&(cost, a), &(other, b)| other.cmp(&cost).then_with(|| samples(a).cmp(samples(b))));
        self.peaks = self.order.iter().step_by(self.width).map(|&(cost, _)| cost).collect();
    }

    fn batch(&self, position: usize) -> &MicroBatch {
        &self.batches[self.order[position].1 as usize]
    }

    /// Lowers the peak of every row, over and over, until nothing worth while is gained or the look-ups are spent.
    /// Never raises the time: a row is always finished, since rows that are half done may sort into worse ones.
    pub fn level(mut self, search: &mut Search<'_>) {
        loop {
            let before: u64 = self.peaks.iter().sum();
            for row in 0..self.peaks.len() {
                if search.lookups == 0 {
                    return;
                }
                let steps = std::iter::from_fn(|| self.lower_peak(search, row).then_some(())).count();
                if steps > 0 {
                    self.sort();
                }
            }
            if before - self.peaks.iter().sum::<u64>() < search.tolerance {
                return;
            }
        }
    }

    /// One step down for one row: a trade that levels its peak with a cheap micro-batch of the row, or the two dealt
    /// anew, or a trade with a micro-batch that has room below the peak of another row. `false` when there is none.
    fn lower_peak(&mut self, search: &mut Search<'_>, row: usize) -> bool {
        search.work.did(self.width);
        let positions = row * self.width..(row + 1) * self.width;
        let cost = |position: usize| self.order[position].0;
        let Some(top) = positions.clone().max_by_key(|&position| (cost(position), Reverse(position))) else {
            return false;
        };
        let peak = cost(top);
        let mean = positions.clone().map(cost).sum::<u64>() / self.width as u64;
        self.peaks[row] = peak;
        if self.batch(top).samples.len() == 1 || peak < mean + search.tolerance {
            return false;
        }
        let partners = self.lowest(row..=row, search.tolerance);
        for &partner in &partners {
            if self.trade(search, top, partner, Gain::level(self.below_peak(partner))) {
                return true;
            }
        }
        for &partner in &partners {
            let anew = search.deal_anew([self.batch(top), self.batch(partner)], [0, 0]);
            let lower = |[one, other]: &[MicroBatch; 2]| one.cost().max(other.cost()) + search.tolerance <= peak;
            if let Some(anew) = anew.filter(lower) {
                for (position, batch) in [top, partner].into_iter().zip(anew) {
                    self.order[position].0 = batch.cost();
                    self.batches[self.order[position].1 as usize] = batch;
                }
                return true;
            }
        }
        search.spend(self.order.len() / PLACES_PER_LOOKUP);
        let elsewhere = (0..row).chain(row + 1..self.peaks.len());
        self.lowest(elsewhere, search.tolerance).into_iter().any(|partner| {
            // A costlier row gets all it has room for, a cheaper one no more than this row has above its mean.
            let most = self.below_peak(partner);
            let want = if partner < top { most } else { most.min(peak - mean) };
            self.trade(search, top, partner, Gain { least: (want / 16).max(1), want, most })
        })
    }

    /// By how much a micro-batch costs less than the peak of its row.
    fn below_peak(&self, position: usize) -> u64 {
        self.peaks[position / self.width] - self.order[position].0
    }

    /// The few micro-batches of some rows that are farthest below the peak of their row, and more than `tolerance`.
    fn lowest(&self, rows: impl Iterator<Item = usize>, tolerance: u64) -> Vec<usize> {
        let mut lowest: Vec<(u64, usize)> = Vec::with_capacity(PARTNERS + 1);
        let mut least = tolerance;
        for row in rows {
            let (start, peak) = (row * self.width, self.peaks[row]);
            for (position, &(cost, _)) in (start..).zip(&self.order[start..start + self.width]) {
                let below = peak - cost;
                if below > least {
                    lowest.insert(lowest.partition_point(|&(other, _)| other >= below), (below, position));
                    lowest.truncate(PARTNERS);
                    least = lowest.get(PARTNERS - 1).map_or(tolerance, |&(below, _)| below);
                }
            }
        }
        lowest.into_iter().map(|(_, position)| position).collect()
    }

    fn trade(&mut self, search: &mut Search<'_>, giver: usize, taker: usize, gain: Gain) -> bool {
        let Some(trade) = search.trade(self.batch(giver), self.batch(taker), gain) else { return false };
        let [giving, taking] = [giver, taker].map(|position| self.order[position].1 as usize);
        search.carry_out(trade, self.batches, giving, taking);
        self.order[giver].0 -= trade.gain;
        self.order[taker].0 += trade.gain;
        true
    }
}
