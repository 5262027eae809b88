//! Balances samples of very different lengths over data-parallel ranks.
//!
//! A training step holds samples whose lengths differ a hundredfold. They are packed into micro-batches of at most so
//! many tokens and dealt to ranks, and every rank waits for the slowest; attention costs grow with the square of the
//! length, so equal token counts are not equal work. Data flows one way: lengths → costs → packing → ranks → schedule.
//!
//! | step | here |
//! |---|---|
//! | tokens per sample, checked | [`Lengths`] |
//! | what a sample costs | [`CostCurve`], or any [`Weights`] |
//! | the published parts by themselves | [`karmarkar_karp`], [`first_fit`], [`split`] |
//! | the whole way, as published or within the cap | [`plan`], from a [`Request`] to a [`Schedule`] |
//! | what a schedule comes to | [`measure`] |
//! | when a rank's pipeline ends | [`simulate_pipeline`] |
//!
//! Everything is deterministic: every comparison is a total order, no clock and no random number decides, and there
//! are no threads; a long call can be stopped, see [`interruptible`]. Input that breaks a rule is an [`Error`] that carries the data; nothing panics on it.
//!
//! # Examples
//! ```
//! use flopbalance_core::{Cap, Capped, CostCurve, Layout, Lengths, Objective, Packing, Pipeline, Request, Weights};
//! use flopbalance_core::{measure, plan};
//! use std::num::{NonZeroU64, NonZeroUsize};
//!
//! let lengths = [900, 40, 310, 5, 720, 64, 250, 11];
//! // FLOPs of a model: so many per token, and so many for every pair of tokens.
//! let costs = CostCurve::new(1_000, 0, 2, vec![]).flops_each(&lengths)?;
//! let weights = Weights::from_u64(costs.iter().map(|&cost| cost as u64).collect::<Vec<_>>());
//!
//! let two = NonZeroUsize::new(2).unwrap();
//! let cap = Cap::new(NonZeroU64::new(1_024).unwrap());
//! let request = Request::new(two, Packing::Capped(cap, Capped::new(Objective::Step)));
//! let schedule = plan(Lengths::new(&lengths)?, &weights, &request)?;
//! assert!(schedule.micro_batch_tokens.iter().all(|&tokens| tokens <= 1_024));
//!
//! let layout =
//!     Layout::new(&schedule.samples, &schedule.micro_batch_offsets, &schedule.micro_batches_per_step, two)?;
//! let costs: Vec<f64> = costs.iter().map(|&cost| cost as f64).collect();
//! let measures = measure(&layout, &costs, &Pipeline::default(), 0.0)?;
//! assert!(measures.step_times[0] < 1.2 * measures.lower_bounds[0]);
//! # Ok::<(), flopbalance_core::Error>(())
//! ```
mod capped;
mod error;
mod flops;
mod groups;
mod interrupt;
mod lengths;
mod measure;
mod memory;
mod packing;
mod partition;
mod permutation;
mod pipeline;
mod plan;
mod row_bound;
mod steps;
mod weights;

pub use error::{Error, Kind, Result};
pub use flops::{CostCurve, Moments, moments, sums_rounded, total_rounded};
pub use groups::Groups;
pub use interrupt::interruptible;
pub use lengths::Lengths;
pub use measure::{Layout, Measures, measure};
pub use memory::ensure as ensure_memory;
pub use packing::{Bins, first_fit, pack, split};
pub use partition::{ItemOrder, PartSizes, karmarkar_karp};
pub use permutation::inverse;
pub use pipeline::{Pipeline, simulate_pipeline};
pub use plan::{
    Cap, Capped, Counts, ExtraBudget, Objective, OnLeftover, OnOversize, OnShortage, Packing, PadTo, Request, Schedule,
    pack_evenly, plan,
};
pub use row_bound::row_bounds;
pub use weights::Weights;
