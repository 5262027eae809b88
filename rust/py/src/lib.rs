//! The only file that knows Python: borrow, detach, convert, map the error.
#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]
use pyo3::prelude::*;

/// Rust core of flopbalance.
#[pymodule]
mod _core {
    use flopbalance_core::{self as core, CostCurve};
    use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
    use pyo3::exceptions::{PyOverflowError, PyValueError};
    use pyo3::prelude::*;

    /// The one place where a refusal becomes a Python exception.
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
    /// Exact FLOPs of each sequence; `windows` holds (window, FLOPs per pair).
    #[pyfunction]
    fn curve_flops<'py>(
        py: Python<'py>,
        lengths: PyReadonlyArray1<'py, i64>,
        per_token: u64,
        per_pair: u64,
        windows: Vec<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let lengths = lengths.as_slice()?;
        let flops =
            py.detach(|| CostCurve::new(per_token, 0, per_pair, windows).flops_each(lengths));
        flops
            .map(|flops| flops.into_pyarray(py))
            .map_err(|error| raise(py, &error))
    }

    /// Tokens, causal pairs and the pairs within each window, summed over the sequences.
    #[pyfunction]
    fn length_moments(
        py: Python<'_>,
        lengths: PyReadonlyArray1<'_, i64>,
        windows: Vec<u64>,
    ) -> PyResult<(u128, u128, Vec<u128>)> {
        let lengths = lengths.as_slice()?;
        let moments = py
            .detach(|| core::moments(lengths, &windows))
            .map_err(|error| raise(py, &error))?;
        Ok((moments.tokens, moments.pairs, moments.window_pairs))
    }

    /// FLOPs of each sequence by a curve that may have a square term: exact integers, rounded once to float64.
    #[pyfunction]
    fn curve_flops_rounded<'py>(
        py: Python<'py>,
        lengths: PyReadonlyArray1<'py, i64>,
        per_token: u64,
        per_square: u64,
        per_pair: u64,
        windows: Vec<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let lengths = lengths.as_slice()?;
        let curve = CostCurve::new(per_token, per_square, per_pair, windows);
        let flops = py.detach(|| curve.flops_rounded(lengths));
        flops.map(|flops| flops.into_pyarray(py)).map_err(|error| raise(py, &error))
    }
}
