//! Karmarkar–Karp: the largest differencing method, k ways.
//!
//! The naive version is four lines. Every item is a state of k sets; take the two states of the largest
//! spread; join the heaviest set of one with the lightest of the other, and so on down; put the result back
//! until one state is left. Here the same answer comes from these observations:
//!
//! - Single items never enter the heap. They are consumed from the heaviest on.
//! - In the unequal mode a state with an empty set has a spread no other state exceeds, so it leads until it is full: at
//!   any time at most one state is *partial*, and it is a run of singles. All other states are *full*.
//! - A full state begins as a run of k singles, so the sorted singles are its sets already: every state lies where the
//!   heaviest of its singles lay, and those that nothing has touched yet wait in an order of their own.
//! - Only the sets that a merge joins need to move, so that a full state takes in m singles in O(m log k) instead of O(k).
//! - As long as one state takes in singles, the other states do not change.
//! - Which items a set has need not be known before the end.
//!
//! The equal-size mode starts with full states and knows only the merge of two of them.
//!
//! Source: N. Karmarkar and R. M. Karp, *The differencing method of set partitioning*, UCB/CSD 82/113, 1982.
use super::ItemOrder;
use super::lightest::{Calendar, HeapAndRun, Lightest};
use super::set::{Joins, Set, single, sort, sum};
use super::sort::{ascending, in_order};
use crate::groups::Groups;
use crate::interrupt::Work;
use crate::weights::Weight;
use std::collections::BinaryHeap;

/// As [`karmarkar_karp`](super::karmarkar_karp), for `1 <= k <= weights.len()` that fits the mode.
pub(crate) fn partition<W: Weight>(weights: &[W], k: usize, equal_size: bool, order: ItemOrder) -> Groups {
    if k == 1 {
        // Every spread is zero: the heaviest item takes in the next, down to the lightest.
        let n = weights.len() as u32;
        let items = match order {
            ItemOrder::Joined => ascending(weights).into_iter().rev().collect(),
            ItemOrder::Ascending => (0..n).collect(),
        };
        return Groups { items, ranges: std::iter::once(0..n).collect() };
    }
    let mut differencing = Differencing::new(weights, k);
    differencing.first_states(equal_size);
    let last = differencing.last_state();
    let sets = differencing.state(last).iter().rev().copied().collect::<Vec<_>>();
    differencing.joins.groups::<W>(&sets, weights.len(), order)
}

/// What states are compared by: of two, the one with the larger spread comes first, then the one with the larger first set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lead<S> {
    /// As a set of no item.
    spread: S,
    largest: S,
}

impl<S: Copy> Lead<S> {
    /// Of a partial state.
    fn of_single<W: Weight<Tied = S>>(set: S) -> Self {
        Self { spread: sum::<W>(set).tied(0), largest: set }
    }

    fn of_sets<W: Weight<Tied = S>>(largest: S, lightest: S) -> Self {
        Self { spread: (sum::<W>(largest) - sum::<W>(lightest)).tied(0), largest }
    }
}

/// A state without an empty set. Its k sets lie in a row from `start` on, which no other shares: so many as a heap, then an
/// ascending run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Full<S> {
    lead: Lead<S>,
    start: u32,
    heap: u32,
}

impl<S: Copy> Full<S> {
    /// Of sets in ascending order.
    fn of_run<W: Weight<Tied = S>>(sets: &[S], start: usize) -> Self {
        Self { lead: Lead::of_sets::<W>(sets[sets.len() - 1], sets[0]), start: start as u32, heap: 0 }
    }
}

struct Differencing<'a, W: Weight> {
    weights: &'a [W],
    k: usize,
    /// The single items that are in no state yet, ascending, and behind them the full states, k sets each.
    sets: Vec<Set<W>>,
    singles: usize,
    /// Spread and start of the states that nothing has touched yet; the one that comes first is the last.
    untouched: Vec<(W, u32)>,
    /// The others.
    heap: BinaryHeap<Full<Set<W>>>,
    joins: Joins,
    /// Room for the sets that are taken out of a state, and for sorting.
    taken: Vec<Set<W>>,
    words: Vec<u64>,
    work: Work,
}

impl<'a, W: Weight> Differencing<'a, W> {
    fn new(weights: &'a [W], k: usize) -> Self {
        Self {
            weights,
            k,
            sets: in_order(weights, single),
            singles: weights.len(),
            untouched: Vec::new(),
            heap: BinaryHeap::new(),
            joins: Joins::new::<W>(weights.len()),
            taken: Vec::new(),
            words: Vec::new(),
            work: Work::default(),
        }
    }

    fn state(&self, start: u32) -> &[Set<W>] {
        &self.sets[start as usize..][..self.k]
    }

    /// Makes full states of singles: of all, or as long as k of them come before the states there are.
    fn first_states(&mut self, equal_size: bool) {
        let mut first: Option<Lead<Set<W>>> = None;
        let mut spreads = Vec::new();
        while self.singles >= self.k
            && (equal_size || leading::<W>(&self.sets[..self.singles], self.k, first) == self.k)
        {
            self.work.did(1);
            self.singles -= self.k;
            let lead = Full::of_run::<W>(self.state(self.singles as u32), self.singles).lead;
            first = first.max(Some(lead));
            spreads.push(sum::<W>(lead.spread));
        }
        // Of equal spreads, the earlier state has the larger first set and comes first.
        spreads.reverse();
        let start = |number: u32| (self.singles + number as usize * self.k) as u32;
        let order = ascending(&spreads);
        self.untouched = order.into_iter().map(|number| (spreads[number as usize], start(number))).collect();
    }

    /// Merges the two states that come first until one is left, and returns where it lies.
    fn last_state(&mut self) -> u32 {
        loop {
            while self.singles >= self.k && leading::<W>(&self.sets[..self.singles], self.k, self.first()) == self.k {
                self.singles -= self.k;
                self.heap.push(Full::of_run::<W>(self.state(self.singles as u32), self.singles));
                self.work.did(1);
            }
            let a = self.pop().expect("k singles make the first state, and merging leaves one");
            let singles = self.singles;
            let a = self.absorb(a);
            if self.singles < singles {
                self.heap.push(a);
            } else if self.untouched_comes_first() {
                let b = self.pop().expect("it comes first");
                let merged = self.merge(a, b);
                self.heap.push(merged);
            } else if let Some(&b) = self.heap.peek() {
                let merged = self.merge(a, b);
                *self.heap.peek_mut().expect("b is there") = merged;
            } else {
                self.sort(a);
                return a.start;
            }
        }
    }

    fn next_untouched(&self) -> Option<Lead<Set<W>>> {
        let &(spread, start) = self.untouched.last()?;
        Some(Lead { spread: spread.tied(0), largest: self.sets[start as usize + self.k - 1] })
    }

    fn next_of_heap(&self) -> Option<Lead<Set<W>>> {
        self.heap.peek().map(|full| full.lead)
    }

    fn untouched_comes_first(&self) -> bool {
        self.next_untouched() > self.next_of_heap()
    }

    /// What the full state that comes first is compared by.
    fn first(&self) -> Option<Lead<Set<W>>> {
        self.next_untouched().max(self.next_of_heap())
    }

    fn pop(&mut self) -> Option<Full<Set<W>>> {
        if self.untouched_comes_first() {
            let (_, start) = self.untouched.pop()?;
            return Some(Full::of_run::<W>(self.state(start), start as usize));
        }
        self.heap.pop()
    }

    fn sort(&mut self, full: Full<Set<W>>) {
        if full.heap > 0 {
            sort::<W>(&mut self.sets[full.start as usize..][..self.k], &mut self.words);
        }
    }

    /// Two full states: the i-th heaviest of A takes in the i-th lightest of B.
    fn merge(&mut self, a: Full<Set<W>>, b: Full<Set<W>>) -> Full<Set<W>> {
        self.work.did(self.k);
        self.sort(a);
        self.sort(b);
        let [a, b] = [a.start as usize, b.start as usize];
        let (before, from_later) = self.sets.split_at_mut(a.max(b));
        let (earlier, later) = (&mut before[a.min(b)..][..self.k], &mut from_later[..self.k]);
        let (ours, theirs) = if a < b { (earlier, &*later) } else { (later, &*earlier) };
        self.joins.join_all(self.weights, ours.iter_mut().rev(), theirs, &mut self.work);
        sort::<W>(ours, &mut self.words);
        Full::of_run::<W>(ours, a)
    }

    /// Single items into a full state that came first of all, as long as it does and singles are next: those that come
    /// before it meet its lightest sets, the lightest the heaviest; behind it, they join the lightest one by one.
    fn absorb(&mut self, full: Full<Set<W>>) -> Full<Set<W>> {
        /// From so many sets on, a state that takes in many singles has them filed in a calendar.
        const MANY: usize = 64;
        if self.singles == 0 {
            return full;
        }
        let (rest, singles) = (self.first(), self.singles);
        let (of_singles, of_states) = self.sets.split_at_mut(self.singles);
        let sets = &mut of_states[full.start as usize - singles..][..self.k];
        let mut taking = Taking {
            weights: self.weights,
            singles: of_singles,
            k: self.k,
            rest,
            joins: &mut self.joins,
            taken: &mut self.taken,
            work: &mut self.work,
        };
        let most = if self.k < MANY { usize::MAX } else { self.k / 16 };
        let mut open = HeapAndRun::new(sets, full.heap as usize, &mut self.words);
        let mut lead = taking.take_in(&mut open, full.lead, most);
        let mut heap = open.heap();
        if singles - taking.singles.len() >= most && taking.is_worth_filing(lead) {
            let mut calendar = Calendar::<W>::new(sets);
            lead = taking.take_in(&mut calendar, lead, usize::MAX);
            sets.iter_mut().zip(calendar.into_sets()).for_each(|(to, set)| *to = set);
            sort::<W>(sets, &mut self.words);
            heap = 0;
        }
        self.singles = taking.singles.len();
        Full { lead, start: full.start, heap: heap as u32 }
    }
}

/// How many single items, `most` at most, come before a full state, which comes first of all.
fn leading<W: Weight>(singles: &[Set<W>], most: usize, first: Option<Lead<Set<W>>>) -> usize {
    let leads = |&single: &Set<W>| first.is_none_or(|first| first < Lead::of_single::<W>(single));
    // Nearly always all or few, and the last of all tells.
    if singles.len() >= most && leads(&singles[singles.len() - most]) {
        return most;
    }
    singles.iter().rev().take_while(|single| leads(single)).count()
}

/// Single items that a state takes in, while no other state changes.
struct Taking<'a, W: Weight> {
    weights: &'a [W],
    /// Ascending.
    singles: &'a [Set<W>],
    k: usize,
    /// What comes first of the other states.
    rest: Option<Lead<Set<W>>>,
    joins: &'a mut Joins,
    taken: &'a mut Vec<Set<W>>,
    work: &'a mut Work,
}

impl<W: Weight> Taking<'_, W> {
    /// Takes in single items, as long as the state comes first and they come next, until there are `most`.
    fn take_in(&mut self, sets: &mut impl Lightest<W>, mut lead: Lead<Set<W>>, most: usize) -> Lead<Set<W>> {
        let end = self.singles.len().saturating_sub(most);
        while self.singles.len() > end {
            let few = leading::<W>(self.singles, self.k, Some(lead));
            if few == self.k || !self.comes_next(lead) {
                break;
            }
            let (others, taken_in) = self.singles.split_at(self.singles.len() - few.max(1));
            self.singles = others;
            self.work.did(taken_in.len());
            self.taken.clear();
            self.taken.extend(taken_in.iter().map(|_| sets.take()));
            for (&single, &lightest) in taken_in.iter().rev().zip(&*self.taken) {
                let [one, other] = if few > 0 { [single, lightest] } else { [lightest, single] };
                let joined = self.joins.join(self.weights, one, other, self.work);
                lead.largest = lead.largest.max(joined);
                sets.put(joined);
            }
            lead = Lead::of_sets::<W>(lead.largest, sets.lightest());
        }
        lead
    }

    /// Whether of all that is left, the state and the heaviest single come first.
    fn comes_next(&self, lead: Lead<Set<W>>) -> bool {
        let single = self.singles.last().map(|&single| Lead::of_single::<W>(single));
        single.is_some_and(|single| self.rest.is_none_or(|rest| rest < lead && rest < single))
    }

    /// Whether so many more are likely to come that filing the sets pays, and they are heavy enough to spread them.
    fn is_worth_filing(&self, lead: Lead<Set<W>>) -> bool {
        let spreads = |&single: &Set<W>| sum::<W>(single).radix_key().is_none_or(|key| key > self.k as u64 / 16);
        self.singles.len() > self.k / 4 && self.singles.last().is_some_and(spreads) && self.comes_next(lead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes that go on in the heap once the run is used up, which one input in a thousand of this kind leads to.
    #[test]
    fn a_run_may_end_while_its_heap_goes_on() {
        let mut state: u64 = 19;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        let weights: Vec<u64> = (0..385).map(|_| (next(), next() % 4).1).collect();
        let parts = partition(&weights, 70, false, ItemOrder::Joined);
        let sums: Vec<u64> = parts.iter().map(|part| part.iter().map(|&item| weights[item as usize]).sum()).collect();
        assert!(sums.is_sorted_by(|one, other| one >= other));
        assert!(sums[0] - sums[69] <= 1, "{sums:?}");
    }
}
