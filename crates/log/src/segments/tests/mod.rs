//! Components of the life of a segment file, each by itself.

mod retirement;
