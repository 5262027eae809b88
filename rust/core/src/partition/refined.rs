//! Parts of equal size, refined: the better of two starts, whose pairs of items are exchanged until nothing helps.
//!
//! With equal counts Karmarkar–Karp must pair the lightest sets with the heaviest whatever they weigh, and heavy tails leave
//! it uneven; so a greedy method is a start as well: heaviest item first, to the lightest part that has room for one more.
//! From either, the heaviest part exchanges an item for a lighter one, with the lightest part that this helps, as long as
//! both end lighter than it was.
use super::sort::ascending;
use super::{ItemOrder, bounded};
use crate::Groups;
use crate::interrupt::Work;
use crate::weights::Weight;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parts whose item counts differ by at most one, for `1 <= k <= weights.len()`; heaviest first, items ascending.
///
/// The largest sum is never above that of either start. **O(n log n)** time: exchanges end where they have looked at
/// [`LOOKS`] items, and [`LOOKS_PER_ITEM`] more for each there is.
pub(crate) fn refined<W: Weight>(weights: &[W], k: usize) -> Groups {
    let order = ascending(weights);
    let sorted: Vec<W> = order.iter().map(|&item| weights[item as usize]).collect();
    let by_differencing = bounded(&sorted, k, ItemOrder::Ascending);
    let mut best = Parts::new(&sorted, by_differencing.iter().map(<[u32]>::to_vec).collect());
    drop(by_differencing);
    best.refine();
    let mut other = Parts::new(&sorted, heaviest_to_lightest(&sorted, k));
    other.refine();
    if other.largest() < best.largest() {
        best = other;
    }
    best.groups(&order)
}

/// Items that are looked at before exchanges end, whatever they have reached.
const LOOKS: usize = 1 << 22;
const LOOKS_PER_ITEM: usize = 64;

/// The greedy start: heaviest item first, to the lightest part with room for one more. Items are in ascending order.
fn heaviest_to_lightest<W: Weight>(sorted: &[W], k: usize) -> Vec<Vec<u32>> {
    let (all_hold, mut one_more) = (sorted.len() / k, sorted.len() % k);
    let mut parts = vec![Vec::with_capacity(all_hold + 1); k];
    let mut lightest: BinaryHeap<_> = (0..k).map(|part| Reverse(of_part(W::default(), part))).collect();
    let mut work = Work::default();
    for item in (0..sorted.len() as u32).rev() {
        work.did(1);
        while let Some(Reverse(of_lightest)) = lightest.pop() {
            let (sum, part) = (weight::<W>(of_lightest), part::<W>(of_lightest));
            let items = &mut parts[part];
            if items.len() == all_hold {
                if one_more == 0 {
                    continue;
                }
                one_more -= 1;
            }
            items.push(item);
            if items.len() <= all_hold {
                lightest.push(Reverse(of_part(sum + sorted[item as usize], part)));
            }
            break;
        }
    }
    for items in &mut parts {
        items.reverse();
    }
    parts
}

/// The sum of a part; equal ones by number.
type Sum<W> = <W as Weight>::Tied;

fn of_part<W: Weight>(sum: W, part: usize) -> Sum<W> {
    sum.tied(part as u64)
}

fn part<W: Weight>(sum: Sum<W>) -> usize {
    W::untied(sum).1 as usize
}

fn weight<W: Weight>(sum: Sum<W>) -> W {
    W::untied(sum).0
}

/// An item of the heavier part, at a place in it, for one of the lighter, or for none where that evens the counts.
#[derive(Clone, Copy)]
struct Exchange {
    give: usize,
    take: Option<usize>,
}

/// Parts of items that are in ascending order of weight.
struct Parts<'a, W: Weight> {
    sorted: &'a [W],
    /// The items of each, ascending.
    items: Vec<Vec<u32>>,
    /// Of every part, ascending.
    sums: Vec<Sum<W>>,
}

impl<'a, W: Weight> Parts<'a, W> {
    fn new(sorted: &'a [W], items: Vec<Vec<u32>>) -> Self {
        let sums = items.iter().enumerate().map(|(part, items)| of_part(sum(sorted, items), part));
        let mut sums: Vec<_> = sums.collect();
        sums.sort_unstable();
        Self { sorted, items, sums }
    }

    fn largest(&self) -> W {
        self.sums.last().map_or(W::default(), |&last| weight::<W>(last))
    }

    /// Makes the heaviest parts lighter over and over.
    fn refine(&mut self) {
        let mut looks = LOOKS.saturating_add(self.sorted.len().saturating_mul(LOOKS_PER_ITEM));
        let mut work = Work::default();
        let top = self.sums.len() - 1;
        let (mut heavy, mut light) = (top, 0);
        while looks > 0 && weight::<W>(self.sums[heavy]).order(self.largest()).is_eq() {
            if light == heavy {
                let Some(next) = heavy.checked_sub(1) else { return };
                (heavy, light) = (next, 0);
                continue;
            }
            let both = [heavy, light].map(|place| self.items[part::<W>(self.sums[place])].len());
            looks = looks.saturating_sub(both[0] + both[1]);
            work.did(both[0] + both[1]);
            let exchanged = self.exchange(heavy, light).is_some_and(|exchange| {
                work.did(top);
                self.carry_out(heavy, light, exchange)
            });
            (heavy, light) = if exchanged { (top, 0) } else { (heavy, light + 1) };
        }
    }

    /// The exchange after which the heavier of both is lightest, if that makes it lighter.
    fn exchange(&self, heavy: usize, light: usize) -> Option<Exchange> {
        let [heavy, light] = [heavy, light].map(|place| self.sums[place]);
        let [gives, takes] = [heavy, light].map(|sum| &self.items[part::<W>(sum)]);
        let [heavy, light] = [heavy, light].map(weight::<W>);
        let weight = |item: u32| self.sorted[item as usize];
        let mut best = (heavy, None);
        let mut first = 0; // of those with which the lighter part stays the lighter one
        for (give, given) in gives.iter().map(|&item| weight(item)).enumerate() {
            let sums = |taken: W| [heavy - given + taken, light - taken + given];
            let crossed = |taken: W| sums(taken)[1] > sums(taken)[0];
            while first < takes.len() && crossed(weight(takes[first])) {
                first += 1;
            }
            let mut consider = |take: Option<usize>| {
                let [one, other] = sums(take.map_or(W::default(), |take| weight(takes[take])));
                let larger = if one < other { other } else { one };
                if larger < best.0 {
                    best = (larger, Some(Exchange { give, take }));
                }
            };
            if first < takes.len() {
                consider(Some(first));
            }
            match first.checked_sub(1) {
                None if gives.len() > takes.len() => consider(None),
                None => {}
                before => consider(before),
            }
        }
        best.1
    }

    /// Whether both are lighter now than the heavier was. Sums that round are added up again, which may say otherwise.
    fn carry_out(&mut self, heavy: usize, light: usize, exchange: Exchange) -> bool {
        let before = [heavy, light].map(|place| self.sums[place]);
        let [heavy, light] = before.map(part::<W>);
        let given = self.items[heavy][exchange.give];
        let taken = exchange.take.map(|take| self.items[light][take]);
        self.hand_over(given, heavy, light);
        if let Some(taken) = taken {
            self.hand_over(taken, light, heavy);
        }
        let after = [heavy, light].map(|part| of_part(sum(self.sorted, &self.items[part]), part));
        let lighter = after.iter().all(|&new| weight::<W>(new) < weight::<W>(before[0]));
        if lighter {
            for (old, new) in before.into_iter().zip(after) {
                self.replace(old, new);
            }
        } else {
            self.hand_over(given, light, heavy);
            if let Some(taken) = taken {
                self.hand_over(taken, heavy, light);
            }
        }
        lighter
    }

    fn hand_over(&mut self, item: u32, from: usize, to: usize) {
        let place = |items: &[u32]| items.partition_point(|&other| other < item);
        let [out, joins] = [from, to].map(|part| place(&self.items[part]));
        self.items[from].remove(out);
        self.items[to].insert(joins, item);
    }

    fn replace(&mut self, old: Sum<W>, new: Sum<W>) {
        let place = |sums: &[Sum<W>], sum: Sum<W>| sums.partition_point(|other| *other < sum);
        self.sums.remove(place(&self.sums, old));
        self.sums.insert(place(&self.sums, new), new);
    }

    /// As Karmarkar–Karp orders its parts; items by their places in `order`.
    fn groups(self, order: &[u32]) -> Groups {
        let parts = self.sums.iter().map(|&sum| {
            let items = &self.items[part::<W>(sum)];
            let mut items: Vec<u32> = items.iter().map(|&item| order[item as usize]).collect();
            items.sort_unstable();
            (weight::<W>(sum), items)
        });
        let mut parts: Vec<(W, Vec<u32>)> = parts.collect();
        parts.sort_by(|(a, ours), (b, theirs)| {
            b.order(*a).then_with(|| (theirs.len(), theirs.first()).cmp(&(ours.len(), ours.first())))
        });
        let mut groups = Groups::default();
        for (_, items) in parts {
            groups.push(items);
        }
        groups
    }
}

/// Of items that ascend, so that the same items have the same sum.
fn sum<W: Weight>(sorted: &[W], items: &[u32]) -> W {
    items.iter().fold(W::default(), |sum, &item| sum + sorted[item as usize])
}
