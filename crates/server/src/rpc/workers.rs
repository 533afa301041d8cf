//! RPC workers: one thread per core, each with a runtime of its own.
//!
//! A connection stays on the worker it was given to. Only its requests to the raft loop cross threads, through the
//! submission and completion queues of the worker, and the wake-ups of its watch streams, through the worker's
//! coalescing notifier.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::task::TaskTracker;

use super::coalescing_notifier::CoalescingNotifier;
use crate::raft_loop::{Handoff, MAX_RPC_WORKERS};

type WorkerTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The queues of all workers.
pub(crate) struct RpcWorkers {
    queues: Vec<UnboundedSender<WorkerTask>>,
    next: AtomicUsize,
    tasks: TaskTracker,
}

impl RpcWorkers {
    /// How many workers there are on a machine with so many hardware threads.
    pub(crate) fn count_for(hardware_threads: usize) -> usize {
        hardware_threads.clamp(1, MAX_RPC_WORKERS)
    }

    /// Starts `count` workers. They end with the process.
    ///
    /// # Errors
    /// When the system refuses a thread or a runtime.
    pub(crate) fn start(count: usize, handoff: &Handoff) -> std::io::Result<RpcWorkers> {
        let queues = (0..count).map(|index| start_one(index, handoff)).collect::<Result<_, _>>()?;
        Ok(RpcWorkers { queues, next: AtomicUsize::new(0), tasks: TaskTracker::new() })
    }

    /// Runs a task, such as a connection, on the workers one after another.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        // Workers never end before the process; if one has panicked, the process is aborting.
        let _ = self.queues[index].send(Box::pin(self.tasks.track_future(task)));
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn start_one(index: usize, handoff: &Handoff) -> std::io::Result<UnboundedSender<WorkerTask>> {
    let (queue, mut tasks) = unbounded_channel::<WorkerTask>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handoff = handoff.clone();
    std::thread::Builder::new().name(format!("stele-rpc-{index}")).spawn(move || {
        runtime.block_on(async move {
            handoff.serve_worker(index);
            CoalescingNotifier::run_own();
            while let Some(task) = tasks.recv().await {
                tokio::spawn(task);
            }
        });
    })?;
    Ok(queue)
}

#[cfg(test)]
mod tests {
    //! How many workers there are.
    use std::sync::Arc;

    use super::*;
    use crate::config::FeatureGates;
    use crate::metrics::Metrics;

    #[test]
    fn a_machine_of_any_size_has_a_worker_for_each_thread_that_tokens_can_number() {
        let metrics =
            Arc::new(Metrics::new(&FeatureGates::parse("").expect("none"), false).expect("good names"));
        for (threads, workers) in [(0, 1), (2, 2), (255, 255), (256, 255), (1_024, 255)] {
            assert_eq!(RpcWorkers::count_for(threads), workers);
            Handoff::new(RpcWorkers::count_for(threads), metrics.clone());
        }
    }
}
