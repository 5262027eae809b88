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
    pub fn exact<W: Copy>(given: Option<&Weights<'_>>, costs: &[W], exponent: i32, dp_size: usize) -> Result<Self>
    where
        u128: From<W>,
    {
        let Some(given) = checked(given, dp_size)? else { return Ok(Self::none()) };
        let total = costs.iter().fold(0, |sum: u128, &cost| sum.saturating_add(cost.into()));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(given: &Weights<'_>, costs: &[u128], exponent: i32) -> (Vec<u128>, i32) {
        let carried = Carried::exact(Some(given), costs, exponent, given.len()).unwrap();
        (carried.loads, carried.shift)
    }

    #[test]
    fn loads_and_costs_meet_in_the_finer_unit() {
        assert_eq!(exact(&Weights::from_u64(vec![5, 0]), &[3], 0), (vec![5, 0], 0));
        assert_eq!(exact(&Weights::from_u64(vec![5, 0]), &[3], -2), (vec![20, 0], 0));
        assert_eq!(exact(&Weights::from_f64(vec![0.75, 2.0]).unwrap(), &[3], 0), (vec![3, 8], 2));
        // Floats whose sums round, of few bits and of many.
        let (loads, shift) = exact(&Weights::from_f64(vec![1.0, 0.3]).unwrap(), &[3], 0);
        assert_eq!((loads[0], shift), (1 << 54, 54));
        assert_eq!(loads[1], (0.3 * 2_f64.powi(54)) as u128);
    }

    #[test]
    fn bits_that_do_not_fit_are_lost_at_the_lower_end() {
        let wide = |values: Vec<u128>| Weights::from_u128(values).unwrap();
        assert_eq!(exact(&wide(vec![(1 << 126) + 1, 7]), &[3], 0), (vec![(1 << 126) + 1, 7], 0));
        assert_eq!(exact(&wide(vec![(1 << 127) - 1, 7]), &[3], 0), (vec![(1 << 127) - 1, 7], 0));
        assert_eq!(exact(&wide(vec![(1 << 127) + 1, 7]), &[3], 0), (vec![1 << 126, 3], -1));
        assert_eq!(exact(&Weights::from_u64(vec![5, 0]), &[1 << 127, 1], 0), (vec![2, 0], -1));
        // Costs of nothing take no room.
        let (loads, _) = exact(&Weights::from_f64(vec![1e-300, 0.1]).unwrap(), &[0], 0);
        assert!(loads[0] == 0 && loads[1] > 1 << 100);
        assert!(exact(&Weights::from_f64(vec![1e-300, 0.0]).unwrap(), &[0], 0).0[0] > 0);
    }

    #[test]
    fn costs_are_added_in_the_unit_of_loads() {
        let mut carried = Carried::exact(Some(&Weights::from_u64(vec![5, 7])), &[3_u64, 2], 1, 2).unwrap();
        carried.add(0, [3, 2].into_iter());
        assert_eq!((&carried.loads[..], carried.least_first()), (&[15, 7][..], vec![1, 0]));
        let mut carried = Carried::<f64>::rounded(Some(&Weights::from_u64(vec![5, 5])), 2).unwrap();
        carried.add(1, [0.1, 0.2].into_iter());
        assert_eq!(carried.loads, [5.0, 5.0 + 0.1 + 0.2]);
        let mut carried = Carried::<u128>::none();
        carried.fill(2);
        assert_eq!(carried.least_first(), [0, 1]);
    }
}
