//! The spans of the watches of one stream, if its call is sampled: each from its creation until the client cancels it
//! or the stream ends, as in etcd. A watch that the server has canceled ends with its stream.

use std::collections::BTreeMap;

use api::etcdserverpb as pb;

use crate::spans::{InnerOperation, InnerSpans, OpenSpan};

/// Nothing for a call that is not sampled.
#[derive(Default)]
pub(super) struct WatchSpans {
    spans: Option<InnerSpans>,
    /// By watch; as many as there are watches.
    open: BTreeMap<i64, OpenSpan>,
}

impl WatchSpans {
    /// Spans below that of the call.
    pub(super) fn of(spans: Option<InnerSpans>) -> WatchSpans {
        WatchSpans { spans, open: BTreeMap::new() }
    }

    /// A watch was created, with this id; one that was refused has none, and no span.
    pub(super) fn created(&mut self, id: Option<i64>, request: &pb::WatchCreateRequest) {
        if let (Some(spans), Some(id)) = (&self.spans, id) {
            self.open.insert(id, spans.begin(InnerOperation::Watch(request.clone())));
        }
    }

    /// The client has canceled a watch.
    pub(super) fn canceled(&mut self, id: i64) {
        self.open.remove(&id);
    }
}
