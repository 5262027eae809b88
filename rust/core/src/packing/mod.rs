//! Packing samples into bins by their tokens: first fit and splitting of bins, as published, and both for those who only pack.
mod first_fit;
mod pack;
mod splitting;

pub use first_fit::first_fit;
pub(crate) use first_fit::pack_first_fit;
pub use pack::{Bins, pack};
pub use splitting::split;
pub(crate) use splitting::split_bins;
