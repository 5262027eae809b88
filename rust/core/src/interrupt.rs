//! Long calls can be stopped from outside: loops report their work, and now and then the caller is asked.
//!
//! The search reaches deep, and a stop is none of its answers. So it unwinds to [`interruptible`] as a panic would, but
//! without being one: no hook runs, everything on the way is dropped.
use crate::{Error, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Time between two questions, so that an answer is felt at once and costs nothing.
const PERIOD: Duration = Duration::from_millis(50);

/// Work between two looks at the clock, in steps of some nanoseconds.
const WORK: usize = 1 << 16;

#[derive(Clone, Copy)]
struct Watch {
    stop: fn() -> bool,
    asked: Instant,
}

thread_local! {
    /// Of the call that this thread is in, if it can be stopped.
    static WATCH: Cell<Option<Watch>> = const { Cell::new(None) };
}

/// What unwinds.
struct Stopped;

/// Runs `work`, asking `stop` on this thread about twenty times a second; [`Error::Interrupted`] once it says yes.
///
/// A call that is shorter than that never asks. Needs panics that unwind.
///
/// # Examples
/// ```
/// use flopbalance_core::{Error, ItemOrder, PartSizes, Weights, interruptible, karmarkar_karp};
/// use std::num::NonZeroUsize;
///
/// let weights = Weights::from_u64((0..3_000_000).map(|i| i * i % 1_000_003).collect::<Vec<u64>>());
/// let partition = || karmarkar_karp(&weights, NonZeroUsize::new(30).unwrap(), PartSizes::Equal, ItemOrder::Joined);
/// assert_eq!(interruptible(|| true, partition), Err(Error::Interrupted));
/// ```
pub fn interruptible<T>(stop: fn() -> bool, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let outer = WATCH.replace(Some(Watch { stop, asked: Instant::now() }));
    let done = catch_unwind(AssertUnwindSafe(work));
    WATCH.set(outer);
    done.unwrap_or_else(|cause| if cause.is::<Stopped>() { Err(Error::Interrupted) } else { resume_unwind(cause) })
}

/// Asks whether to go on, if it is time to.
fn check() {
    let Some(watch) = WATCH.get() else { return };
    if watch.asked.elapsed() < PERIOD {
        return;
    }
    let stop = (watch.stop)();
    WATCH.set(Some(Watch { asked: Instant::now(), ..watch }));
    if stop {
        resume_unwind(Box::new(Stopped));
    }
}

/// Counts the work of a loop until the next look at the clock.
#[derive(Default)]
pub(crate) struct Work(usize);

impl Work {
    /// Some nanoseconds each.
    pub fn did(&mut self, steps: usize) {
        self.0 += steps;
        if self.0 >= WORK {
            self.0 = 0;
            check();
        }
    }
}

/// A slice in pieces, with a look at the clock before each: for plain passes over all samples.
pub(crate) fn pieces<T>(values: &[T]) -> impl Iterator<Item = &[T]> {
    values.chunks(WORK).inspect(|_| check())
}
