//! The watch hub: a sleeping stream is woken, and it receives all events in order, whether they come from history or
//! live.

use std::sync::Arc;

use api::etcdserverpb as pb;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use prost::Message;
use shuttle::thread;
use store::watch::{Hub, NextResponse, WatchStream};
use store::{BatchContext, Command, Damaged, Limits, Store, ValueRef, Values};

/// Revisions written while the stream runs; the first is 2.
const LAST_REVISION: i64 = 4;

/// All values are empty.
struct NoValues;

impl Values for NoValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        Err(Damaged {
            key: None,
            address: value.address,
            len: value.len,
            reason: "there are no values".into(),
            is_transient: false,
        })
    }

    fn retain(&self, _value: &ValueRef) {}

    fn release(&self, _value: &ValueRef) {}
}

/// What the task of a stream sleeps on.
#[derive(Default)]
struct WakeUp {
    is_pending: Mutex<bool>,
    notified: Condvar,
}

impl WakeUp {
    fn notify(&self) {
        *self.is_pending.lock() = true;
        self.notified.notify_one();
    }

    fn wait(&self) {
        let mut is_pending = self.is_pending.lock();
        self.notified.wait_while(&mut is_pending, |is_pending| !*is_pending);
        *is_pending = false;
    }

    /// As a task would that loses notifications from before it slept.
    fn wait_for_the_next(&self) {
        *self.is_pending.lock() = false;
        self.wait();
    }
}

fn put(store: &mut Store, hub: &Hub, index: u64) {
    let is_watched = hub.is_watched();
    let context = BatchContext { is_watched, ..BatchContext::at(index, 1) };
    let request = pb::PutRequest { key: "a".into(), ..Default::default() };
    let applied = store.apply_batch(context, vec![Command::Put(request)]).expect("nothing is compared");
    if is_watched {
        hub.publish(applied.revision, &applied.events.into());
    } else {
        hub.publish_unwatched(applied.revision);
    }
}

fn watched(wait: fn(&WakeUp)) {
    let (mut store, reader) = Store::new(Arc::new(NoValues), Limits::default());
    let hub = Hub::new(Arc::new(reader), Arc::new(NoValues), 1, 2, 3);
    let publisher = hub.clone();
    let writer = thread::spawn(move || {
        for index in 1..LAST_REVISION as u64 {
            put(&mut store, &publisher, index);
        }
    });
    let wake_up = Arc::new(WakeUp::default());
    let notifier = wake_up.clone();
    let mut stream = hub.open(Arc::new(move || notifier.notify()), 1 << 20);
    stream.create(&pb::WatchCreateRequest { key: "a".into(), start_revision: 2, ..Default::default() });
    let received = receive(&mut stream, &|| wait(&wake_up));
    assert!(received.into_iter().eq(2..=LAST_REVISION));
    writer.join().unwrap();
}

fn receive(stream: &mut WatchStream, wait: &dyn Fn()) -> Vec<i64> {
    let mut received = Vec::new();
    while received.last() != Some(&LAST_REVISION) {
        match stream.next(1).expect("there are no values to damage") {
            NextResponse::Send(frame) => {
                let response = pb::WatchResponse::decode(frame.to_bytes()).expect("it was encoded so");
                received
                    .extend(response.events.iter().filter_map(|event| Some(event.kv.as_ref()?.mod_revision)));
            }
            NextResponse::Busy => {}
            NextResponse::Idle => wait(),
        }
    }
    received
}

#[test]
fn a_stream_receives_all_events_in_order_and_is_woken_for_each() {
    crate::holds(|| watched(WakeUp::wait));
}

#[test]
fn a_task_that_forgets_a_wake_up_is_noticed() {
    crate::fails(|| watched(WakeUp::wait_for_the_next));
}
