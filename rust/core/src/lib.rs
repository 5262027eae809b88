//! Balances samples of very different lengths over data-parallel ranks.
mod error;

pub use error::{Error, Result};
