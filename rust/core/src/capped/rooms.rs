//! Bins with room by several measures, of which the first with enough of each is found.

/// The room of every bin in a binary tree of maxima: `tree[leaves + bin]` is a bin's room, `tree[i]` the larger of
/// `tree[2 * i]` and `tree[2 * i + 1]`, number by number; leaves without a bin are full.
pub(crate) struct Rooms<const N: usize> {
    tree: Vec<[i32; N]>,
    full: [i32; N],
    leaves: usize,
    bins: usize,
}

impl<const N: usize> Rooms<N> {
    /// No bin yet; `full` is the room of one that is closed.
    pub fn new(full: [i32; N]) -> Self {
        Self { tree: vec![full; 2], full, leaves: 1, bins: 0 }
    }

    /// The first bin whose every number is as large as that of `needs`, and which has room indeed. A node may be as large
    /// and none of its bins: the search looks at `most` nodes, and then at the last bin only.
    pub fn first_of(&self, needs: &[i32; N], most: usize, has_room: impl Fn(usize) -> bool) -> Option<usize> {
        let mut node = 1;
        for _ in 0..most {
            let large = self.tree[node].iter().zip(needs).all(|(room, need)| room >= need);
            if large && node < self.leaves {
                node *= 2;
                continue;
            }
            if large && has_room(node - self.leaves) {
                return Some(node - self.leaves);
            }
            // On to the subtree at the right, up from the last child of a node.
            node >>= node.trailing_ones();
            if node == 0 {
                return None;
            }
            node += 1;
        }
        self.bins.checked_sub(1).filter(|&last| has_room(last))
    }

    /// The number of a new bin, which is full until its room is set.
    pub fn open(&mut self) -> usize {
        if self.bins == self.leaves {
            self.grow();
        }
        self.bins += 1;
        self.bins - 1
    }

    pub fn set(&mut self, bin: usize, room: [i32; N]) {
        let mut node = self.leaves + bin;
        self.tree[node] = room;
        while node > 1 {
            node /= 2;
            let mut largest = self.tree[2 * node];
            largest.iter_mut().zip(&self.tree[2 * node + 1]).for_each(|(one, &other)| *one = other.max(*one));
            if self.tree[node] == largest {
                break;
            }
            self.tree[node] = largest;
        }
    }

    /// Doubles the leaves: the old tree becomes the left half of the new one, level by level.
    fn grow(&mut self) {
        let mut grown = vec![self.full; 4 * self.leaves];
        grown[1] = self.tree[1];
        let mut width = 1;
        while width <= self.leaves {
            grown[2 * width..3 * width].copy_from_slice(&self.tree[width..2 * width]);
            width *= 2;
        }
        (self.tree, self.leaves) = (grown, 2 * self.leaves);
    }
}
