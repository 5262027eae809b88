//! Karmarkar–Karp: the largest differencing method, k ways.
//!
//! The naive version is four lines. Every item is a state of k sets; take the two states of the largest
//! spread; join the heaviest set of one with the lightest of the other, and so on down; put the result back
//! until one state is left. Here the same answer comes from three observations about the unequal mode:
//!
//! - Single items never enter the heap. They are consumed from the end of the sorted order.
//! - A state with an empty set has a spread no other state exceeds, so it leads until it is full: at any time
//!   at most one state is *partial*, and it is built outside the heap. All states in the heap are *full*.
//! - Only the sets that a merge joins need to move. The sets of a full state are a descending run with a
//!   min-heap behind it, so a merge with m sets costs O(m log k) instead of O(k).
//!
//! The equal-size mode starts with full states and knows only the merge of two of them.
//!
//! Source: N. Karmarkar and R. M. Karp, *The differencing method of set partitioning*, UCB/CSD 82/113, 1982.
use super::sort::ascending;
use crate::groups::Groups;
use crate::interrupt::Work;
use crate::weights::Weight;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// As [`karmarkar_karp`](super::karmarkar_karp), for `1 <= k <= weights.len()` that fits the mode.
pub(crate) fn partition<W: Weight>(weights: &[W], k: usize, equal_size: bool) -> Groups {
    let order = ascending(weights);
    if k == 1 {
        // Every spread is zero: the heaviest item takes in the next, down to the lightest.
        let n = order.len() as u32;
        return Groups { items: order.into_iter().rev().collect(), ranges: std::iter::once(0..n).collect() };
    }
    let mut differencing = Differencing::new(weights, k);
    if equal_size {
        differencing.start_full(&order);
    } else {
        differencing.singles = &order;
    }
    let last = differencing.last_state();
    differencing.groups(last)
}

/// Items joined so far, a linked list from first to last; sets compare by (sum, item count, first item).
#[derive(Clone, Copy, Default)]
struct Set<W> {
    sum: W,
    /// Item count in the high half, first item in the low half: ties in one comparison.
    tie: u64,
    last: u32,
}

impl<W: Weight> Set<W> {
    fn single(weights: &[W], item: u32) -> Self {
        Self { sum: weights[item as usize], tie: 1 << 32 | u64::from(item), last: item }
    }

    fn first(self) -> u32 {
        self.tie as u32
    }

    /// What sets are compared by.
    fn key(self) -> (W, u64) {
        (self.sum, self.tie)
    }

    fn less(self, other: Self) -> bool {
        W::less(self.key(), other.key())
    }

    fn descending(a: &Self, b: &Self) -> Ordering {
        if b.less(*a) {
            Ordering::Less
        } else if a.less(*b) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

/// A state without an empty set. Its k sets lie in its slot of the arena: first a run in descending order, then a
/// min-heap that grows towards the run (root at the end).
#[derive(Clone, Copy)]
struct Full<W> {
    spread: W,
    /// The key of its first set.
    largest: (W, u64),
    slot: u32,
    run: u32,
}

/// The same while a merge is under way: between run and heap are free positions.
struct Open {
    slot: u32,
    run: usize,
    heap: usize,
}

impl<W: Weight> PartialEq for Full<W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<W: Weight> Eq for Full<W> {}
impl<W: Weight> PartialOrd for Full<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<W: Weight> Ord for Full<W> {
    /// The state that comes first is the greatest: of two, the one with the larger spread, then the larger first set.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_largest = || self.largest.0.order(other.largest.0).then(self.largest.1.cmp(&other.largest.1));
        self.spread.order(other.spread).then_with(by_largest)
    }
}

/// The sets and item lists of all states.
struct Differencing<'a, W> {
    weights: &'a [W],
    /// Items that are in no state yet, ascending.
    singles: &'a [u32],
    k: usize,
    /// k sets for every slot.
    arena: Vec<Set<W>>,
    free_slots: Vec<u32>,
    /// The item after an item in its set's list.
    next: Vec<u32>,
    heap: BinaryHeap<Full<W>>,
    /// Sets taken out of a state during a merge.
    taken: Vec<Set<W>>,
    work: Work,
}

impl<'a, W: Weight> Differencing<'a, W> {
    fn new(weights: &'a [W], k: usize) -> Self {
        let n = weights.len();
        Self {
            weights,
            singles: &[],
            k,
            arena: Vec::with_capacity((n / k + 1) * k), // at most n / k full states and the partial one
            free_slots: Vec::new(),
            next: vec![0; n],
            heap: BinaryHeap::new(),
            taken: Vec::new(),
            work: Work::default(),
        }
    }

    /// Every run of k items is a full state from the start.
    fn start_full(&mut self, order: &[u32]) {
        let states = order.chunks_exact(self.k).map(|run| {
            self.work.did(self.k);
            self.arena.extend(run.iter().rev().map(|&item| Set::single(self.weights, item)));
            self.sorted((self.arena.len() / self.k - 1) as u32)
        });
        self.heap = states.collect::<Vec<_>>().into();
    }

    /// Merges the two states that come first until one is left.
    fn last_state(&mut self) -> Full<W> {
        loop {
            if let Some(set) = self.leading_single() {
                let full = self.fill(set);
                self.heap.push(full);
                continue;
            }
            let a = self.heap.pop().expect("merging leaves one state");
            if let Some(set) = self.leading_single() {
                let full = self.absorb(a, &[set], false);
                self.heap.push(full);
            } else if let Some(&b) = self.heap.peek() {
                let full = self.merge(a, b);
                *self.heap.peek_mut().expect("b is there") = full;
            } else {
                return a;
            }
        }
    }

    /// Takes the next single item, if it comes before every full state. Its spread is its weight.
    fn leading_single(&mut self) -> Option<Set<W>> {
        let (&item, others) = self.singles.split_last()?;
        let set = Set::single(self.weights, item);
        let single = Full { spread: set.sum, largest: set.key(), slot: 0, run: 0 }; // compared, never stored
        let leads = self.heap.peek().is_none_or(|full| *full < single);
        leads.then(|| {
            self.singles = others;
            set
        })
    }

    /// Makes a full state of a single item that leads: it and what comes next, until no set is empty.
    fn fill(&mut self, heaviest: Set<W>) -> Full<W> {
        let slot = self.new_slot();
        let start = slot as usize * self.k;
        self.arena[start] = heaviest;
        for m in 1..self.k {
            self.work.did(1);
            if let Some(set) = self.leading_single() {
                self.arena[start + m] = set;
            } else {
                // A full state comes next, and it has the empty sets' positions covered.
                self.free_slots.push(slot);
                let partial = self.arena[start..start + m].to_vec();
                let full = self.heap.pop().expect("k singles made the first full state");
                return self.absorb(full, &partial, true);
            }
        }
        self.sorted(slot)
    }

    /// Two full states: the i-th heaviest of A takes in the i-th lightest of B.
    fn merge(&mut self, a: Full<W>, b: Full<W>) -> Full<W> {
        self.work.did(self.k);
        self.sort_slot(a);
        self.sort_slot(b);
        let (a_start, b_start) = (a.slot as usize * self.k, b.slot as usize * self.k);
        for i in 0..self.k {
            self.arena[a_start + i] = self.join(self.arena[a_start + i], self.arena[b_start + self.k - 1 - i]);
        }
        sort_descending(&mut self.arena[a_start..a_start + self.k]);
        self.free_slots.push(b.slot);
        self.sorted(a.slot)
    }

    /// A full state and one of fewer sets, in descending order: the lightest sets of the full one meet them,
    /// the lightest the heaviest. `few_first` says which is A, whose items stand first.
    fn absorb(&mut self, full: Full<W>, few: &[Set<W>], few_first: bool) -> Full<W> {
        let mut open = Open { slot: full.slot, run: full.run as usize, heap: self.k - full.run as usize };
        let mut largest = full.largest;
        self.work.did(few.len());
        self.taken.clear();
        for _ in few {
            let lightest = self.take_lightest(&mut open);
            self.taken.push(lightest);
        }
        for (i, &set) in few.iter().enumerate() {
            let lightest = self.taken[i];
            let joined = if few_first { self.join(set, lightest) } else { self.join(lightest, set) };
            if W::less(largest, joined.key()) {
                largest = joined.key();
            }
            self.insert(&mut open, joined);
        }
        Full { spread: largest.0 - self.lightest(&open).sum, largest, slot: open.slot, run: open.run as u32 }
    }

    /// The first set with the items of the second appended.
    fn join(&mut self, a: Set<W>, b: Set<W>) -> Set<W> {
        let sum = if W::EXACT {
            a.sum + b.sum
        } else {
            let (mut sum, mut item) = (a.sum, b.first());
            self.work.did((b.tie >> 32) as usize);
            loop {
                sum = sum + self.weights[item as usize];
                if item == b.last {
                    break sum;
                }
                item = self.next[item as usize];
            }
        };
        self.next[a.last as usize] = b.first();
        Set { sum, tie: a.tie + (b.tie >> 32 << 32), last: b.last }
    }

    fn new_slot(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            let slot = self.arena.len() / self.k;
            self.arena.resize(self.arena.len() + self.k, Set::default());
            slot as u32
        })
    }

    /// The full state of a slot whose sets stand in descending order.
    fn sorted(&self, slot: u32) -> Full<W> {
        let start = slot as usize * self.k;
        let (largest, lightest) = (self.arena[start].key(), self.arena[start + self.k - 1].key());
        Full { spread: largest.0 - lightest.0, largest, slot, run: self.k as u32 }
    }

    fn sort_slot(&mut self, full: Full<W>) {
        if full.run as usize != self.k {
            sort_descending(self.sets_mut(full.slot));
        }
    }

    fn sets(&self, slot: u32) -> &[Set<W>] {
        &self.arena[slot as usize * self.k..][..self.k]
    }

    fn sets_mut(&mut self, slot: u32) -> &mut [Set<W>] {
        &mut self.arena[slot as usize * self.k..][..self.k]
    }

    fn lightest(&self, open: &Open) -> Set<W> {
        let (sets, root) = (self.sets(open.slot), self.k - 1);
        if open.heap == 0 || sets[open.run - 1].less(sets[root]) { sets[open.run - 1] } else { sets[root] }
    }

    fn take_lightest(&mut self, open: &mut Open) -> Set<W> {
        let k = self.k;
        let sets = self.sets_mut(open.slot);
        if open.heap == k {
            // The run is used up: one sort makes the next k takes cheap.
            sort_descending(sets);
            (open.run, open.heap) = (k, 0);
        }
        if open.run > 0 && (open.heap == 0 || sets[open.run - 1].less(sets[k - 1])) {
            open.run -= 1;
            return sets[open.run];
        }
        let set = sets[k - 1];
        open.heap -= 1;
        let end = sets[k - 1 - open.heap];
        sift_down(&mut sets[k - open.heap..], end);
        set
    }

    fn insert(&mut self, open: &mut Open, set: Set<W>) {
        /// A run is kept sorted as long as a set need not climb higher than this.
        const CLIMB: usize = 48;
        let k = self.k;
        let sets = self.sets_mut(open.slot);
        let floor = open.run.saturating_sub(CLIMB);
        let mut position = open.run;
        while position > floor && sets[position - 1].less(set) {
            position -= 1;
        }
        if position > floor || floor == 0 {
            sets.copy_within(position..open.run, position + 1);
            sets[position] = set;
            open.run += 1;
            return;
        }
        open.heap += 1;
        sift_up(&mut sets[k - open.heap..], set);
    }

    /// The final sets with their items.
    fn groups(&mut self, last: Full<W>) -> Groups {
        self.sort_slot(last);
        let mut work = Work::default();
        let mut items = Vec::with_capacity(self.weights.len());
        let ranges = self
            .sets(last.slot)
            .iter()
            .map(|set| {
                let start = items.len() as u32;
                let mut item = set.first();
                work.did((set.tie >> 32) as usize);
                for _ in 0..set.tie >> 32 {
                    items.push(item);
                    item = self.next[item as usize];
                }
                start..items.len() as u32
            })
            .collect();
        Groups { items, ranges }
    }
}

fn sort_descending<W: Weight>(sets: &mut [Set<W>]) {
    /// Up to here insertion sort is faster.
    const SMALL: usize = 20;
    /// From here on a sort takes long enough to be stopped in the middle.
    const LARGE: usize = 1 << 20;
    if sets.len() >= LARGE {
        let mut work = Work::default();
        sets.sort_unstable_by(|a, b| {
            work.did(1);
            Set::descending(a, b)
        });
        return;
    }
    if sets.len() > SMALL {
        sets.sort_unstable_by(Set::descending);
        return;
    }
    for end in 1..sets.len() {
        let set = sets[end];
        let mut position = end;
        while position > 0 && sets[position - 1].less(set) {
            sets[position] = sets[position - 1];
            position -= 1;
        }
        sets[position] = set;
    }
}

/// The min-heap lies reversed: node i at `heap[len - 1 - i]`. A hole at the first position moves up to where
/// `set` belongs.
fn sift_up<W: Weight>(heap: &mut [Set<W>], set: Set<W>) {
    let root = heap.len() - 1;
    let mut node = root;
    while node > 0 {
        let parent = (node - 1) / 2;
        if !set.less(heap[root - parent]) {
            break;
        }
        heap[root - node] = heap[root - parent];
        node = parent;
    }
    heap[root - node] = set;
}

/// As [`sift_up`], for a hole at the root moving down; an empty heap drops the set.
fn sift_down<W: Weight>(heap: &mut [Set<W>], set: Set<W>) {
    let Some(root) = heap.len().checked_sub(1) else {
        return;
    };
    let mut node = 0;
    loop {
        let mut child = 2 * node + 1;
        if child > root {
            break;
        }
        if child < root && heap[root - child - 1].less(heap[root - child]) {
            child += 1;
        }
        if !heap[root - child].less(set) {
            break;
        }
        heap[root - node] = heap[root - child];
        node = child;
    }
    heap[root - node] = set;
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
        let parts = partition(&weights, 70, false);
        let sums: Vec<u64> = parts.iter().map(|part| part.iter().map(|&item| weights[item as usize]).sum()).collect();
        assert!(sums.is_sorted_by(|one, other| one >= other));
        assert!(sums[0] - sums[69] <= 1, "{sums:?}");
    }
}
