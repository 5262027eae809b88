//! Permutations given as lists.
use crate::interrupt::pieces;
use crate::{Error, Result, memory};

/// Where each of the numbers 0, 1, ... stands in `order`, which must hold each once.
///
/// Computes in **O(n)** time.
///
/// # Examples
/// ```
/// use flopbalance_core::inverse;
///
/// assert_eq!(inverse(&[2, 0, 1])?, [1, 2, 0]);
/// assert!(inverse(&[2, 0, 2]).is_err());
/// # Ok::<(), flopbalance_core::Error>(())
/// ```
pub fn inverse(order: &[i64]) -> Result<Vec<i64>> {
    const UNSEEN: i64 = -1;
    memory::ensure(order.len(), size_of::<i64>())?;
    let mut inverse = vec![UNSEEN; order.len()];
    for (position, &index) in pieces(order).flatten().enumerate() {
        match usize::try_from(index).ok().and_then(|index| inverse.get_mut(index)) {
            Some(place) if *place == UNSEEN => *place = position as i64,
            _ => return Err(Error::NoPermutation { items: order.len(), index, position }),
        }
    }
    Ok(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_permutation_has_an_inverse() {
        assert_eq!(inverse(&[]), Ok(vec![]));
        let refused = |order: &[i64]| inverse(order).unwrap_err().to_string();
        assert_eq!(refused(&[0, 0]), "order must hold every number from 0 to 1 once, got 0 at 1");
        assert_eq!(refused(&[0, 2]), "order must hold every number from 0 to 1 once, got 2 at 1");
        assert_eq!(refused(&[-1]), "order must hold every number from 0 to 0 once, got -1 at 0");
    }
}
