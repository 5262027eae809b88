//! Sets of items under way: what they are compared by, in one number; and which were joined, which tells their items.
use crate::Groups;
use crate::interrupt::{Work, pieces};
use crate::partition::ItemOrder;
use crate::weights::Weight;

/// A sum, and behind it what settles ties: the item count in the high half of a word, the first item in the low half.
pub(crate) type Set<W> = <W as Weight>::Tied;

pub(crate) fn single<W: Weight>(weight: W, item: u32) -> Set<W> {
    weight.tied(1 << u32::BITS | u64::from(item))
}

pub(crate) fn sum<W: Weight>(set: Set<W>) -> W {
    W::untied(set).0
}

fn first<W: Weight>(set: Set<W>) -> u32 {
    W::untied(set).1 as u32
}

fn count<W: Weight>(set: Set<W>) -> u32 {
    (W::untied(set).1 >> u32::BITS) as u32
}

/// Sorts sets in ascending order; `words` is room to work in.
pub(crate) fn sort<W: Weight>(sets: &mut [Set<W>], words: &mut Vec<u64>) {
    /// Up to here insertion sort is faster.
    const SMALL: usize = 20;
    /// From here on a sort takes long enough to be stopped in the middle.
    const LARGE: usize = 1 << 20;
    if sets.len() <= SMALL {
        for end in 1..sets.len() {
            let set = sets[end];
            let mut position = end;
            while position > 0 && set < sets[position - 1] {
                sets[position] = sets[position - 1];
                position -= 1;
            }
            sets[position] = set;
        }
    } else if sets.len() >= LARGE {
        let mut work = Work::default();
        sets.sort_unstable_by(|a, b| {
            work.did(1);
            a.cmp(b)
        });
    } else if !sets.is_sorted() && !sort_as_words::<W>(sets, words) {
        sets.sort_unstable();
    }
}

/// Where sums and counts are so close that one word holds what a set has above the least of both, and its first item, words
/// are sorted instead, twice as fast; `false` where they are not.
fn sort_as_words<W: Weight>(sets: &mut [Set<W>], words: &mut Vec<u64>) -> bool {
    let (mut least, mut most, mut fewest, mut largest, mut firsts) = (u64::MAX, 0, u32::MAX, 0, 0);
    for &set in &*sets {
        let Some(key) = sum::<W>(set).radix_key() else { return false };
        (least, most) = (least.min(key), most.max(key));
        (fewest, largest) = (fewest.min(count::<W>(set)), largest.max(count::<W>(set)));
        firsts |= first::<W>(set);
    }
    let of_count = u32::BITS - (largest - fewest).leading_zeros();
    let of_sum = u64::BITS - (most - least).leading_zeros();
    let of_first = u32::BITS - firsts.leading_zeros();
    if of_sum + of_count + of_first > u64::BITS {
        return false;
    }
    words.clear();
    words.extend(sets.iter().map(|&set| {
        let above = sum::<W>(set).radix_key().unwrap_or(least) - least;
        let more = u64::from(count::<W>(set) - fewest);
        (above << of_count | more) << of_first | u64::from(first::<W>(set))
    }));
    words.sort_unstable();
    let low = |word: u64, bits: u32| word & ((1 << bits) - 1);
    for (set, &word) in sets.iter_mut().zip(&*words) {
        let both = word >> of_first;
        let tie = (u64::from(fewest) + low(both, of_count)) << u32::BITS | low(word, of_first);
        *set = W::of_radix_key(least + (both >> of_count)).tied(tie);
    }
    true
}

/// Which sets were joined, one after the other, by their first items.
pub(crate) struct Joins {
    log: Vec<[u32; 2]>,
    /// Of sums that round, which are added item by item.
    lists: Lists,
}

impl Joins {
    pub fn new<W: Weight>(items: usize) -> Self {
        Self { log: Vec::with_capacity(items), lists: Lists::new(if W::EXACT { 0 } else { items }) }
    }

    /// As [`join`](Self::join), set by set; the first ones become what comes of it.
    pub fn join_all<'s, W: Weight>(
        &mut self,
        weights: &[W],
        ours: impl Iterator<Item = &'s mut Set<W>>,
        theirs: &[Set<W>],
        work: &mut Work,
    ) where
        Set<W>: 's,
    {
        self.log.reserve(theirs.len());
        for (set, &other) in ours.zip(theirs) {
            *set = self.join(weights, *set, other, work);
        }
    }

    /// The first set with the items of the second appended.
    pub fn join<W: Weight>(&mut self, weights: &[W], a: Set<W>, b: Set<W>, work: &mut Work) -> Set<W> {
        let ((mut sum, tie), (more, of_other)) = (W::untied(a), W::untied(b));
        let count = of_other >> u32::BITS;
        self.log.push([tie as u32, of_other as u32]);
        if W::EXACT {
            sum = sum + more;
        } else {
            work.did(count as usize);
            self.lists.items(of_other as u32, count as u32).for_each(|item| sum = sum + weights[item as usize]);
            self.lists.append(tie as u32, of_other as u32);
        }
        sum.tied(tie + (count << u32::BITS))
    }

    /// The items of the sets that are left.
    pub fn groups<W: Weight>(self, sets: &[Set<W>], items: usize, order: ItemOrder) -> Groups {
        match order {
            ItemOrder::Joined => self.joined::<W>(sets, items),
            ItemOrder::Ascending => self.ascending::<W>(sets, items),
        }
    }

    fn ascending<W: Weight>(&self, sets: &[Set<W>], items: usize) -> Groups {
        let mut labels = vec![0; items];
        for (label, &set) in (0..).zip(sets) {
            labels[first::<W>(set) as usize] = label;
        }
        // Backwards: the last to join has a label by then, and what had joined it before gets its own.
        let mut work = Work::default();
        for &[a, b] in self.log.iter().rev() {
            work.did(1);
            labels[b as usize] = labels[a as usize];
        }
        Groups::from_labels_and_sizes(&labels, sets.iter().map(|&set| 0..count::<W>(set)).collect())
    }

    fn joined<W: Weight>(self, sets: &[Set<W>], items: usize) -> Groups {
        drop(self.lists);
        let mut lists = Lists::new(items);
        for &[a, b] in pieces(&self.log).flatten() {
            lists.append(a, b);
        }
        let mut groups = Groups { items: Vec::with_capacity(items), ranges: Vec::with_capacity(sets.len()) };
        let mut work = Work::default();
        for &set in sets {
            work.did(count::<W>(set) as usize);
            groups.push(lists.items(first::<W>(set), count::<W>(set)));
        }
        groups
    }
}

/// The items of every set in joined order, as lists that are found by their first item.
struct Lists {
    next: Vec<u32>,
    last: Vec<u32>,
}

impl Lists {
    fn new(items: usize) -> Self {
        Self { next: vec![0; items], last: (0..items as u32).collect() }
    }

    fn append(&mut self, a: u32, b: u32) {
        let end = self.last[b as usize];
        let before = std::mem::replace(&mut self.last[a as usize], end);
        self.next[before as usize] = b;
    }

    fn items(&self, first: u32, count: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(first), |&item| Some(self.next[item as usize])).take(count as usize)
    }
}
