//! Arguments of the published functions, as callers give them: lists of plain numbers are read here, which takes
//! nanoseconds a number; all else is read, or refused, by `flopbalance.checks`.
use crate::convert::{Answer, Ints, Numbers, Refused};
use flopbalance_core::{CostCurve, Lengths};
use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyList, PyTuple};
use std::num::NonZeroUsize;

/// Numbers in a row.
pub enum Values<'py, T: Element> {
    Read(Vec<T>),
    Array(PyReadonlyArray1<'py, T>),
}

impl<T: Element> Values<'_, T> {
    pub fn as_slice(&self) -> Answer<&[T]> {
        match self {
            Self::Read(values) => Ok(values),
            Self::Array(values) => Ok(values.as_slice()?),
        }
    }
}

pub fn integers<'py>(values: &Bound<'py, PyAny>, name: &str) -> PyResult<Values<'py, i64>> {
    integers_by("as_integers", values, name)
}

/// Integers that may be token counts; [`lengths`] says whether they are.
pub fn tokens<'py>(values: &Bound<'py, PyAny>, name: &str) -> PyResult<Values<'py, i64>> {
    integers_by("as_lengths", values, name)
}

/// Ids of any kind, as numbers.
pub fn rollout_ids<'py>(values: &Bound<'py, PyAny>, name: &str) -> PyResult<Values<'py, i64>> {
    integers_by("as_rollout_ids", values, name)
}

fn integers_by<'py>(check: &str, values: &Bound<'py, PyAny>, name: &str) -> PyResult<Values<'py, i64>> {
    Ok(match plain(values) {
        Some(read) => Values::Read(read),
        None => Values::Array(checked(values, check, (values, name))?.extract::<Ints<'py>>()?),
    })
}

pub fn weights<'py>(values: &Bound<'py, PyAny>, name: &str) -> PyResult<Numbers<'py>> {
    let not_negative = |read: Vec<i64>| read.into_iter().map(|value| u64::try_from(value).ok()).collect();
    if let Some(read) = plain(values).and_then(not_negative) {
        return Ok(Numbers::U64(Values::Read(read)));
    }
    if let Some(read) = plain(values) {
        return Ok(Numbers::F64(Values::Read(read)));
    }
    checked(values, "as_weights", (values, name))?.extract()
}

/// What samples cost: their tokens, or what an array or a cost function says.
pub fn sample_costs<'py>(py: Python<'py>, costs: Option<Bound<'py, PyAny>>, lengths: &[i64]) -> Answer<Numbers<'py>> {
    let Some(costs) = costs else {
        flopbalance_core::ensure_memory(lengths.len(), size_of::<u64>())?;
        return Ok(Numbers::U64(Values::Read(lengths.iter().map(|&length| length as u64).collect())));
    };
    Ok(checked(&costs, "as_sample_costs", (&costs, PyArray1::from_slice(py, lengths), lengths.len()))?.extract()?)
}

pub fn count(value: &Bound<'_, PyAny>, name: &str, minimum: u64) -> PyResult<u64> {
    match i64::plain(value).and_then(|count| u64::try_from(count).ok()) {
        Some(count) if count >= minimum => Ok(count),
        _ => checked(value, "as_count", (value, name, minimum))?.extract(),
    }
}

pub fn size(value: &Bound<'_, PyAny>, name: &str) -> Answer<NonZeroUsize> {
    Ok(NonZeroUsize::new(count(value, name, 1)? as usize).unwrap_or(NonZeroUsize::MIN))
}

/// Integers that are token counts.
pub fn lengths<'a>(integers: &'a [i64], name: &str) -> Answer<Lengths<'a>> {
    Lengths::new(integers).map_err(|error| Refused::named(&error, &[("lengths", name)]))
}

/// Curves given as `(per_token, per_square)`.
pub fn terms(terms: &Bound<'_, PyList>) -> PyResult<Vec<CostCurve>> {
    let curve = |term: Bound<'_, PyAny>| {
        let (per_token, per_square) = term.extract()?;
        Ok(CostCurve::new(per_token, per_square, 0, Vec::new()))
    };
    terms.iter().map(curve).collect()
}

/// The items of all bins in a row, and how many each bin holds.
pub fn bins<'py>(bins: &Bound<'py, PyAny>, name: &str) -> PyResult<(Values<'py, i64>, Values<'py, i64>)> {
    if let Some((items, sizes)) = plain_bins(bins) {
        return Ok((Values::Read(items), Values::Read(sizes)));
    }
    let (items, sizes) = checked(bins, "as_bins", (bins, name))?.extract()?;
    Ok((Values::Array(items), Values::Array(sizes)))
}

/// What a function of `flopbalance.checks` makes of an argument.
fn checked<'py>(
    value: &Bound<'py, PyAny>,
    check: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static CHECKS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = value.py();
    let checks = CHECKS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("flopbalance.checks")?.unbind()))?;
    checks.bind(py).getattr(check)?.call1(arguments)
}

/// Numbers that are just what they seem: neither booleans nor of a type of somebody's own.
trait Plain: Sized {
    fn plain(value: &Bound<'_, PyAny>) -> Option<Self>;
}

impl Plain for i64 {
    fn plain(value: &Bound<'_, PyAny>) -> Option<Self> {
        value.cast_exact::<PyInt>().ok()?.extract().ok()
    }
}

impl Plain for f64 {
    fn plain(value: &Bound<'_, PyAny>) -> Option<Self> {
        value.cast_exact::<PyFloat>().ok().map(PyFloatMethods::value)
    }
}

/// A list or tuple of plain numbers of one type.
fn plain<T: Plain>(values: &Bound<'_, PyAny>) -> Option<Vec<T>> {
    let mut read = Vec::new();
    read_plain(values, &mut read)?;
    Some(read)
}

fn read_plain<T: Plain>(values: &Bound<'_, PyAny>, read: &mut Vec<T>) -> Option<()> {
    fn all<'py, T: Plain>(values: impl ExactSizeIterator<Item = Bound<'py, PyAny>>, read: &mut Vec<T>) -> Option<()> {
        read.try_reserve(values.len()).ok()?;
        for value in values {
            read.push(T::plain(&value)?);
        }
        Some(())
    }
    if let Ok(list) = values.cast_exact::<PyList>() {
        return all(list.iter(), read);
    }
    all(values.cast_exact::<PyTuple>().ok()?.iter(), read)
}

fn plain_bins(bins: &Bound<'_, PyAny>) -> Option<(Vec<i64>, Vec<i64>)> {
    let bins = bins.cast_exact::<PyList>().ok()?;
    let (mut items, mut sizes) = (Vec::new(), Vec::with_capacity(bins.len()));
    for bin in bins.iter() {
        let before = items.len();
        read_plain(&bin, &mut items)?;
        sizes.push((items.len() - before) as i64);
    }
    Some((items, sizes))
}
