//! One of the two streams of a link, control or bulk, each of which is a connection of its own and can fail alone.
//!
//! ```text
//! both connected --sever_stream--> one broken, unknown to the sender --StreamLost--> down --DialStream--> connected
//!                                                    PeerDown: the link is not whole       PeerUp
//! ```
//!
//! Frames of the other stream arrive all the while. When the whole link breaks or is connected, so are both streams. A
//! stream can also be held up alone: its reader waits for a disk, or a full queue.

/// A stream, while its link is connected.
#[derive(Default)]
pub(crate) struct SimStream {
    /// Counts its connections, and grows with the link's number of connections to a number of its own.
    pub(super) epoch: u64,
    /// It carries nothing any more; the sender may not know yet.
    pub(crate) is_broken: bool,
    /// The sender knows, and dials it again.
    pub(crate) is_down: bool,
    /// When its last frame arrives.
    last_ns: u64,
    pub(super) in_flight_bytes: usize,
    pub(super) in_flight_appends: usize,
}

impl SimStream {
    /// Its link was connected or disconnected.
    pub(super) fn reset(&mut self) {
        *self = SimStream { epoch: self.epoch, ..SimStream::default() };
    }

    /// Frames in flight, and events for this connection, are void.
    pub(super) fn lose_frames(&mut self) {
        self.epoch += 1;
        (self.in_flight_bytes, self.in_flight_appends) = (0, 0);
    }

    /// It is connected again.
    pub(crate) fn connect(&mut self) {
        self.lose_frames();
        self.reset();
    }

    /// Holds up all frames that are sent from now on until then.
    pub(crate) fn hold_up(&mut self, until_ns: u64) {
        self.last_ns = self.last_ns.max(until_ns);
    }

    /// Arrival time of a frame that would arrive at `at_ns` alone.
    pub(super) fn arrival_ns(&mut self, at_ns: u64) -> u64 {
        self.last_ns = self.last_ns.max(at_ns);
        self.last_ns
    }
}
