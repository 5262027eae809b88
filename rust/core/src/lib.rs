//! Balances samples of very different lengths over data-parallel ranks.
mod error;
mod flops;

pub use error::{Error, Result};
pub use flops::{CostCurve, Moments, moments};
