//! Everything that can be refused, a sentence a variant.
use std::fmt;

/// Shorthand for a result that can be refused.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an input or a plan was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument's value breaks its rule: names argument, rule and value.
    Value(String),
    /// The input is sound but no schedule exists for it.
    Schedule(String),
    /// An exact result does not fit the promised type.
    Overflow(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(text) | Self::Schedule(text) | Self::Overflow(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
