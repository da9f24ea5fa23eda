//! Random numbers for race tests. The seed is printed, and `CODESPACE_SEED` sets it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator (SplitMix64): small, and the same everywhere for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From `CODESPACE_SEED`, else from the clock; says which, so that a failure can be played again.
    ///
    /// # Panics
    /// When `CODESPACE_SEED` is no number.
    pub fn announced(test: &str) -> Self {
        let seed = match std::env::var("CODESPACE_SEED") {
            Ok(seed) => seed.parse().expect("CODESPACE_SEED is a number"),
            Err(_) => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.subsec_nanos().into()) * 2_654_435_761
            }
        };
        crate::tell(&format!("{test}: CODESPACE_SEED={seed}"));
        Self(seed)
    }

    /// From a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From nothing to `most`, evenly.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64((self.number() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_durations_stay_in_bounds() {
        let (mut a, mut b) = (Random::seeded(7), Random::seeded(7));
        assert_eq!([a.number(), a.number()], [b.number(), b.number()]);
        let most = Duration::from_millis(10);
        let drawn: Vec<_> = (0..1000).map(|_| a.up_to(most)).collect();
        assert!(drawn.iter().all(|d| *d < most));
        assert!(drawn.iter().any(|d| *d < most / 4) && drawn.iter().any(|d| *d > most / 4 * 3));
    }
}
