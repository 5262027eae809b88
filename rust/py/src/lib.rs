//! The only file that knows Python: borrow, detach, convert, map the error.
use pyo3::prelude::*;

/// Rust core of flopbalance.
#[pymodule]
mod _core {
    use pyo3::exceptions::{PyOverflowError, PyValueError};
    use pyo3::prelude::*;

    /// The one place where a refusal becomes a Python exception.
    #[allow(dead_code)]
    fn raise(py: Python<'_>, error: &flopbalance_core::Error) -> PyErr {
        use flopbalance_core::Error;
        let text = error.to_string();
        match error {
            Error::Value(_) => PyValueError::new_err(text),
            Error::Overflow(_) => PyOverflowError::new_err(text),
            Error::Schedule(_) => py
                .import("flopbalance.errors")
                .and_then(|errors| errors.getattr("ScheduleError")?.call1((text,)))
                .map_or_else(|error| error, PyErr::from_value),
        }
    }
}
