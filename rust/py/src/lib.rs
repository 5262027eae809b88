//! The only crate that knows Python: borrow, detach, convert, map the error.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]
mod convert;

use pyo3::prelude::*;

/// Rust core of flopbalance; arrays in, arrays or the promised lists out.
#[pymodule(gil_used = false)]
mod _core {
    use crate::convert::detached;
    use crate::convert::{Answer, Array, Ints, Measures, Numbers, PartSizes, Plan, PlanRequest, Refused, Schedule};
    use flopbalance_core::{self as core, CostCurve, Groups, Lengths, Pipeline};
    use numpy::{IntoPyArray, PyReadonlyArray1};
    use pyo3::prelude::*;
    use pyo3::types::{PyInt, PyList};
    use std::num::{NonZeroU64, NonZeroUsize};

    /// Whether this is a build to measure with.
    #[pymodule_export]
    const DEBUG_BUILD: bool = cfg!(debug_assertions);

    /// The effort that `plan` spends by default.
    #[pymodule_export]
    const EFFORT: u64 = core::Capped::EFFORT;

    /// Refuses lengths that the core would, by the argument's name.
    #[pyfunction]
    fn check_lengths(py: Python<'_>, lengths: Ints<'_>, name: &str) -> Answer<()> {
        let lengths = lengths.as_slice()?;
        let checked = detached(py, || Lengths::new(lengths));
        checked.map(drop).map_err(|error| Refused::named(&error, &[("lengths", name)]))
    }

    /// Refuses floats that the core would as weights, by the argument's name.
    #[pyfunction]
    fn check_weights(weights: PyReadonlyArray1<'_, f64>, name: &str) -> Answer<()> {
        let checked = core::Weights::check_f64(weights.as_slice()?);
        checked.map_err(|error| Refused::named(&error, &[("weights", name)]))
    }

    fn arrays(py: Python<'_>, (items, offsets): (Vec<i64>, Vec<i64>)) -> (Array<'_>, Array<'_>) {
        (items.into_pyarray(py), offsets.into_pyarray(py))
    }

    /// Karmarkar–Karp; items in joined order, or ascending in every part. `names` are those of weights and parts.
    #[pyfunction]
    fn partition<'py>(
        py: Python<'py>,
        weights: Numbers<'py>,
        parts: NonZeroUsize,
        sizes: PartSizes,
        ascending: bool,
        names: (String, String),
    ) -> Answer<(Array<'py>, Array<'py>)> {
        let weights = weights.read(&names.0)?;
        let groups = detached(py, || {
            let groups = core::karmarkar_karp(&weights, parts, sizes.0)?;
            Ok(if ascending { groups.ascending() } else { groups }.flat())
        });
        let groups = groups.map_err(|e| Refused::named(&e, &[("weights", &names.0), ("parts", &names.1)]))?;
        Ok(arrays(py, groups))
    }

    /// First fit on tokens.
    #[pyfunction]
    fn first_fit<'py>(py: Python<'py>, lengths: Ints<'py>, max_tokens: u64) -> Answer<(Array<'py>, Array<'py>)> {
        let lengths = lengths.as_slice()?;
        let bins = detached(py, || Ok(core::first_fit(Lengths::new(lengths)?, max_tokens)?.flat()))?;
        Ok(arrays(py, bins))
    }

    /// Splits bins, given by their samples and sizes, until there are `target`.
    #[pyfunction]
    fn split<'py>(
        py: Python<'py>,
        items: Ints<'py>,
        sizes: Ints<'py>,
        target: usize,
        lengths: Ints<'py>,
    ) -> Answer<(Array<'py>, Array<'py>)> {
        let (items, sizes, lengths) = (items.as_slice()?, sizes.as_slice()?, lengths.as_slice()?);
        let bins = detached(py, || {
            let mut bins = Groups::from_sizes(items, sizes, lengths.len())?;
            core::split(&mut bins, target, Lengths::new(lengths)?)?;
            Ok(bins.flat())
        });
        Ok(arrays(py, bins.map_err(|error| Refused::named(&error, &[("groups", "bins")]))?))
    }

    /// Plans every step.
    #[pyfunction]
    fn plan<'py>(
        py: Python<'py>,
        lengths: Ints<'py>,
        costs: Numbers<'py>,
        request: PlanRequest<'py>,
    ) -> Answer<Plan<'py>> {
        let (lengths, costs, request) = (lengths.as_slice()?, costs.read("costs")?, request.read()?);
        let plan = detached(py, || core::plan(Lengths::new(lengths)?, &costs, &request))?;
        Ok(Plan::new(py, plan))
    }

    /// Measures a `Schedule`.
    #[pyfunction]
    fn measure<'py>(
        py: Python<'py>,
        schedule: Schedule<'py>,
        costs: PyReadonlyArray1<'py, f64>,
        pipeline_stages: NonZeroU64,
        micro_batch_overhead: f64,
    ) -> Answer<Measures<'py>> {
        let (layout, costs) = (schedule.layout()?, costs.as_slice()?);
        let pipeline = Pipeline::new(pipeline_stages, micro_batch_overhead)?;
        Ok(Measures::new(py, detached(py, || core::measure(&layout, costs, &pipeline))?))
    }

    /// The items of every group as a list, where groups end at `offsets` after the start of the first.
    fn lists<'py, 'a, T>(py: Python<'py>, items: &'a [T], offsets: &[i64]) -> PyResult<Bound<'py, PyList>>
    where
        &'a T: IntoPyObject<'py>,
    {
        let within = |offset: i64| (offset - offsets[0]) as usize;
        let groups = offsets.windows(2).enumerate().map(|(number, ends)| {
            if number % 1024 == 0 {
                py.check_signals()?;
            }
            PyList::new(py, &items[within(ends[0])..within(ends[1])])
        });
        PyList::new(py, groups.collect::<PyResult<Vec<_>>>()?)
    }

    /// `items[offsets[g]..offsets[g + 1]]` for every group g, as lists.
    #[pyfunction]
    fn group_lists<'py>(py: Python<'py>, items: Ints<'py>, offsets: Ints<'py>) -> Answer<Bound<'py, PyList>> {
        Ok(lists::<i64>(py, items.as_slice()?, offsets.as_slice()?)?)
    }

    /// The published nested lists: every rank's samples, and its micro-batches as positions in them.
    #[pyfunction]
    fn rank_lists<'py>(py: Python<'py>, schedule: Schedule<'py>) -> Answer<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let ranks: Vec<_> = schedule.layout()?.ranks().collect();
        let largest = ranks.iter().map(|(samples, _)| samples.len()).max().unwrap_or(0);
        // A position stands in every rank's lists: one integer object serves them all.
        let positions: Vec<Bound<'py, PyInt>> = (0..largest).map(|position| PyInt::new(py, position)).collect();
        let partitions = ranks.iter().map(|(samples, _)| PyList::new(py, *samples));
        let partitions = PyList::new(py, partitions.collect::<PyResult<Vec<_>>>()?)?;
        let micro_batches = ranks.iter().map(|(_, offsets)| lists::<Bound<PyInt>>(py, &positions, offsets));
        Ok((partitions, PyList::new(py, micro_batches.collect::<PyResult<Vec<_>>>()?)?))
    }

    /// Exact FLOPs of each sequence; `windows` holds (window, FLOPs per pair).
    #[pyfunction]
    fn curve_flops<'py>(
        py: Python<'py>,
        lengths: Ints<'py>,
        per_token: u64,
        per_pair: u64,
        windows: Vec<(u64, u64)>,
    ) -> Answer<Array<'py>> {
        let lengths = lengths.as_slice()?;
        let flops = detached(py, || CostCurve::new(per_token, 0, per_pair, windows).flops_each(lengths))?;
        Ok(flops.into_pyarray(py))
    }

    /// The same by a curve that may have a square term: exact integers, rounded once to float64.
    #[pyfunction]
    fn curve_flops_rounded<'py>(
        py: Python<'py>,
        lengths: Ints<'py>,
        per_token: u64,
        per_square: u64,
        per_pair: u64,
        windows: Vec<(u64, u64)>,
    ) -> Answer<Array<'py, f64>> {
        let (lengths, curve) = (lengths.as_slice()?, CostCurve::new(per_token, per_square, per_pair, windows));
        Ok(detached(py, || curve.flops_rounded(lengths))?.into_pyarray(py))
    }

    /// Tokens, causal pairs and the pairs within each window, summed over the sequences.
    #[pyfunction]
    fn length_moments(py: Python<'_>, lengths: Ints<'_>, windows: Vec<u64>) -> Answer<(u128, u128, Vec<u128>)> {
        let lengths = lengths.as_slice()?;
        let moments = detached(py, || core::moments(lengths, &windows))?;
        Ok((moments.tokens, moments.pairs, moments.window_pairs))
    }
}
