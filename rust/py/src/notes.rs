//! What a function has read of descriptions (a trainer's arguments, a dict), so that it need not read them again.
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

/// The fields that were read of some descriptions, and what they held: numbers, text, and lists or tuples of these.
#[pyclass(frozen)]
pub struct Notes(Vec<Description>);

struct Description {
    kind: Py<PyType>,
    /// `None` for a field that was not there.
    fields: Vec<(Py<PyString>, Option<Py<PyAny>>)>,
    holder: Holder,
}

/// What a description has its fields in.
#[derive(Clone, Copy)]
enum Holder {
    /// It is a dict.
    Itself,
    /// In its `__dict__`, and nowhere else: it is a namespace.
    Dict,
    /// In attributes, however these are found.
    Attributes,
}

/// A description, what was there of what was read, and what was not.
type Read<'py> = (Bound<'py, PyAny>, Bound<'py, PyDict>, Vec<Py<PyString>>);

#[pymethods]
impl Notes {
    #[new]
    fn new(read: Vec<Read<'_>>) -> PyResult<Self> {
        let descriptions = read.into_iter().map(|(source, present, absent)| {
            let mut fields: Vec<_> = absent.into_iter().map(|name| (name, None)).collect();
            for (name, value) in present {
                fields.push((name.cast_into()?.unbind(), Some(value.unbind())));
            }
            Ok(Description { kind: source.get_type().unbind(), fields, holder: Holder::of(&source)? })
        });
        Ok(Self(descriptions.collect::<PyResult<_>>()?))
    }

    /// Whether as many descriptions still hold what was read of these.
    fn hold(&self, sources: Bound<'_, PyTuple>) -> PyResult<bool> {
        for (source, description) in sources.iter_borrowed().zip(&self.0) {
            if !description.holds(&source)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Holder {
    fn of(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        if source.cast_exact::<PyDict>().is_ok() {
            return Ok(Self::Itself);
        }
        let kind = source.get_type().fully_qualified_name()?;
        let namespace = ["types.SimpleNamespace", "argparse.Namespace"].contains(&kind.to_str()?);
        Ok(if namespace { Self::Dict } else { Self::Attributes })
    }
}

impl Description {
    fn holds(&self, source: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = source.py();
        if !source.get_type().is(&self.kind) {
            return Ok(false);
        }
        let dict = match self.holder {
            Holder::Itself => Some(source.cast::<PyDict>()?.clone()),
            Holder::Dict => Some(source.getattr(pyo3::intern!(py, "__dict__"))?.cast_into::<PyDict>()?),
            Holder::Attributes => None,
        };
        for (name, noted) in &self.fields {
            let value = match &dict {
                Some(dict) => dict.get_item(name)?,
                None => source.getattr_opt(name)?,
            };
            let same = match (&value, noted) {
                (Some(value), Some(noted)) => is_same(value, noted.bind(py))?,
                (None, None) => true,
                _ => false,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether two values are read alike: True is not 1, neither alone nor in a list.
fn is_same(value: &Bound<'_, PyAny>, noted: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is(noted) {
        return Ok(true);
    }
    if !value.get_type().is(noted.get_type()) {
        return Ok(false);
    }
    match (entries(value), entries(noted)) {
        (Some(values), Some(noted)) => {
            Ok(values.len() == noted.len() && values.iter().zip(&noted).all(|(value, noted)| value.is(noted)))
        }
        _ => value.eq(noted),
    }
}

/// What a list or a tuple holds.
fn entries<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match value.cast_exact::<PyList>() {
        Ok(list) => Some(list.iter().collect()),
        Err(_) => Some(value.cast_exact::<PyTuple>().ok()?.iter().collect()),
    }
}
