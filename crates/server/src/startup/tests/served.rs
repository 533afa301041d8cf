//! A member on this thread, which is its RPC worker, and a client whose calls allocate nothing.
//!
//! The client speaks HTTP/2 with bytes that it has made before: its second request of a kind has the header block of
//! all that follow. It reads answers into one buffer and looks at no more of them than it needs to know their ends.

use std::sync::Arc;

use bytes::Bytes;
use http2::{Field, HpackEncoder, PREFACE};
use member::MemberConfig;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::super::describe;
use crate::auth::Source;
use crate::config::{Parsed, parse};
use crate::grpc::{self, ConnectionSettings};
use crate::live_settings::{LiveSettings, ReloadRequests};
use crate::metrics::Metrics;
use crate::raft_loop::{Edge, Handoff};
use crate::rpc::Dispatch;

/// Bytes of a frame before its payload.
const HEAD_BYTES: usize = 9;

/// Types of frames, and flags.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A member alone has no peers, and nothing to tell an operator that a test would read.
struct NoPeers;

impl Edge for NoPeers {
    fn removed(&self) {}
    fn send(&self, _: u64, _: member::MessageClass, _: &[Bytes]) {}
    fn stream(&self, _: Box<member::snapshot::Outgoing>) {}
    fn follow_members(&self, _: &member::Membership) {}
    fn disconnect(&self, _: u64) {}
    fn notice(&self, _: &member::Notice) {}
}

/// A member that serves one connection. To be made and used on a runtime of one thread.
pub(super) struct ServedMember {
    pub(super) client: Client,
    handoff: Handoff,
    stop: CancellationToken,
    _folder: TempDir,
}

impl ServedMember {
    pub(super) async fn start() -> ServedMember {
        let folder = TempDir::new().expect("a folder");
        let line = ["stele".to_owned(), format!("--data-dir={}", folder.path().join("data").display())];
        let Ok(Parsed::Run(config)) = parse(line.into_iter().map(Into::into), std::iter::empty()) else {
            panic!("good flags");
        };
        let metrics =
            Arc::new(Metrics::new(&config.feature_gates, config.observing.extensive_metrics).expect("names"));
        let handoff = Handoff::new(1, metrics.clone());
        handoff.serve_worker(0);
        let disk: Arc<dyn log::Disk> = Arc::new(log::RealDisk);
        let options = log::Options::new(config.data_dir.clone());
        let member_config: MemberConfig = describe::member_config(&config, 0);
        let run = member_config.process_run;
        let opened = member::open(&disk, &options, member_config, &member::Sequential).expect("it opens");
        let live = Arc::new(LiveSettings::new(&config));
        let max_concurrent_streams = live.max_concurrent_streams();
        let (reloads, _asks) = ReloadRequests::new();
        let parts = (run, &live, reloads, None);
        let node = Arc::new(describe::node(&config, &opened, &handoff, &metrics, parts, None));
        handoff.start(opened.member, NoPeers, metrics, live).expect("threads");
        let dispatch = Dispatch::new(node);
        let settings = ConnectionSettings {
            memory: Default::default(),
            max_concurrent_streams,
            keepalive: config.grpc_keepalive.clone(),
        };
        let (client, server) = tokio::io::duplex(1 << 16);
        let stop = CancellationToken::new();
        let service = dispatch.for_connection(1, Source::default(), None);
        let stopping = stop.clone();
        tokio::spawn(async move { grpc::serve(server, service, None, &settings, stopping).await });
        ServedMember { client: Client::greet(client).await, handoff, stop, _folder: folder }
    }
}

impl Drop for ServedMember {
    fn drop(&mut self) {
        self.handoff.submit(member::Input::Stop);
        self.stop.cancel();
    }
}

/// See the module.
pub(super) struct Client {
    io: DuplexStream,
    headers: HpackEncoder,
    next_stream: u32,
    buffer: Vec<u8>,
}

/// A request whose bytes are made once: the frames of its head and its message. The stream is written into both heads.
pub(super) struct MadeRequest {
    bytes: Vec<u8>,
    data_at: usize,
}

impl Client {
    async fn greet(mut io: DuplexStream) -> Client {
        let settings = frame_head(0, SETTINGS, 0);
        // The window of the connection is opened for all that follows.
        let window = [&frame_head(4, WINDOW_UPDATE, 0)[..], &(1_u32 << 30).to_be_bytes()].concat();
        io.write_all(&[&PREFACE[..], &settings, &window].concat()).await.expect("the server reads");
        Client { io, headers: HpackEncoder::for_requests(), next_stream: 1, buffer: vec![0; 1 << 16] }
    }

    /// A request of a method, of which the server has seen the header block twice before.
    pub(super) async fn request(&mut self, path: &str, message: &[u8]) -> MadeRequest {
        for _ in 0..2 {
            let mut first = self.make(path, message);
            self.call(&mut first).await;
        }
        self.make(path, message)
    }

    fn make(&mut self, path: &str, message: &[u8]) -> MadeRequest {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "127.0.0.1:2379"),
            ("content-type", "application/grpc"),
            ("user-agent", "grpc-go/1.83.0"),
            ("te", "trailers"),
        ];
        let fields = fields.map(|(name, value)| Field { name, value: value.as_bytes(), is_usual: true });
        let mut block = Vec::new();
        self.headers.encode(&fields, &mut block);
        let mut bytes = frame_head(block.len(), HEADERS, END_HEADERS).to_vec();
        bytes.extend(block);
        let data_at = bytes.len();
        bytes.extend(frame_head(5 + message.len(), DATA, END_STREAM));
        bytes.push(0);
        bytes.extend((message.len() as u32).to_be_bytes());
        bytes.extend(message);
        MadeRequest { bytes, data_at }
    }

    /// Makes a call, and returns how many bytes of messages its answer had.
    ///
    /// # Panics
    /// When the call fails.
    pub(super) async fn call(&mut self, request: &mut MadeRequest) -> usize {
        let stream = self.next_stream;
        self.next_stream += 2;
        for at in [0, request.data_at] {
            request.bytes[at + 5..at + HEAD_BYTES].copy_from_slice(&stream.to_be_bytes());
        }
        self.io.write_all(&request.bytes).await.expect("the server reads");
        let (mut filled, mut answered) = (0, 0);
        loop {
            let read = self.io.read(&mut self.buffer[filled..]).await.expect("the server writes");
            assert!(read > 0, "the connection was closed");
            filled += read;
            let mut rest = &self.buffer[..filled];
            while let Some((head, payload_and_rest)) = rest.split_first_chunk::<HEAD_BYTES>() {
                let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                let Some(after) = payload_and_rest.get(length..) else { break };
                rest = after;
                match (head[3], head[8..] == stream.to_be_bytes()[3..]) {
                    (DATA, true) => answered += length,
                    (HEADERS, true) if head[4] & END_STREAM != 0 => {
                        assert!(answered > 0, "the call failed: it has trailers and no message");
                        return answered;
                    }
                    (RST_STREAM, true) => panic!("the call was reset"),
                    _ => {}
                }
            }
            let left = rest.len();
            self.buffer.copy_within(filled - left..filled, 0);
            filled = left;
        }
    }
}

/// The head of a frame of stream 0.
fn frame_head(length: usize, kind: u8, flags: u8) -> [u8; HEAD_BYTES] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    [a, b, c, kind, flags, 0, 0, 0, 0]
}
