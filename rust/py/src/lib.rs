//! The only file that knows Python: borrow, detach, convert, map the error.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]
use pyo3::prelude::*;

/// Rust core of flopbalance; arrays in, arrays or the promised lists out.
#[pymodule]
mod _core {
    use flopbalance_core::{
        self as core, Capped, CostCurve, Error, Groups, Leftover, Lengths, Limits, Objective, Packing, Published,
        Request, Weights,
    };
    use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
    use pyo3::exceptions::{PyOverflowError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::types::{PyInt, PyList};
    use std::num::NonZeroUsize;

    type Array<'py> = Bound<'py, PyArray1<i64>>;

    /// Whether this is a build to measure with.
    #[pymodule_export]
    const DEBUG_BUILD: bool = cfg!(debug_assertions);

    /// The one place where a refusal becomes an exception.
    fn raise(py: Python<'_>, error: &Error) -> PyErr {
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

    /// What `arrays.as_weights` makes of an argument.
    #[derive(FromPyObject)]
    enum Numbers<'py> {
        U64(PyReadonlyArray1<'py, u64>),
        F64(PyReadonlyArray1<'py, f64>),
        Big(Vec<u128>),
    }

    impl Numbers<'_> {
        fn read(&self, py: Python<'_>, name: &str) -> PyResult<Weights<'_>> {
            match self {
                Self::U64(values) => Ok(Weights::from_u64(values.as_slice()?)),
                Self::F64(values) => Weights::from_f64(name, values.as_slice()?),
                Self::Big(values) => Weights::from_u128(name, values.clone()),
            }
            .map_err(|error| raise(py, &error))
        }
    }

    fn arrays(py: Python<'_>, groups: Groups) -> (Array<'_>, Array<'_>) {
        let (items, offsets) = py.detach(|| groups.flat());
        (items.into_pyarray(py), offsets.into_pyarray(py))
    }

    /// Karmarkar–Karp; items in joined order, or ascending in every part.
    #[pyfunction]
    fn partition<'py>(
        py: Python<'py>,
        weights: Numbers<'py>,
        parts: NonZeroUsize,
        equal_size: bool,
        ascending: bool,
        name: &str,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let weights = weights.read(py, name)?;
        let groups = py
            .detach(|| {
                let groups = core::karmarkar_karp(&weights, parts, equal_size)?;
                Ok(if ascending { groups.ascending() } else { groups })
            })
            .map_err(|error| raise(py, &error))?;
        Ok(arrays(py, groups))
    }

    /// First fit on tokens.
    #[pyfunction]
    fn first_fit<'py>(
        py: Python<'py>,
        lengths: PyReadonlyArray1<'py, i64>,
        max_tokens: i64,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let lengths = lengths.as_slice()?;
        let bins = py
            .detach(|| Ok(core::first_fit(&Lengths::new(lengths)?, max_tokens)))
            .map_err(|error| raise(py, &error))?;
        Ok(arrays(py, bins))
    }

    /// Splits bins, given by their samples and sizes, until there are `target`.
    #[pyfunction]
    fn split<'py>(
        py: Python<'py>,
        items: PyReadonlyArray1<'py, i64>,
        sizes: PyReadonlyArray1<'py, i64>,
        target: usize,
        lengths: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let (items, sizes, lengths) = (items.as_slice()?, sizes.as_slice()?, lengths.as_slice()?);
        let bins = py
            .detach(|| {
                let lengths = Lengths::new(lengths)?;
                let mut bins = Groups::from_sizes("bins", items, sizes, lengths.len())?;
                core::split(&mut bins, target, &lengths);
                Ok(bins)
            })
            .map_err(|error| raise(py, &error))?;
        Ok(arrays(py, bins))
    }

    /// What only `packing="capped"` reads.
    #[derive(FromPyObject)]
    struct CappedOptions<'py>(String, u64, f64, u64, bool, Option<(PyReadonlyArray1<'py, i64>, i64)>, bool);

    impl CappedOptions<'_> {
        fn read(&self, max_tokens: i64) -> PyResult<Capped<'_>> {
            let Self(ref objective, stages, overhead_share, effort, padded, ref extra, repeat) = *self;
            let objective = match objective.as_str() {
                "step" => Objective::Step,
                "micro-batch" => Objective::MicroBatch,
                _ => Objective::Pipeline { stages, micro_batch_overhead: 0 },
            };
            let extra = match extra {
                Some((amounts, cap)) => Some((amounts.as_slice()?, *cap)),
                None => None,
            };
            Ok(Capped { limits: Limits { max_tokens, padded, extra }, objective, overhead_share, effort, repeat })
        }
    }

    /// The arrays of a `Schedule`.
    type Arrays<'py> =
        (Array<'py>, Array<'py>, Array<'py>, Array<'py>, Array<'py>, Array<'py>, Bound<'py, PyArray1<bool>>);

    /// Plans every step; the arrays of a `Schedule`. `packing_size` is the cap or the micro-batch size.
    #[pyfunction]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword of plan")]
    fn plan<'py>(
        py: Python<'py>,
        lengths: PyReadonlyArray1<'py, i64>,
        costs: Numbers<'py>,
        packing: &str,
        packing_size: NonZeroUsize,
        dp_size: NonZeroUsize,
        micro_batch_multiple: NonZeroUsize,
        balance_ranks: bool,
        rollout_ids: Option<PyReadonlyArray1<'py, i64>>,
        global_batch_size: Option<NonZeroUsize>,
        leftover: &str,
        capped: CappedOptions<'py>,
    ) -> PyResult<Arrays<'py>> {
        let lengths = lengths.as_slice()?;
        let costs = costs.read(py, "costs")?;
        let rollout_ids = rollout_ids.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let max_tokens = i64::try_from(packing_size.get()).unwrap_or(i64::MAX);
        let packing = match packing {
            "first-fit" => Packing::Published(Published::FirstFit { max_tokens }),
            "flops" => Packing::Published(Published::Flops { max_tokens }),
            "fixed" => Packing::Published(Published::Fixed { micro_batch_size: packing_size }),
            _ => Packing::Capped(capped.read(max_tokens)?),
        };
        let leftover = match leftover {
            "partial" => Leftover::Partial,
            "error" => Leftover::Error,
            _ => Leftover::Drop,
        };
        let request =
            Request { dp_size, micro_batch_multiple, packing, balance_ranks, rollout_ids, global_batch_size, leftover };
        let plan =
            py.detach(|| core::plan(Lengths::new(lengths)?, &costs, &request)).map_err(|error| raise(py, &error))?;
        Ok((
            plan.samples.into_pyarray(py),
            plan.micro_batch_offsets.into_pyarray(py),
            plan.micro_batch_tokens.into_pyarray(py),
            plan.micro_batches_per_step.into_pyarray(py),
            plan.rollouts_per_step.into_pyarray(py),
            plan.dropped.into_pyarray(py),
            plan.is_padding.into_pyarray(py),
        ))
    }

    /// `items[offsets[g]..offsets[g + 1]]` for every group g, as lists.
    #[pyfunction]
    fn group_lists<'py>(
        py: Python<'py>,
        items: PyReadonlyArray1<'py, i64>,
        offsets: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (items, offsets) = (items.as_slice()?, offsets.as_slice()?);
        let groups = offsets.windows(2).map(|ends| PyList::new(py, &items[ends[0] as usize..ends[1] as usize]));
        let groups = groups.collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, groups)
    }

    /// The published nested lists: every rank's samples, and its micro-batches as positions in them.
    #[pyfunction]
    fn rank_lists<'py>(
        py: Python<'py>,
        samples: PyReadonlyArray1<'py, i64>,
        offsets: PyReadonlyArray1<'py, i64>,
        dp_size: NonZeroUsize,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
        let (samples, offsets) = (samples.as_slice()?, offsets.as_slice()?);
        let count = (offsets.len() - 1) / dp_size;
        let rank_ends = offsets.iter().step_by(count).copied().collect::<Vec<_>>();
        let largest = rank_ends.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        // A position stands in every rank's lists: one integer object serves them all.
        let positions: Vec<Bound<'py, PyInt>> =
            (0..largest).map(|position| position.into_pyobject(py)).collect::<Result<_, _>>()?;
        let mut partitions = Vec::with_capacity(dp_size.get());
        let mut micro_batches = Vec::with_capacity(dp_size.get());
        for (rank, ends) in rank_ends.windows(2).enumerate() {
            partitions.push(PyList::new(py, &samples[ends[0] as usize..ends[1] as usize])?);
            let of_rank = offsets[rank * count..=(rank + 1) * count]
                .windows(2)
                .map(|batch| PyList::new(py, &positions[(batch[0] - ends[0]) as usize..(batch[1] - ends[0]) as usize]))
                .collect::<PyResult<Vec<_>>>()?;
            micro_batches.push(PyList::new(py, of_rank)?);
        }
        Ok((PyList::new(py, partitions)?, PyList::new(py, micro_batches)?))
    }

    /// Exact FLOPs of each sequence; `windows` holds (window, FLOPs per pair).
    #[pyfunction]
    fn curve_flops<'py>(
        py: Python<'py>,
        lengths: PyReadonlyArray1<'py, i64>,
        per_token: u64,
        per_pair: u64,
        windows: Vec<(u64, u64)>,
    ) -> PyResult<Array<'py>> {
        let lengths = lengths.as_slice()?;
        let flops = py.detach(|| CostCurve::new(per_token, 0, per_pair, windows).flops_each(lengths));
        flops.map(|flops| flops.into_pyarray(py)).map_err(|error| raise(py, &error))
    }

    /// Tokens, causal pairs and the pairs within each window, summed over the sequences.
    #[pyfunction]
    fn length_moments(
        py: Python<'_>,
        lengths: PyReadonlyArray1<'_, i64>,
        windows: Vec<u64>,
    ) -> PyResult<(u128, u128, Vec<u128>)> {
        let lengths = lengths.as_slice()?;
        let moments = py.detach(|| core::moments(lengths, &windows)).map_err(|error| raise(py, &error))?;
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
