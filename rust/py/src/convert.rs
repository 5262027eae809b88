//! What crosses the boundary, by name: words, numbers, the arguments of `plan`, refusals.
use crate::given::Values;
use flopbalance_core::{self as core, Cap, Capped, Packing, Pipeline, Request, Weights};
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::num::{NonZeroU64, NonZeroUsize};

pub type Array<'py, T = i64> = Bound<'py, PyArray1<T>>;
pub type Ints<'py> = PyReadonlyArray1<'py, i64>;
pub type Answer<T> = Result<T, Refused>;

pyo3::import_exception!(flopbalance.errors, ScheduleError);

/// Runs the core away from the interpreter; a signal, as that of Ctrl-C, ends it with what its handler raised.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> core::Result<T> + Send) -> core::Result<T> {
    let signalled = || Python::attach(|py| py.check_signals().map_err(|raised| raised.restore(py)).is_err());
    py.detach(|| core::interruptible(signalled, work))
}

/// The same, but for so few items that the work is done before another thread could have taken its turn.
pub fn detached_if_long<T: Send>(
    py: Python<'_>,
    items: usize,
    work: impl FnOnce() -> core::Result<T> + Send,
) -> core::Result<T> {
    if items < 1024 { work() } else { detached(py, work) }
}

/// A refusal of the core, whose arguments may still be called by other names, or an exception.
pub enum Refused {
    Core(core::Error),
    Python(PyErr),
}

impl Refused {
    /// In the core's words, but for arguments that the caller knows by another name.
    pub fn named(error: &core::Error, names: &[(&str, &str)]) -> Self {
        let find = |argument| names.iter().find(|&&(word, _)| word == argument);
        Self::Python(exception(error, &|argument| find(argument).map_or(argument, |&(_, name)| name)))
    }

    /// The same by a dict of names; an exception stays what it is.
    pub fn in_words_of(self, names: &Bound<'_, PyDict>) -> Self {
        let Self::Core(error) = self else { return self };
        Self::Python(match names.extract::<HashMap<String, String>>() {
            Ok(names) => exception(&error, &|argument| names.get(argument).map_or(argument, String::as_str)),
            Err(raised) => raised,
        })
    }
}

/// The one place where a refusal becomes an exception.
fn exception<'a>(error: &'a core::Error, name: &'a dyn Fn(&'static str) -> &'a str) -> PyErr {
    let text = error.named(name).to_string();
    match error.kind() {
        core::Kind::Schedule => ScheduleError::new_err(text),
        core::Kind::Overflow => PyOverflowError::new_err(text),
        core::Kind::Memory => PyMemoryError::new_err(text),
        core::Kind::Interrupted => Python::attach(|py| PyErr::fetch(py)),
        _ => PyValueError::new_err(text),
    }
}

impl From<core::Error> for Refused {
    fn from(error: core::Error) -> Self {
        match error.kind() {
            core::Kind::Interrupted => Self::named(&error, &[]), // before anything else is asked of Python
            _ => Self::Core(error),
        }
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<numpy::AsSliceError> for Refused {
    fn from(error: numpy::AsSliceError) -> Self {
        Self::Python(error.into())
    }
}

impl From<Refused> for PyErr {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Core(error) => exception(&error, &|argument| argument),
            Refused::Python(error) => error,
        }
    }
}

/// Enums by their words in Python; a word that is none is refused.
macro_rules! words {
    ($($name:ident($type:ty) { $($word:literal => $value:expr),+ })+) => { $(
        pub struct $name(pub $type);
        impl<'a, 'py> FromPyObject<'a, 'py> for $name {
            type Error = PyErr;
            fn extract(word: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                match word.extract::<&str>()? {
                    $($word => Ok(Self($value)),)+
                    other => Err(PyValueError::new_err(format!(
                        "{} must be one of {}, got {other:?}", stringify!($name), [$($word),+].join(", ")
                    ))),
                }
            }
        }
    )+ };
}

pub enum Method {
    Fixed,
    FirstFit,
    Flops,
    Capped,
}

pub enum BinOrder {
    Given,
    Decreasing,
    Balanced,
}

words! {
    Order(BinOrder) {
        "given" => BinOrder::Given, "decreasing" => BinOrder::Decreasing, "balanced" => BinOrder::Balanced
    }
    PackingMethod(Method) {
        "fixed" => Method::Fixed, "first-fit" => Method::FirstFit, "flops" => Method::Flops, "capped" => Method::Capped
    }
    Objective(fn(Option<Pipeline>) -> core::Objective) {
        "step" => |_| core::Objective::Step,
        "micro-batch" => |pipeline| {
            let pipeline = pipeline.filter(|pipeline| pipeline.stages() > 1);
            pipeline.map_or(core::Objective::MicroBatch, core::Objective::PipelinedRows)
        },
        "pipeline" => |pipeline| core::Objective::Pipeline(pipeline.unwrap_or_default())
    }
    OnLeftover(core::OnLeftover) {
        "drop" => core::OnLeftover::Drop, "partial" => core::OnLeftover::Partial, "error" => core::OnLeftover::Error
    }
    OnOversize(core::OnOversize) {
        "alone" => core::OnOversize::Alone, "drop" => core::OnOversize::Drop, "error" => core::OnOversize::Error
    }
    OnShortage(core::OnShortage) {
        "error" => core::OnShortage::Error, "repeat" => core::OnShortage::Repeat
    }
    PartSizes(core::PartSizes) {
        "free" => core::PartSizes::Free, "equal" => core::PartSizes::Equal, "bounded" => core::PartSizes::Bounded,
        "refined" => core::PartSizes::Refined
    }
}

/// What `checks.as_weights` makes of an argument, or what is read from a list.
pub enum Numbers<'py> {
    U64(Values<'py, u64>),
    F64(Values<'py, f64>),
    Big(Vec<u128>),
}

// Not derived: a derived one puts the reason why an array is not of the first type in words before it tries the next.
impl<'a, 'py> FromPyObject<'a, 'py> for Numbers<'py> {
    type Error = PyErr;
    fn extract(numbers: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = numbers.cast::<PyArray1<u64>>() {
            return Ok(Self::U64(Values::Array(array.try_readonly()?)));
        }
        if let Ok(array) = numbers.cast::<PyArray1<f64>>() {
            return Ok(Self::F64(Values::Array(array.try_readonly()?)));
        }
        core::ensure_memory(numbers.len()?, size_of::<u128>()).map_err(Refused::from)?;
        Ok(Self::Big(numbers.extract()?))
    }
}

impl Numbers<'_> {
    pub fn read(&self, name: &str) -> Answer<Weights<'_>> {
        let weights = match self {
            Self::U64(values) => {
                let values = values.as_slice()?;
                core::ensure_memory(values.len(), size_of::<u128>())?; // for those whose sum is beyond 64 bits
                Ok(Weights::from_u64(values))
            }
            Self::F64(values) => Weights::from_f64(values.as_slice()?),
            Self::Big(values) => Weights::from_u128(values),
        };
        weights.map_err(|error| Refused::named(&error, &[("weights", name)]))
    }
}

/// The arguments of `plan` beside lengths and costs, by their names in Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PlanRequest<'py> {
    dp_size: NonZeroUsize,
    micro_batch_multiple: NonZeroUsize,
    packing: PackingMethod,
    micro_batch_size: Option<NonZeroUsize>,
    max_tokens: Option<NonZeroU64>,
    pad_to: (NonZeroU64, NonZeroU64),
    balance_ranks: bool,
    rollout_ids: Option<Ints<'py>>,
    global_batch_size: Option<NonZeroUsize>,
    objective: Objective,
    counts: (Option<NonZeroUsize>, NonZeroUsize, bool),
    pipeline: Option<(NonZeroU64, NonZeroU64, Option<NonZeroU64>)>,
    micro_batch_overhead: Option<f64>,
    effort: u64,
    padded: bool,
    extra_budget: Option<(Ints<'py>, u64)>,
    max_samples: Option<NonZeroUsize>,
    #[pyo3(default)]
    carried: Option<Numbers<'py>>,
    on_leftover: OnLeftover,
    on_oversize: OnOversize,
    on_shortage: OnShortage,
    /// What the caller calls arguments, in refusals.
    pub names: Bound<'py, PyDict>,
}

impl PlanRequest<'_> {
    pub fn carried(&self) -> Answer<Option<Weights<'_>>> {
        self.carried.as_ref().map(|loads| loads.read("carried")).transpose()
    }

    pub fn read<'a>(&'a self, carried: Option<&'a Weights<'a>>) -> Answer<Request<'a>> {
        let missing = |name| PyValueError::new_err(format!("{name} must be given for this packing, got None"));
        let cap = || {
            let mut cap = Cap::new(self.max_tokens.ok_or_else(|| missing("max_tokens"))?);
            cap.pad_to = core::PadTo { sample: self.pad_to.0, micro_batch: self.pad_to.1 };
            cap.on_oversize = self.on_oversize.0;
            Ok::<_, PyErr>(cap)
        };
        let packing = match self.packing.0 {
            Method::Fixed => {
                let micro_batch_size = self.micro_batch_size.ok_or_else(|| missing("micro_batch_size"))?;
                Packing::Fixed { micro_batch_size }
            }
            Method::FirstFit => Packing::FirstFit(cap()?),
            Method::Flops => Packing::Flops(cap()?),
            Method::Capped => Packing::Capped(cap()?, self.capped(carried)?),
        };
        let mut request = Request::new(self.dp_size, packing);
        request.micro_batch_multiple = self.micro_batch_multiple;
        request.balance_ranks = self.balance_ranks;
        request.rollout_ids = self.rollout_ids.as_ref().map(Ints::as_slice).transpose()?;
        request.global_batch_size = self.global_batch_size;
        request.on_leftover = self.on_leftover.0;
        Ok(request)
    }

    fn capped<'a>(&'a self, carried: Option<&'a Weights<'a>>) -> Answer<Capped<'a>> {
        let pipeline = self.pipeline.map(|(stages, chunks, group)| Pipeline::new(stages, chunks, group)).transpose()?;
        let mut capped = Capped::new(self.objective.0(pipeline));
        (capped.counts.exactly, capped.counts.at_least, capped.counts.even_samples) = self.counts;
        capped.micro_batch_overhead = self.micro_batch_overhead;
        capped.effort = self.effort;
        capped.carried = carried;
        capped.padded = self.padded;
        if let Some((amounts, cap)) = &self.extra_budget {
            capped.extra_budget = Some(core::ExtraBudget { amounts: amounts.as_slice()?, cap: *cap });
        }
        capped.max_samples = self.max_samples;
        capped.on_shortage = self.on_shortage.0;
        Ok(capped)
    }
}

/// What is read of a `Schedule`.
#[derive(FromPyObject)]
pub struct Schedule<'py> {
    dp_size: NonZeroUsize,
    samples: Ints<'py>,
    micro_batch_offsets: Ints<'py>,
    micro_batches_per_step: Ints<'py>,
}

impl Schedule<'_> {
    pub fn layout(&self) -> Answer<core::Layout<'_>> {
        let (samples, offsets) = (self.samples.as_slice()?, self.micro_batch_offsets.as_slice()?);
        Ok(core::Layout::new(samples, offsets, self.micro_batches_per_step.as_slice()?, self.dp_size)?)
    }
}

/// Structures of the core as dicts of arrays, field by field.
macro_rules! named_arrays {
    ($($name:ident($core:ty) { $($field:ident: $type:ty),+ })+) => { $(
        #[derive(IntoPyObject)]
        pub struct $name<'py> {
            $($field: Array<'py, $type>),+
        }
        impl<'py> $name<'py> {
            pub fn new(py: Python<'py>, value: $core) -> Self {
                Self { $($field: value.$field.into_pyarray(py)),+ }
            }
        }
    )+ };
}

named_arrays! {
    Plan(core::Schedule) {
        samples: i64,
        micro_batch_offsets: i64,
        micro_batch_tokens: i64,
        micro_batches_per_step: i64,
        rollouts_per_step: i64,
        dropped: i64,
        is_padding: bool
    }
    Measures(core::Measures) {
        micro_batch_costs: f64,
        busy: f64,
        step_times: f64,
        micro_batch_times: f64,
        pipeline_times: f64,
        pipeline_ends: f64,
        last_stage_ends: f64,
        mean_times: f64,
        lower_bounds: f64
    }
}
