//! What a function has read of descriptions (a trainer's arguments, a dict), so that it need not read them again.
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

/// The fields that were read of some descriptions, and what they held: values that do not change in themselves, and
/// lists or tuples of these.
#[pyclass(frozen)]
pub struct Notes {
    kinds: Vec<(Py<PyType>, Holder)>,
    /// In the order of reading, over all descriptions: what was read decides what is read next.
    fields: Vec<Field>,
    /// What is noted of a field that was not there.
    missing: Py<PyAny>,
}

/// Which description was read, the field's name, and what it held.
type Field = (usize, Py<PyString>, Py<PyAny>);

/// What a description has its fields in.
#[derive(Clone, Copy)]
enum Holder {
    /// It is a dict.
    Itself,
    /// In its `__dict__`, and nowhere else: it is a namespace.
    Dict,
    /// It is a mapping of another kind.
    Items,
    /// In attributes, however these are found.
    Attributes,
}

#[pymethods]
impl Notes {
    /// Of descriptions, each with whether it is a mapping.
    #[new]
    fn new(sources: Vec<(Bound<'_, PyAny>, bool)>, fields: Vec<Field>, missing: Py<PyAny>) -> PyResult<Self> {
        let kinds = sources
            .iter()
            .map(|(source, is_mapping)| Ok((source.get_type().unbind(), Holder::of(source, *is_mapping)?)));
        Ok(Self { kinds: kinds.collect::<PyResult<_>>()?, fields, missing })
    }

    /// Whether as many descriptions still hold what was read of these.
    ///
    /// Ends at the first field that differs, so that nothing is read that the function itself would not read: what a
    /// field raises here, it would raise there.
    fn hold(&self, sources: Bound<'_, PyTuple>) -> PyResult<bool> {
        let py = sources.py();
        let mut dicts = Vec::with_capacity(self.kinds.len());
        for (source, (kind, holder)) in sources.iter_borrowed().zip(&self.kinds) {
            if !source.get_type().is(kind) {
                return Ok(false);
            }
            dicts.push(holder.dict(&source)?);
        }
        let missing = self.missing.bind(py);
        for (of, name, noted) in &self.fields {
            let name = name.bind(py);
            let value = match &dicts[*of] {
                Some(dict) => dict.get_item(name)?.unwrap_or_else(|| missing.clone()),
                None => self.kinds[*of].1.find(&sources.get_item(*of)?, name, missing)?,
            };
            if !is_same(&value, noted.bind(py))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Holder {
    fn of(source: &Bound<'_, PyAny>, is_mapping: bool) -> PyResult<Self> {
        if source.cast_exact::<PyDict>().is_ok() {
            return Ok(Self::Itself);
        }
        if is_mapping {
            return Ok(Self::Items);
        }
        let kind = source.get_type().fully_qualified_name()?;
        let namespace = ["types.SimpleNamespace", "argparse.Namespace"].contains(&kind.to_str()?);
        Ok(if namespace { Self::Dict } else { Self::Attributes })
    }

    fn dict<'py>(self, source: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
        Ok(match self {
            Self::Itself => Some(source.cast::<PyDict>()?.clone()),
            Self::Dict => Some(source.getattr(intern!(source.py(), "__dict__"))?.cast_into()?),
            Self::Items | Self::Attributes => None,
        })
    }

    /// As `Fields` finds it.
    fn find<'py>(
        self,
        source: &Bound<'py, PyAny>,
        name: &Bound<'py, PyString>,
        missing: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static GETATTR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = source.py();
        if let Self::Items = self {
            return source.call_method1(intern!(py, "get"), (name, missing));
        }
        // Python's own function makes no exception of an attribute that is not there.
        GETATTR.import(py, "builtins", "getattr")?.call1((source, name, missing))
    }
}

/// Whether two values are read alike: they are equal and of one type (True is not 1), or all their entries are.
fn is_same(value: &Bound<'_, PyAny>, noted: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is(noted) {
        return Ok(true);
    }
    if !value.get_type().is(noted.get_type()) {
        return Ok(false);
    }
    let (Some(values), Some(noted_values)) = (entries(value), entries(noted)) else { return value.eq(noted) };
    let mut pairs = values.iter().zip(&noted_values);
    Ok(values.len() == noted_values.len()
        && pairs.try_fold(true, |same, (a, b)| Ok::<_, PyErr>(same && is_same(a, b)?))?)
}

/// What a list or a tuple holds.
fn entries<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match value.cast_exact::<PyList>() {
        Ok(list) => Some(list.iter().collect()),
        Err(_) => Some(value.cast_exact::<PyTuple>().ok()?.iter().collect()),
    }
}
