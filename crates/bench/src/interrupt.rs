//! Ctrl-C: the first one ends what is measured, and the report follows; any other ends the run at once.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

/// What one listener heard of Ctrl-C. (Once somebody listens, the signal does not end the process by itself any more.)
#[derive(Default)]
pub(crate) struct Interrupt {
    measuring: Cell<bool>,
    /// Whether a measurement was ended.
    ended: Cell<bool>,
    end_measuring: Notify,
    end_run: Notify,
}

impl Interrupt {
    /// Starts to listen.
    pub(crate) fn listen(self: &Rc<Self>) {
        let this = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                this.signal();
            }
        });
    }

    fn signal(&self) {
        if self.measuring.get() && !self.ended.replace(true) {
            crate::print::complain("interrupted: what was measured until now follows");
            self.end_measuring.notify_waiters();
        } else {
            self.end_run.notify_one();
        }
    }

    /// Does what is measured, until it is over or interrupted.
    pub(crate) async fn measure(&self, work: impl Future<Output = ()>) {
        self.measuring.set(true);
        tokio::select! {
            () = work => {}
            () = self.end_measuring.notified() => {}
        }
        self.measuring.set(false);
    }

    /// Whether a measurement was interrupted: no other is to begin.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Waits until the run is to end at once.
    pub(crate) async fn run_is_to_end(&self) {
        self.end_run.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn the_first_ends_what_is_measured_and_the_second_the_run() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let interrupt = Interrupt::default();
            interrupt.measure(ready(())).await;
            assert!(!interrupt.has_ended());
            tokio::join!(interrupt.measure(pending()), async { interrupt.signal() });
            assert!(interrupt.has_ended());
            interrupt.signal();
            interrupt.run_is_to_end().await;
        });
    }

    #[test]
    fn outside_of_a_measurement_it_ends_the_run() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let interrupt = Interrupt::default();
            interrupt.signal();
            interrupt.run_is_to_end().await;
            assert!(!interrupt.has_ended());
        });
    }
}
