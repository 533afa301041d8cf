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
use crate::raft_loop::Handoff;

type WorkerTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The queues of all workers.
pub(crate) struct RpcWorkers {
    queues: Vec<UnboundedSender<WorkerTask>>,
    next: AtomicUsize,
    tasks: TaskTracker,
}

impl RpcWorkers {
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
