//! Clients that stall, reset, trickle and lie, chosen by a seed: no panic, bounded memory, and answers in order.
use std::collections::BTreeMap;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::super::Event;
use super::rig::{Client, block, field, frame, frames};
use crate::frame::FrameType;
use crate::limits::{MAX_CONNECTION_WINDOW_BYTES, MAX_CONTROL_BYTES, MAX_OUTPUT_BYTES};

/// Seeds in the gate, and steps of each.
const SEEDS: u64 = 200;
const STEPS: u32 = 300;

/// A run of one client.
struct Run {
    client: Client,
    random: ChaCha8Rng,
    next_stream: u32,
    /// Requests that are served: bytes that were taken.
    served: BTreeMap<u32, usize>,
    /// What was sent and is not received: a client may trickle.
    on_the_way: Vec<u8>,
    received: Vec<u8>,
}

impl Run {
    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    fn stream(&mut self) -> u32 {
        let next = self.next_stream;
        self.below(next + 4)
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
                self.send(FrameType::Headers, 4 | ends, stream, &block);
            }
            4..8 => {
                let (stream, length, flags) = (self.stream(), self.below(16_385), self.below(2) as u8);
                self.send(FrameType::Data, flags, stream, &vec![7; length as usize]);
            }
            8 => {
                let stream = self.stream();
                self.send(FrameType::RstStream, 0, stream, &8_u32.to_be_bytes());
            }
            9 | 10 => {
                let (stream, bytes) = (self.stream(), self.below(1 << 20));
                self.send(FrameType::WindowUpdate, 0, stream, &bytes.to_be_bytes());
            }
            11 => {
                let (id, value) = (self.below(7), self.below(1 << 18));
                let payload = [&(id as u16).to_be_bytes()[..], &value.to_be_bytes()].concat();
                self.send(FrameType::Settings, 0, 0, &payload);
            }
            12 => self.send(FrameType::Ping, 0, 0, b"12345678"),
            13 => self.client.now += Duration::from_secs(7),
            14 => {
                let (kind, flags, stream) = (self.below(12), self.below(256) as u8, self.stream());
                let length = self.below(40) as usize;
                let mut payload = vec![0; length];
                self.random.fill_bytes(&mut payload);
                let kinds =
                    [FrameType::Data, FrameType::Headers, FrameType::Priority, FrameType::Continuation];
                let kind = kinds.get(kind as usize).copied().unwrap_or(FrameType::Unknown);
                self.send(kind, flags, stream, &payload);
            }
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
            let taken = self.client.take_output(max);
            self.received.extend(taken);
        }
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
                Event::Gone { slot } => {
                    self.served.remove(&slot);
                }
                Event::Data { .. } | Event::Sent { .. } => {}
            }
        }
        let streams: Vec<u32> = self.served.keys().copied().collect();
        for stream in streams {
            match self.below(8) {
                0..3 => drop(self.client.server.take_data(stream)),
                3 => {
                    let length = self.below(100_000) as usize;
                    let _ = self.client.server.send_data(stream, vec![1; length].into());
                }
                4 => {
                    let _ = self.client.server.finish(stream, &[field("grpc-status", "0")]);
                    self.served.remove(&stream);
                }
                _ => {}
            }
        }
    }

    /// What a connection may hold for a client.
    fn check(&mut self) {
        let unread: usize = self.client.server.streams.values().map(|stream| stream.unread.len()).sum();
        assert!(unread <= MAX_CONNECTION_WINDOW_BYTES as usize, "{unread} bytes are unread");
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

/// Runs one client; what it received.
fn run(seed: u64) -> Vec<u8> {
    let mut run = Run {
        client: Client::new(),
        random: ChaCha8Rng::seed_from_u64(seed),
        next_stream: 1,
        served: BTreeMap::new(),
        on_the_way: Vec::new(),
        received: Vec::new(),
    };
    for _ in 0..STEPS {
        run.act();
        run.carry();
        run.serve();
        run.check();
        if run.client.server.is_closed() {
            break;
        }
    }
    let rest = run.client.take_output(usize::MAX);
    run.received.extend(rest);
    while !run.client.server.output().is_empty() {
        let rest = run.client.take_output(usize::MAX);
        run.received.extend(rest);
    }
    // Whole frames, each of a stream that had begun.
    let last = run.next_stream;
    frames(&run.received).iter().for_each(|frame| assert!(frame.stream < last + 4));
    run.received
}

#[test]
fn clients_that_stall_reset_trickle_and_lie_are_survived() {
    for seed in 0..SEEDS {
        run(seed);
    }
}

#[test]
fn a_seed_says_everything() {
    assert_eq!(run(7), run(7));
}
