//! Balances samples of very different lengths over data-parallel ranks.
//!
//! Data flows one way: lengths → costs → packing → ranks → schedule.
mod capped;
mod error;
mod first_fit;
mod flops;
mod groups;
mod lengths;
mod micro_batch;
mod objective;
mod partition;
mod plan;
mod ranks;
mod room;
mod rows;
mod sort;
mod splitting;
mod starts;
mod steps;
mod trade;
mod weights;

pub use capped::{Shortage, StepProblem, plan_step};
pub use error::{Error, Result};
pub use first_fit::first_fit;
pub use flops::{CostCurve, Moments, moments};
pub use groups::Groups;
pub use lengths::Lengths;
pub use objective::Objective;
pub use partition::karmarkar_karp;
pub use plan::{Capped, Packing, Published, Request, Schedule, plan};
pub use room::Limits;
pub use splitting::split;
pub use steps::{Leftover, Steps};
pub use weights::{Weight, Weights};
