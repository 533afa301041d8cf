//! RPC workers: one thread a core, each with a runtime of its own.
//!
//! A connection stays on the worker it was given to, so nothing it does crosses threads but what it asks of the
//! member, and that goes over the worker's desk.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::task::TaskTracker;

use crate::driver::{Bell, Desks};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The queues of all workers.
pub(crate) struct Workers {
    queues: Vec<UnboundedSender<Task>>,
    next: AtomicUsize,
    tasks: TaskTracker,
}

impl Workers {
    /// Starts `count` workers. They end with the process.
    ///
    /// # Errors
    /// When the system refuses a thread or a runtime.
    pub(crate) fn start(count: usize, desks: &Arc<Desks>) -> std::io::Result<Workers> {
        let queues = (0..count).map(|index| start_one(index, desks)).collect::<Result<_, _>>()?;
        Ok(Workers { queues, next: AtomicUsize::new(0), tasks: TaskTracker::new() })
    }

    /// Runs a task, such as a connection, on the next worker in turn.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.queues.len();
        // Workers never end before the process; if one has panicked, the process is aborting.
        let _ = self.queues[index].send(Box::pin(self.tasks.track_future(task)));
    }

    /// Completes when all tasks have ended.
    pub(crate) async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn start_one(index: usize, desks: &Arc<Desks>) -> std::io::Result<UnboundedSender<Task>> {
    let (queue, mut tasks) = unbounded_channel::<Task>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let desks = desks.clone();
    std::thread::Builder::new().name(format!("stele-rpc-{index}")).spawn(move || {
        runtime.block_on(async move {
            desks.run_own(index);
            Bell::run_own();
            while let Some(task) = tasks.recv().await {
                tokio::spawn(task);
            }
        });
    })?;
    Ok(queue)
}
