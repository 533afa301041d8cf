//! Clients that stall, reset, trickle and lie, chosen by a seed: no panic, bounded memory, and answers that a client
//! with a model of its own windows and streams accepts frame by frame. A client with an even seed keeps to the
//! protocol, so its connection goes on to the end, and it gets all of each answer.
use std::collections::BTreeMap;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::super::Event;
use super::model::ModelClient;
use super::rig::{Client, block, field, frame};
use crate::frame::FrameType;
use crate::limits::{
    MAX_CONNECTION_WINDOW_BYTES, MAX_CONTROL_BYTES, MAX_OUTPUT_BYTES, MAX_QUEUED_BYTES, MAX_RESERVED_BYTES,
    MAX_STREAM_WINDOW_BYTES, MAX_WAITING_REQUEST_BYTES,
};

/// Seeds in the gate, and steps of each.
const SEEDS: u64 = 200;
const STEPS: u32 = 300;

/// A run of one client.
struct Run {
    client: Client,
    model: ModelClient,
    random: ChaCha8Rng,
    next_stream: u32,
    /// Requests that are served: bytes of the answer so far.
    served: BTreeMap<u32, usize>,
    /// What was sent and is not received: a client may trickle.
    on_the_way: Vec<u8>,
    /// Frames of the server that have not come whole.
    received: Vec<u8>,
    /// DATA that was sent on each stream; `None` when it was ended.
    asked: BTreeMap<u32, Option<usize>>,
    is_honest: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        Run {
            client: Client::new(),
            model: ModelClient::default(),
            random: ChaCha8Rng::seed_from_u64(seed),
            next_stream: 1,
            served: BTreeMap::new(),
            on_the_way: Vec::new(),
            received: Vec::new(),
            asked: BTreeMap::new(),
            is_honest: seed.is_multiple_of(2),
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    fn stream(&mut self) -> u32 {
        let next = self.next_stream;
        match self.is_honest {
            true => 2 * self.below(next / 2 + 1).saturating_sub(1) + 1,
            false => self.below(next + 4),
        }
    }

    /// Of an honest client one that has begun.
    fn begun_stream(&mut self) -> Option<u32> {
        let stream = self.stream();
        (!self.is_honest || stream < self.next_stream).then_some(stream)
    }

    fn send(&mut self, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
        self.on_the_way.extend(frame(kind, flags, stream, payload));
    }

    /// The client does something, as a rule something good.
    fn act(&mut self) {
        match self.below(16) {
            0..4 => {
                let stream = self.next_stream;
                self.next_stream += 2;
                let ends = self.below(2) as u8;
                let block = block(&[(":method", "POST"), (":path", "/a b"), (":authority", "#x=[y]")]);
                self.model.begin(stream);
                self.asked.insert(stream, (ends == 0).then_some(0));
                self.send(FrameType::Headers, 4 | ends, stream, &block);
            }
            4..8 => self.send_data(),
            8 => {
                let Some(stream) = self.begun_stream() else { return };
                self.model.abandon(stream);
                self.asked.insert(stream, None);
                self.send(FrameType::RstStream, 0, stream, &8_u32.to_be_bytes());
            }
            9 | 10 => {
                let bytes = self.below(1 << 20);
                let stream = if self.below(4) == 0 { Some(0) } else { self.begun_stream() };
                let Some(stream) = stream.filter(|_| bytes > 0 || !self.is_honest) else { return };
                self.model.open(stream, bytes);
                self.send(FrameType::WindowUpdate, 0, stream, &bytes.to_be_bytes());
            }
            11 => self.set(),
            13 => self.client.now += Duration::from_secs(7),
            12 | 14 | 15 if self.is_honest => {}
            12 => self.send(FrameType::Ping, 0, 0, b"12345678"),
            14 => self.odd_frame(),
            _ => {
                // A lie: bytes that are no frame.
                let mut bytes = [0; 12];
                self.random.fill_bytes(&mut bytes);
                if self.below(30) == 0 {
                    self.on_the_way.extend(bytes);
                }
            }
        }
    }

    /// DATA; an honest client sends no more than the first window of a stream.
    fn send_data(&mut self) {
        let (length, ends) = (self.below(16_385) as usize, self.below(4) == 0);
        let Some(stream) = self.begun_stream() else { return };
        let before = self.asked.get(&stream).copied().flatten();
        let fits = before.is_some_and(|before| before + length <= MAX_STREAM_WINDOW_BYTES as usize);
        if self.is_honest && !fits {
            return;
        }
        self.asked.insert(stream, before.filter(|_| !ends).map(|before| before + length));
        self.send(FrameType::Data, u8::from(ends), stream, &vec![7; length]);
    }

    fn set(&mut self) {
        let id = if self.is_honest { [1, 4][self.below(2) as usize] } else { self.below(7) as u16 };
        let value = self.below(1 << 18);
        self.model.set(id, value);
        let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        self.send(FrameType::Settings, 0, 0, &payload);
    }

    fn odd_frame(&mut self) {
        let (kind, flags, stream) = (self.below(12), self.below(256) as u8, self.stream());
        let mut payload = vec![0; self.below(40) as usize];
        self.random.fill_bytes(&mut payload);
        let kinds = [FrameType::Data, FrameType::Headers, FrameType::Priority, FrameType::Continuation];
        let kind = kinds.get(kind as usize).copied().unwrap_or(FrameType::Unknown);
        self.send(kind, flags, stream, &payload);
    }

    /// Some of what is on its way arrives, some of what was answered is taken.
    fn carry(&mut self) {
        let count = self.below(20_000) as usize;
        let now = self.client.now;
        if self.client.server.wants_input() && count > 0 {
            let count = count.min(self.on_the_way.len());
            let arrived: Vec<u8> = self.on_the_way.drain(..count).collect();
            self.client.server.receive(&arrived, now);
        }
        self.client.server.on_time(now);
        if self.below(3) > 0 {
            let max = self.below(100_000) as usize;
            self.take(max);
        }
    }

    /// The client takes some of what waits for it, and checks the frames that are whole.
    fn take(&mut self, max: usize) {
        let taken = self.client.take_output(max);
        self.received.extend(taken);
        self.model.check(&mut self.received, self.is_honest);
    }

    /// The server's owner: takes what came, answers when it likes.
    fn serve(&mut self) {
        while let Some(event) = self.client.server.next_event() {
            match event {
                Event::Request { stream, .. } => {
                    assert!(self.served.insert(stream, 0).is_none(), "a stream begins once");
                    *self.client.server.slot(stream).expect("it begins") = stream;
                    if self.below(4) == 0 {
                        let at = self.client.now + Duration::from_secs(5);
                        self.client.server.set_deadline(stream, at).expect("it begins");
                    }
                    let _ = self.client.server.send_headers(stream, &[field(":status", "200")], false);
                }
                Event::Gone { slot, .. } => {
                    self.served.remove(&slot);
                }
                Event::Data { .. } | Event::Sent { .. } => {}
            }
        }
        let streams: Vec<u32> = self.served.keys().copied().collect();
        for stream in streams {
            match self.below(8) {
                0..3 => self.read(stream),
                3 => {
                    let length = self.below(100_000) as usize;
                    let from = self.served[&stream];
                    let data = self.model.bytes(stream, from, length);
                    if self.client.server.send_data(stream, data.into()).is_ok() {
                        self.served.insert(stream, from + length);
                    }
                }
                4 => {
                    if self.client.server.finish(stream, &[field("grpc-status", "0")]).is_ok() {
                        self.model.finished(stream, self.served[&stream]);
                    }
                    self.served.remove(&stream);
                }
                _ => {}
            }
        }
        self.client.server.settle(self.client.now);
    }

    /// Takes a part of what has come, or asks for room for more of it.
    fn read(&mut self, stream: u32) {
        let Ok(come) = self.client.server.unread(stream).map(<[u8]>::len) else { return };
        let part = self.below(come as u32 + 1) as usize;
        match self.below(4) {
            0 => assert!(self.client.server.reserve(stream, come + 1 + part).is_ok()),
            1 => {
                let taken = self.client.server.take_body(stream);
                assert!(taken.is_ok() && self.client.server.keep(stream, part).is_ok());
            }
            _ => assert!(self.client.server.take_data(stream, part).is_ok()),
        }
    }

    /// What a connection may hold for a client.
    fn check(&mut self) {
        let held = self.client.server.held_bytes();
        let most = MAX_CONNECTION_WINDOW_BYTES as usize + MAX_RESERVED_BYTES + MAX_WAITING_REQUEST_BYTES;
        assert!(held.requests <= most, "{} bytes of requests are held", held.requests);
        let queued: usize = self.client.server.streams.values().map(|stream| stream.queued).sum();
        assert_eq!(queued, self.client.server.queued, "what waits is counted");
        // Only what the owner sends on streams that had begun is beyond the limit.
        assert!(queued <= MAX_QUEUED_BYTES + 100_000 * self.client.server.stream_count());
        // What one read may add beyond the limits: an answer to each frame, a frame of data.
        let waiting = self.client.server.output.len();
        assert!(
            waiting <= MAX_OUTPUT_BYTES + MAX_CONTROL_BYTES + 60_000,
            "{waiting} bytes wait for the socket"
        );
        assert!(self.client.server.partial.len() <= 16_384 + 9);
        let served = self.served.len();
        assert!(
            self.client.server.is_closed() || served <= self.client.server.stream_count(),
            "{served} are served"
        );
    }
}

impl Run {
    fn take_all(&mut self) {
        while self.client.server.has_more_output() || !self.client.server.output().is_empty() {
            self.take(usize::MAX);
        }
    }

    /// All arrives, and the client takes all of its answers.
    fn end(&mut self) {
        let now = self.client.now;
        if self.is_honest {
            for stream in std::iter::once(0).chain(self.asked.keys().copied()) {
                self.model.open(stream, 1 << 25);
                self.on_the_way.extend(frame(
                    FrameType::WindowUpdate,
                    0,
                    stream,
                    &(1_u32 << 25).to_be_bytes(),
                ));
            }
        }
        for part in std::mem::take(&mut self.on_the_way).chunks(10_000) {
            self.client.server.receive(part, now);
            self.take_all();
        }
        self.take_all();
        if self.is_honest {
            assert!(!self.client.server.is_closed(), "an honest client is served to the end");
            assert_eq!(self.model.incomplete(), [0; 0], "answers that are not complete");
        }
    }
}

/// Runs one client; how many bytes of answers it was sent, and how many answers were complete.
fn run(seed: u64) -> (usize, usize) {
    let mut run = Run::new(seed);
    for _ in 0..STEPS {
        run.act();
        run.carry();
        run.serve();
        run.check();
        if run.client.server.is_closed() {
            break;
        }
    }
    run.end();
    assert!(run.received.is_empty(), "a frame is not whole");
    run.model.totals()
}

#[test]
fn clients_that_stall_reset_trickle_and_lie_are_survived() {
    let (bytes, answers) = (0..SEEDS).map(run).fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    // The runs are worth their time: most are not over at once.
    assert!(bytes > 10_000_000 && answers > 1_000, "{bytes} bytes of data, {answers} answers");
}

#[test]
fn a_seed_says_everything() {
    assert_eq!(run(7), run(7));
}
