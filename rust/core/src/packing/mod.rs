//! Packing samples into bins by their tokens, as published: first fit, and splitting of bins.
mod first_fit;
mod splitting;

pub use first_fit::first_fit;
pub(crate) use first_fit::{FULL, Rooms};
pub use splitting::split;
