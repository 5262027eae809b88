//! Packing samples into bins by their tokens, as published: first fit, and splitting of bins.
mod first_fit;
mod splitting;

pub use first_fit::first_fit;
pub(crate) use first_fit::{Rooms, pack_first_fit};
pub use splitting::split;
pub(crate) use splitting::split_bins;
