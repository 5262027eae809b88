//! Memory that is not there is an error, before any work.
//!
//! A vector that cannot grow ends the process, trainer and all. So a call asks first for as much as it will hold at
//! its peak, in one piece, and gives it back.
use crate::{Error, Result};
use std::hint::black_box;

/// Below this nobody asks: the caller's own arrays took more.
const SMALL: usize = 1 << 20;

/// Refuses work on `count` items that holds about so many bytes of each at its peak, where the machine has no room for it.
///
/// Where a system promises more memory than it has, this finds only what it does not promise: more than there is of
/// all, or than a limit allows.
///
/// # Examples
/// ```
/// use flopbalance_core::{Error, ensure_memory};
///
/// assert!(ensure_memory(1_000, 8).is_ok());
/// assert!(matches!(ensure_memory(usize::MAX, 8), Err(Error::OutOfMemory { .. })));
/// ```
pub fn ensure(count: usize, bytes_each: usize) -> Result<()> {
    let bytes = count.saturating_mul(bytes_each);
    if bytes < SMALL {
        return Ok(());
    }
    let mut room: Vec<u8> = Vec::new();
    let reserved = black_box(&mut room).try_reserve_exact(bytes);
    reserved.map_err(|_| Error::OutOfMemory { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused() {
        assert_eq!(ensure(1_000, 1_000), Ok(()));
        assert_eq!(ensure(1 << 22, 1), Ok(()));
        for (count, bytes_each) in [(usize::MAX, 8), (usize::MAX, 1), (1 << 60, 4)] {
            let bytes = count.saturating_mul(bytes_each);
            assert_eq!(ensure(count, bytes_each), Err(Error::OutOfMemory { bytes }));
        }
    }
}
