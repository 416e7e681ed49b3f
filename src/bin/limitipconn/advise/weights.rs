//! How often, or for how long, each small number was seen: percentiles without keeping what
//! they are of.

/// Numbers beyond are counted as this one.
const MOST: usize = 1 << 20;

/// A weight for each number.
#[derive(Clone, Default, Debug)]
pub struct Weights {
    of: Vec<u64>,
}

impl Weights {
    #[inline]
    pub fn add(&mut self, number: u32, weight: u64) {
        let at = (number as usize).min(MOST);
        if at >= self.of.len() {
            self.of.resize(at + 1, 0);
        }
        self.of[at] = self.of[at].saturating_add(weight);
    }

    pub fn total(&self) -> u64 {
        self.of
            .iter()
            .fold(0, |sum, weight| sum.saturating_add(*weight))
    }

    /// The smallest number that so many hundredths do not exceed; 0 where there is none.
    pub fn percentile(&self, hundredths: u64) -> u32 {
        // 100 hundredths of 2^64 microseconds do not fit.
        let needed = (u128::from(self.total()) * u128::from(hundredths)).div_ceil(100);
        let mut seen = 0;
        for (number, weight) in self.of.iter().enumerate() {
            seen += u128::from(*weight);
            if seen >= needed && *weight > 0 {
                return number as u32;
            }
        }
        0
    }

    /// The greatest number.
    pub fn most(&self) -> u32 {
        self.of.iter().rposition(|weight| *weight > 0).unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_zero() {
        let none = Weights::default();
        assert_eq!((none.percentile(50), none.most(), none.total()), (0, 0, 0));
    }

    #[test]
    fn what_does_not_fit_is_the_most_that_does() {
        let mut weights = Weights::default();
        for number in [1, 1, 2, u32::MAX] {
            weights.add(number, u64::MAX);
        }
        assert_eq!((weights.total(), weights.percentile(100)), (u64::MAX, 1));
        assert_eq!(weights.most(), 1 << 20);
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_list(mut numbers in prop::collection::vec(0u32..40, 1..200)) {
            let mut weights = Weights::default();
            for number in &numbers {
                weights.add(*number, 1);
            }
            numbers.sort();
            for hundredths in [1, 50, 90, 99, 100] {
                let rank = (numbers.len() * hundredths).div_ceil(100);
                prop_assert_eq!(weights.percentile(hundredths as u64), numbers[rank - 1]);
            }
            prop_assert_eq!(Some(&weights.most()), numbers.last());
        }
    }
}
