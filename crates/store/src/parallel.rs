//! Work in independent tasks. The store has no threads: who calls it says how tasks run, and they come to the same
//! result whether they run at the same time or one after the other.

/// A part of some work, independent of the other parts.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs tasks.
pub trait Parallel: Sync {
    /// Runs all tasks; returns when the last one has ended.
    fn run(&self, tasks: Vec<Task<'_>>);

    /// How many tasks at a time are of use; at least 1.
    fn width(&self) -> usize;
}

/// Runs tasks one after the other on the caller's thread.
pub struct Sequential;

impl Parallel for Sequential {
    fn run(&self, tasks: Vec<Task<'_>>) {
        tasks.into_iter().for_each(|task| task());
    }

    fn width(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_in_their_order() {
        let order = parking_lot::Mutex::new(Vec::new());
        let order = &order;
        let task = |number| -> Task<'_> { Box::new(move || order.lock().push(number)) };
        Sequential.run(vec![task(1), task(2), task(3)]);
        assert_eq!(*order.lock(), [1, 2, 3]);
    }
}
