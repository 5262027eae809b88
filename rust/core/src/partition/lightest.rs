//! The sets of one state, by which the lightest is found while it takes in single items.
use super::set::{Set, sort, sum};
use crate::weights::Weight;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sets of which the lightest is taken out, joined and put back, over and over.
pub(crate) trait Lightest<W: Weight> {
    fn lightest(&mut self) -> Set<W>;
    fn take(&mut self) -> Set<W>;
    fn put(&mut self, set: Set<W>);
}

/// A min-heap, free positions, and a run in ascending order: m sets that are taken and put cost **O(m log k)**, and all lie
/// where a merge will look for them.
pub(crate) struct HeapAndRun<'a, W: Weight> {
    sets: &'a mut [Set<W>],
    heap: usize,
    /// Where the run begins.
    run: usize,
    words: &'a mut Vec<u64>,
}

impl<'a, W: Weight> HeapAndRun<'a, W> {
    /// Of sets whose first so many are a heap, and the others the run.
    pub fn new(sets: &'a mut [Set<W>], heap: usize, words: &'a mut Vec<u64>) -> Self {
        Self { sets, heap, run: heap, words }
    }

    /// The length of the heap, where no position is free.
    pub fn heap(&self) -> usize {
        self.heap
    }

    fn run_is_lighter(&self) -> bool {
        self.run < self.sets.len() && (self.heap == 0 || self.sets[self.run] < self.sets[0])
    }
}

impl<W: Weight> Lightest<W> for HeapAndRun<'_, W> {
    fn lightest(&mut self) -> Set<W> {
        self.sets[if self.run_is_lighter() { self.run } else { 0 }]
    }

    fn take(&mut self) -> Set<W> {
        if self.heap == self.sets.len() {
            // The run is used up: one sort makes the next k takes cheap.
            sort::<W>(self.sets, self.words);
            (self.heap, self.run) = (0, 0);
        }
        if self.run_is_lighter() {
            self.run += 1;
            return self.sets[self.run - 1];
        }
        let set = self.sets[0];
        self.heap -= 1;
        let end = self.sets[self.heap];
        sift_down(&mut self.sets[..self.heap], end);
        set
    }

    fn put(&mut self, set: Set<W>) {
        /// A run is kept sorted as long as a set need not climb higher than this.
        const CLIMB: usize = 48;
        let run = &self.sets[self.run..];
        let lighter = run.iter().take(CLIMB).take_while(|&&other| other < set).count();
        if lighter == CLIMB && lighter < run.len() {
            self.heap += 1;
            sift_up(&mut self.sets[..self.heap], set);
            return;
        }
        let place = self.run + lighter - 1;
        self.sets.copy_within(self.run..self.run + lighter, self.run - 1);
        self.sets[place] = set;
        self.run -= 1;
    }
}

/// A hole at the end of a heap moves up to where `set` belongs.
fn sift_up<S: Copy + Ord>(heap: &mut [S], set: S) {
    let mut node = heap.len() - 1;
    while node > 0 {
        let parent = (node - 1) / 2;
        if set >= heap[parent] {
            break;
        }
        heap[node] = heap[parent];
        node = parent;
    }
    heap[node] = set;
}

/// As [`sift_up`], for a hole at the root moving down; an empty heap drops the set.
fn sift_down<S: Copy + Ord>(heap: &mut [S], set: S) {
    if heap.is_empty() {
        return;
    }
    let mut node = 0;
    loop {
        let mut child = 2 * node + 1;
        if child >= heap.len() {
            break;
        }
        if child + 1 < heap.len() {
            child += usize::from(heap[child + 1] < heap[child]);
        }
        if heap[child] >= set {
            break;
        }
        heap[node] = heap[child];
        node = child;
    }
    heap[node] = set;
}

/// A calendar queue: buckets by sum, which a cursor passes from the lightest on; what lies under the cursor or behind it is
/// in a heap. Made and ended in **O(k)**, it takes and puts in constant time where sums are spread.
///
/// Source: R. Brown, *Calendar queues*, Communications of the ACM 31, 1988.
pub(crate) struct Calendar<W: Weight> {
    /// Places for sets; those of a bucket are linked.
    places: Vec<Set<W>>,
    next: Vec<u32>,
    free: Vec<u32>,
    /// The first place of every bucket. The last bucket has whatever is heavier than the others reach.
    buckets: Vec<u32>,
    base: u64,
    shift: u32,
    cursor: usize,
    current: BinaryHeap<Reverse<Set<W>>>,
}

const NONE: u32 = u32::MAX;

impl<W: Weight> Calendar<W> {
    pub fn new(sets: &[Set<W>]) -> Self {
        let buckets = (2 * sets.len()).next_power_of_two();
        let mut calendar = Self {
            places: sets.to_vec(),
            next: vec![NONE; sets.len()],
            free: Vec::with_capacity(sets.len()),
            buckets: vec![NONE; buckets + 1],
            base: 0,
            shift: 0,
            cursor: 0,
            current: BinaryHeap::new(),
        };
        calendar.file((0..sets.len() as u32).collect());
        calendar
    }

    /// All sets, in no order.
    pub fn into_sets(mut self) -> impl Iterator<Item = Set<W>> {
        let filed = self.buckets.iter().flat_map(|&place| linked(&self.next, place)).collect::<Vec<u32>>();
        let current = std::mem::take(&mut self.current);
        filed
            .into_iter()
            .map(move |place| self.places[place as usize])
            .chain(current.into_iter().map(|Reverse(set)| set))
    }

    /// Makes buckets for the sets at some places, which are all that are left.
    fn file(&mut self, places: Vec<u32>) {
        let keys = places.iter().map(|&place| Self::key(self.places[place as usize]));
        let (least, most) = keys.fold((u64::MAX, 0), |(least, most), key| (least.min(key), most.max(key)));
        let bits = u64::BITS - (most - least).leading_zeros();
        self.base = least;
        self.shift = bits.saturating_sub((self.buckets.len() - 1).trailing_zeros());
        self.cursor = 0;
        for place in places {
            self.link(place);
        }
    }

    fn key(set: Set<W>) -> u64 {
        sum::<W>(set).radix_key().unwrap_or(u64::MAX)
    }

    fn bucket(&self, set: Set<W>) -> usize {
        let bucket = Self::key(set).saturating_sub(self.base) >> self.shift;
        bucket.min(self.buckets.len() as u64 - 1) as usize
    }

    fn link(&mut self, place: u32) {
        let bucket = self.bucket(self.places[place as usize]);
        self.next[place as usize] = std::mem::replace(&mut self.buckets[bucket], place);
    }

    /// Fills the heap, unless it has a set.
    fn advance(&mut self) {
        while self.current.is_empty() {
            while self.buckets[self.cursor] == NONE {
                self.cursor += 1;
            }
            let first = std::mem::replace(&mut self.buckets[self.cursor], NONE);
            if self.cursor == self.buckets.len() - 1 {
                self.file(linked(&self.next, first).collect());
                continue;
            }
            for place in linked(&self.next, first) {
                self.current.push(Reverse(self.places[place as usize]));
                self.free.push(place);
            }
            self.cursor += 1;
        }
    }
}

fn linked(next: &[u32], first: u32) -> impl Iterator<Item = u32> {
    let some = |place: u32| Some(place).filter(|&place| place != NONE);
    std::iter::successors(some(first), move |&place| some(next[place as usize]))
}

impl<W: Weight> Lightest<W> for Calendar<W> {
    fn lightest(&mut self) -> Set<W> {
        self.advance();
        self.current.peek().map_or_else(Default::default, |&Reverse(set)| set)
    }

    fn take(&mut self) -> Set<W> {
        self.advance();
        self.current.pop().map_or_else(Default::default, |Reverse(set)| set)
    }

    fn put(&mut self, set: Set<W>) {
        if self.bucket(set) < self.cursor {
            self.current.push(Reverse(set));
            return;
        }
        let place = self.free.pop().expect("a set was taken before one is put");
        self.places[place as usize] = set;
        self.link(place);
    }
}
