//! Tests of a whole member that is served inside of this process, by the parts that [`super`] connects.

mod allocations;
mod served;
