//! The only crate that knows Python: borrow, detach, convert, map the error.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]
mod convert;
mod given;
mod notes;

use pyo3::prelude::*;

/// Rust core of flopbalance; arrays in, arrays or the promised lists out.
#[pymodule(gil_used = false)]
mod _core {
    use crate::convert::{
        Answer, Array, BinOrder, Ints, Measures, Numbers, Order, PartSizes, Plan, PlanRequest, Refused, Schedule,
    };
    use crate::convert::{detached, detached_if_long};
    use crate::given;
    #[pymodule_export]
    use crate::notes::Notes;
    use flopbalance_core::{self as core, CostCurve, Groups, ItemOrder, Layout, Lengths, Pipeline};
    use numpy::{IntoPyArray, PyReadonlyArray1};
    use pyo3::IntoPyObjectExt;
    use pyo3::prelude::*;
    use pyo3::types::{PyInt, PyList};
    use std::num::{NonZeroU64, NonZeroUsize};

    type List<'py> = Bound<'py, PyList>;

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
        let checked = detached_if_long(py, lengths.len(), || Lengths::new(lengths));
        checked.map(drop).map_err(|error| Refused::named(&error, &[("lengths", name)]))
    }

    /// Refuses floats that the core would as weights, by the argument's name.
    #[pyfunction]
    fn check_weights(weights: PyReadonlyArray1<'_, f64>, name: &str) -> Answer<()> {
        let checked = core::Weights::check_f64(weights.as_slice()?);
        checked.map_err(|error| Refused::named(&error, &[("weights", name)]))
    }

    /// Groups as the lists that are promised, or flat: their items, and where each group ends after a leading 0.
    fn answer(py: Python<'_>, groups: Groups, as_lists: bool) -> Answer<Bound<'_, PyAny>> {
        if as_lists {
            ensure_lists(groups.iter().map(<[u32]>::len).sum(), groups.len())?;
            return Ok(lists::<u32>(py, groups.iter())?.into_any());
        }
        let (items, offsets) = detached_if_long(py, groups.len(), || Ok(groups.flat()))?;
        Ok((items.into_pyarray(py), offsets.into_pyarray(py)).into_bound_py_any(py)?)
    }

    /// Objects that are made in about a millisecond.
    const MANY: usize = 1 << 16;

    /// Bytes of an integer and its place in a list, and of a list.
    const OF_LIST_ITEM: usize = 48;
    const OF_LIST: usize = 96;

    /// Refuses lists of so many items where there is no memory for them: the interpreter's own allocations may fail
    /// where no error can be returned.
    fn ensure_lists(items: usize, lists: usize) -> core::Result<()> {
        core::ensure_memory(items * OF_LIST_ITEM + lists * OF_LIST, 1)
    }

    /// A list of lists; a signal ends it.
    fn lists<'py, 'a, T: 'a>(py: Python<'py>, groups: impl Iterator<Item = &'a [T]>) -> PyResult<List<'py>>
    where
        &'a T: IntoPyObject<'py>,
    {
        let all = PyList::empty(py);
        let mut unwatched = 0;
        for items in groups {
            unwatched += 1 + items.len();
            if unwatched > MANY {
                py.check_signals()?;
                unwatched = 0;
            }
            all.append(PyList::new(py, items)?)?;
        }
        Ok(all)
    }

    /// Karmarkar–Karp; items in joined order, or ascending in every part.
    #[pyfunction]
    fn partition<'py>(
        py: Python<'py>,
        seqlen_list: Bound<'py, PyAny>,
        k_partitions: Bound<'py, PyAny>,
        sizes: PartSizes,
        ascending: bool,
        as_lists: bool,
    ) -> Answer<Bound<'py, PyAny>> {
        let numbers = given::weights(&seqlen_list, "seqlen_list")?;
        let weights = numbers.read("seqlen_list")?;
        let parts = given::size(&k_partitions, "k_partitions")?;
        let order = if ascending { ItemOrder::Ascending } else { ItemOrder::Joined };
        let groups = detached_if_long(py, weights.len(), || core::karmarkar_karp(&weights, parts, sizes.0, order));
        let names = [("weights", "seqlen_list"), ("parts", "k_partitions")];
        answer(py, groups.map_err(|error| Refused::named(&error, &names))?, as_lists)
    }

    /// First fit on tokens.
    #[pyfunction]
    fn first_fit<'py>(
        py: Python<'py>,
        total_lengths: Bound<'py, PyAny>,
        max_tokens_per_bin: Bound<'py, PyAny>,
        as_lists: bool,
    ) -> Answer<Bound<'py, PyAny>> {
        let lengths = given::tokens(&total_lengths, "total_lengths")?;
        let lengths = given::lengths(lengths.as_slice()?, "total_lengths")?;
        let max_tokens = given::count(&max_tokens_per_bin, "max_tokens_per_bin", 1)?;
        let bins = detached_if_long(py, lengths.len(), || core::first_fit(lengths, max_tokens));
        answer(py, bins.map_err(|error| Refused::named(&error, &[("lengths", "total_lengths")]))?, as_lists)
    }

    /// First fit in an order, with a cap on samples, into as many bins as are wanted; or even bins. Samples cost their
    /// tokens, or what `costs` say.
    #[pyfunction]
    fn pack<'py>(
        py: Python<'py>,
        lengths: Bound<'py, PyAny>,
        max_tokens: Bound<'py, PyAny>,
        order: Order,
        max_samples: Option<NonZeroUsize>,
        counts: (Option<NonZeroUsize>, NonZeroUsize, NonZeroUsize),
        costs: Option<Bound<'py, PyAny>>,
    ) -> Answer<Bound<'py, PyAny>> {
        let lengths = given::tokens(&lengths, "lengths")?;
        let lengths = given::lengths(lengths.as_slice()?, "lengths")?;
        let max_tokens = given::count(&max_tokens, "max_tokens", 1)?;
        let mut how = core::Bins::new(NonZeroU64::new(max_tokens).unwrap_or(NonZeroU64::MIN));
        how.max_samples = max_samples;
        (how.counts.exactly, how.counts.at_least, how.multiple) = counts;
        let bins = if let BinOrder::Balanced = order.0 {
            let costs = given::sample_costs(py, costs, &lengths)?;
            let costs = costs.read("costs")?;
            detached(py, || core::pack_evenly(lengths, &costs, &how))
        } else {
            how.longest_first = matches!(order.0, BinOrder::Decreasing);
            detached_if_long(py, lengths.len(), || core::pack(lengths, &how))
        };
        answer(py, bins.map_err(|error| Refused::named(&error, &[("exactly", "count")]))?, true)
    }

    /// Splits bins until there are as many as wanted.
    #[pyfunction]
    fn split<'py>(
        py: Python<'py>,
        bins: Bound<'py, PyAny>,
        target_count: Bound<'py, PyAny>,
        lengths: Bound<'py, PyAny>,
    ) -> Answer<Bound<'py, PyAny>> {
        let (items, sizes) = given::bins(&bins, "bins")?;
        let target = given::count(&target_count, "target_count", 0)? as usize;
        let lengths = given::tokens(&lengths, "lengths")?;
        let lengths = given::lengths(lengths.as_slice()?, "lengths")?;
        let (items, sizes) = (items.as_slice()?, sizes.as_slice()?);
        let bins = detached_if_long(py, lengths.len().max(target), || {
            let mut bins = Groups::from_sizes(items, sizes, lengths.len())?;
            core::split(&mut bins, target, lengths)?;
            Ok(bins)
        });
        let names = [("groups", "bins"), ("target", "target_count")];
        answer(py, bins.map_err(|error| Refused::named(&error, &names))?, true)
    }

    /// The inverse of a permutation.
    #[pyfunction]
    fn inverse(py: Python<'_>, idx_map: Bound<'_, PyAny>) -> Answer<Vec<i64>> {
        let order = given::integers(&idx_map, "idx_map")?;
        let order = order.as_slice()?;
        core::ensure_memory(order.len(), OF_LIST_ITEM)?;
        let inverse = detached_if_long(py, order.len(), || core::inverse(order));
        inverse.map_err(|error| Refused::named(&error, &[("order", "idx_map")]))
    }

    /// The sum of curves, `(per_token, per_square)`, over all sequences, in that order; `None` where there is none.
    #[pyfunction]
    fn total_flops(py: Python<'_>, seqlens: Bound<'_, PyAny>, terms: Bound<'_, PyList>) -> Answer<Option<f64>> {
        let lengths = given::tokens(&seqlens, "seqlens")?;
        let lengths = given::lengths(lengths.as_slice()?, "seqlens")?;
        let curves = given::terms(&terms)?;
        let total = detached_if_long(py, lengths.len(), || core::total_rounded(&curves, &lengths));
        let total = total.map_err(|error| Refused::named(&error, &[("lengths", "seqlens")]))?;
        Ok(if lengths.is_empty() { None } else { Some(total) })
    }

    /// The sum of such curves for each sequence.
    #[pyfunction]
    fn sum_flops<'py>(py: Python<'py>, lengths: Bound<'py, PyAny>, terms: List<'py>) -> Answer<Array<'py, f64>> {
        let lengths = given::tokens(&lengths, "lengths")?;
        let lengths = given::lengths(lengths.as_slice()?, "lengths")?;
        let curves = given::terms(&terms)?;
        Ok(detached_if_long(py, lengths.len(), || core::sums_rounded(&curves, &lengths))?.into_pyarray(py))
    }

    /// Plans every step.
    #[pyfunction]
    fn plan<'py>(
        py: Python<'py>,
        lengths: Ints<'py>,
        costs: Numbers<'py>,
        request: PlanRequest<'py>,
    ) -> Answer<Plan<'py>> {
        let (lengths, costs, carried) = (lengths.as_slice()?, costs.read("costs")?, request.carried()?);
        let asked = request.read(carried.as_ref()).map_err(|refused| refused.in_words_of(&request.names))?;
        let plan = detached(py, || core::plan(Lengths::new(lengths)?, &costs, &asked));
        let plan = plan.map_err(|error| Refused::from(error).in_words_of(&request.names))?;
        Ok(Plan::new(py, plan))
    }

    /// Measures a `Schedule`.
    #[pyfunction]
    fn measure<'py>(
        py: Python<'py>,
        schedule: Schedule<'py>,
        costs: PyReadonlyArray1<'py, f64>,
        pipeline: (NonZeroU64, NonZeroU64, Option<NonZeroU64>),
        micro_batch_overhead: f64,
    ) -> Answer<Measures<'py>> {
        let (layout, costs) = (schedule.layout()?, costs.as_slice()?);
        let (stages, chunks, group) = pipeline;
        let pipeline = Pipeline::new(stages, chunks, group)?;
        let measures = detached(py, || core::measure(&layout, costs, &pipeline, micro_batch_overhead));
        let named = |error| Refused::named(&error, &[("costs", "every step of schedule")]);
        Ok(Measures::new(py, measures.map_err(named)?))
    }

    /// What no plan of the same steps within the cap beats, where ranks meet at every micro-batch.
    #[pyfunction]
    fn row_bounds<'py>(
        py: Python<'py>,
        schedule: Schedule<'py>,
        lengths: Ints<'py>,
        costs: PyReadonlyArray1<'py, f64>,
        max_tokens: NonZeroU64,
    ) -> Answer<Array<'py, f64>> {
        let (layout, lengths, costs) = (schedule.layout()?, lengths.as_slice()?, costs.as_slice()?);
        Ok(detached(py, || core::row_bounds(&layout, lengths, costs, max_tokens))?.into_pyarray(py))
    }

    /// When a rank's pipeline ends.
    #[pyfunction]
    fn simulate_pipeline(
        py: Python<'_>,
        costs: Numbers<'_>,
        stages: NonZeroU64,
        chunks: NonZeroU64,
        group: Option<NonZeroU64>,
    ) -> Answer<f64> {
        let named = |error| Refused::named(&error, &[("pipeline_stages", "stages")]);
        let pipeline = Pipeline::new(stages, chunks, group).map_err(named)?;
        let costs = costs.read("costs")?;
        detached(py, || core::simulate_pipeline(&costs, &pipeline)).map_err(named)
    }

    /// Plans every step, and returns the published nested lists. Samples cost their tokens, or what `costs` say.
    #[pyfunction]
    fn dp_schedule<'py>(
        py: Python<'py>,
        total_lengths: Bound<'py, PyAny>,
        rollout_indices: Bound<'py, PyAny>,
        global_batch_size: Bound<'py, PyAny>,
        costs: Option<Bound<'py, PyAny>>,
        request: PlanRequest<'py>,
    ) -> Answer<(List<'py>, List<'py>, Vec<i64>, Vec<i64>)> {
        let lengths = given::tokens(&total_lengths, "total_lengths")?;
        let lengths = given::lengths(lengths.as_slice()?, "total_lengths")?;
        let ids = given::rollout_ids(&rollout_indices, "rollout_indices")?;
        let ids = ids.as_slice()?;
        let samples = lengths.len();
        if ids.len() != samples {
            let error = core::Error::Count { argument: "rollout_ids", samples, count: ids.len() };
            return Err(Refused::from(error).in_words_of(&request.names));
        }
        let costs = given::sample_costs(py, costs, &lengths)?;
        let costs = costs.read("costs")?;
        let carried = request.carried()?;
        let mut asked = request.read(carried.as_ref()).map_err(|refused| refused.in_words_of(&request.names))?;
        asked.rollout_ids = Some(ids);
        asked.global_batch_size = Some(given::size(&global_batch_size, "global_batch_size")?);
        let schedule = detached(py, || core::plan(lengths, &costs, &asked));
        let schedule = schedule.map_err(|error| Refused::from(error).in_words_of(&request.names))?;
        let core::Schedule { samples, micro_batch_offsets, micro_batches_per_step, rollouts_per_step, .. } = schedule;
        let layout = Layout::new(&samples, &micro_batch_offsets, &micro_batches_per_step, asked.dp_size)?;
        let (partitions, micro_batches) = nested(py, &layout)?;
        Ok((partitions, micro_batches, micro_batches_per_step, rollouts_per_step))
    }

    /// The published nested lists: every rank's samples, and its micro-batches as positions in them.
    #[pyfunction]
    fn rank_lists<'py>(py: Python<'py>, schedule: Schedule<'py>) -> Answer<(List<'py>, List<'py>)> {
        nested(py, &schedule.layout()?)
    }

    fn nested<'py>(py: Python<'py>, layout: &Layout<'_>) -> Answer<(List<'py>, List<'py>)> {
        let ranks: Vec<_> = layout.ranks().collect();
        let samples = ranks.iter().map(|(samples, _)| samples.len()).sum::<usize>();
        ensure_lists(2 * samples, ranks.iter().map(|(_, offsets)| offsets.len()).sum())?;
        let largest = ranks.iter().map(|(samples, _)| samples.len()).max().unwrap_or(0);
        // A position stands in every rank's lists: one integer object serves them all.
        let positions: Vec<Bound<'py, PyInt>> = (0..largest).map(|position| PyInt::new(py, position)).collect();
        let micro_batches = ranks.iter().map(|(_, offsets)| {
            let within = |offset: i64| (offset - offsets[0]) as usize;
            lists::<Bound<PyInt>>(py, offsets.windows(2).map(|ends| &positions[within(ends[0])..within(ends[1])]))
        });
        let micro_batches = micro_batches.collect::<PyResult<Vec<_>>>()?;
        Ok((lists::<i64>(py, ranks.iter().map(|(samples, _)| *samples))?, PyList::new(py, micro_batches)?))
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
