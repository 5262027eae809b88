//! Balances samples of very different lengths over data-parallel ranks.
//!
//! Data flows one way: lengths → costs → packing → ranks → schedule.
mod error;
mod first_fit;
mod flops;
mod groups;
mod lengths;
mod partition;
mod plan;
mod sort;
mod splitting;
mod steps;
mod weights;

pub use error::{Error, Result};
pub use first_fit::first_fit;
pub use flops::{CostCurve, Moments, moments};
pub use groups::Groups;
pub use lengths::Lengths;
pub use partition::karmarkar_karp;
pub use plan::{Packing, Request, Schedule, plan};
pub use splitting::split;
pub use steps::Steps;
pub use weights::{Weight, Weights};
