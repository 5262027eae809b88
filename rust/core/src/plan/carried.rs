//! What ranks carry: the costs that each was given so far, in this call and before it.
use crate::weights::{Parts, Weight, Weights, times_power_of_two};
use crate::{Error, Result};

/// The loads of the ranks.
pub(crate) struct Carried<W> {
    /// None before a step has samples for all ranks, or loads were given.
    loads: Vec<W>,
    /// A cost counts 2^`shift` times in a load.
    shift: i32,
}

impl Carried<u128> {
    /// Whole loads in the finest unit of what was given and of costs that are multiples of 2^`exponent`; only where
    /// 128 bits do not hold the sums is the unit coarser.
    pub fn exact(given: Option<&Weights<'_>>, costs: &[u128], exponent: i32, dp_size: usize) -> Result<Self> {
        let Some(given) = checked(given, dp_size)? else { return Ok(Self::none()) };
        let total = costs.iter().fold(0, |sum: u128, &cost| sum.saturating_add(cost));
        let parts = given.parts();
        let all = || parts.iter().copied().chain([Parts { whole: total, exponent }]).filter(|part| part.whole > 0);
        let finest = all().map(|part| part.exponent).chain([exponent]).min().unwrap_or(exponent);
        let above = all().map(|part| u128::bits(part.whole) + part.exponent).max().unwrap_or(finest);
        let unit = finest.max(above + 1 - u128::MOST_BITS);
        let loads = parts.iter().map(|part| part.whole.shifted(part.exponent - unit)).collect();
        Ok(Self { loads, shift: exponent - unit })
    }
}

impl Carried<f64> {
    /// Loads whose sums round, as those of the costs do.
    pub fn rounded(given: Option<&Weights<'_>>, dp_size: usize) -> Result<Self> {
        let Some(given) = checked(given, dp_size)? else { return Ok(Self::none()) };
        let load = |part: &Parts| times_power_of_two(part.whole as f64, part.exponent);
        Ok(Self { loads: given.parts().iter().map(load).collect(), shift: 0 })
    }
}

impl<W: Weight> Carried<W> {
    /// Nothing yet.
    pub fn none() -> Self {
        Self { loads: vec![], shift: 0 }
    }

    /// Gives a load to every rank that has none: 0.
    pub fn fill(&mut self, dp_size: usize) {
        self.loads.resize(dp_size, W::default());
    }

    /// Ranks in ascending order of their loads.
    pub fn least_first(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = (0..self.loads.len()).collect();
        ranks.sort_by(|&one, &other| self.loads[one].order(self.loads[other]));
        ranks
    }

    /// Adds costs to the load of a rank, one after another.
    pub fn add(&mut self, rank: usize, costs: impl Iterator<Item = W>) {
        let shift = self.shift;
        self.loads[rank] = costs.fold(self.loads[rank], |load, cost| load.saturating_plus(cost.shifted(shift)));
    }
}

fn checked<'w, 'a>(given: Option<&'w Weights<'a>>, dp_size: usize) -> Result<Option<&'w Weights<'a>>> {
    match given {
        Some(loads) if loads.len() != dp_size => Err(Error::Loads { loads: loads.len(), dp_size }),
        _ => Ok(given),
    }
}
