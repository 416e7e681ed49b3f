//! The highest of many, in little room: what a table of millions can show.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The highest of those that were offered, at most so many.
pub struct Highest<T> {
    most: usize,
    heap: BinaryHeap<Reverse<(u64, Reverse<T>)>>,
    offered: u64,
}

impl<T: Ord> Highest<T> {
    /// Room for so many.
    pub fn new(most: usize) -> Self {
        Highest {
            most,
            heap: BinaryHeap::new(),
            offered: 0,
        }
    }

    /// Offers one. What it is, is made only where it is among the highest so far; None, and
    /// it has gone meanwhile.
    pub fn offer(&mut self, value: u64, what: impl FnOnce() -> Option<T>) {
        self.offered += 1;
        let is_full = self.heap.len() >= self.most;
        let lowest = self.heap.peek().map_or(0, |Reverse((lowest, _))| *lowest);
        if is_full && value <= lowest {
            return;
        }
        let Some(what) = what() else {
            self.offered -= 1;
            return;
        };
        self.heap.push(Reverse((value, Reverse(what))));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    /// All that are kept, the highest first and of equal ones the least first; and how many
    /// were left out.
    pub fn finish(self) -> (impl Iterator<Item = (u64, T)>, u64) {
        let left_out = self.offered - self.heap.len() as u64;
        // Ascending order of what is reversed.
        let all = self.heap.into_sorted_vec().into_iter();
        let all = all.map(|Reverse((value, Reverse(what)))| (value, what));
        (all, left_out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(most: usize, values: &[u64]) -> (Vec<(u64, usize)>, u64) {
        let mut highest = Highest::new(most);
        for (at, value) in values.iter().enumerate() {
            highest.offer(*value, || Some(at));
        }
        let (kept, left_out) = highest.finish();
        (kept.collect(), left_out)
    }

    #[test]
    fn the_highest_stay_and_the_others_are_counted() {
        assert_eq!(kept(2, &[]), (vec![], 0));
        assert_eq!(kept(0, &[1, 2]), (vec![], 2));
        assert_eq!(kept(3, &[5, 9, 5]), (vec![(9, 1), (5, 0), (5, 2)], 0));
        assert_eq!(kept(2, &[1, 7, 3, 9, 2]), (vec![(9, 3), (7, 1)], 3));
    }

    #[test]
    fn what_has_gone_is_not_counted() {
        let mut highest = Highest::new(1);
        highest.offer(4, || Some('a'));
        highest.offer(5, || None);
        let (kept, left_out) = highest.finish();
        assert_eq!((kept.collect::<Vec<_>>(), left_out), (vec![(4, 'a')], 0));
    }

    proptest! {
        #[test]
        fn it_is_the_head_of_all_in_order(most in 0usize..8, values in prop::collection::vec(0u64..20, 0..40)) {
            let mut all = values.clone();
            all.sort_by_key(|value| Reverse(*value));
            all.truncate(most);
            let (kept, left_out) = kept(most, &values);
            let numbers: Vec<u64> = kept.iter().map(|(value, _)| *value).collect();
            prop_assert_eq!(left_out as usize, values.len() - all.len());
            prop_assert_eq!(numbers, all);
        }
    }
}
