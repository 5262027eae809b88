//! Balances samples of very different lengths over data-parallel ranks.
//!
//! Data flows one way: lengths → costs → packing → ranks → schedule.
mod capped;
mod error;
mod flops;
mod groups;
mod lengths;
mod packing;
mod partition;
mod plan;
mod steps;
mod weights;

pub use capped::{Limits, Objective, Shortage, StepProblem, plan_step};
pub use error::{Error, Result};
pub use flops::{CostCurve, Moments, moments};
pub use groups::Groups;
pub use lengths::Lengths;
pub use packing::{first_fit, split};
pub use partition::karmarkar_karp;
pub use plan::{Capped, Packing, Published, Request, Schedule, plan};
pub use steps::{Leftover, Steps};
pub use weights::{Weight, Weights};
