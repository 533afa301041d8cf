//! Placeholder head; written with the crate.
