//! One TCP connection between two members: dialling, reading frames, polling, and replacing an older connection.

mod dial;
mod frame_reader;
mod socket;
mod takeover;
mod tls;
mod waker;

pub(crate) use dial::dial;
pub use frame_reader::FrameReader;
pub(crate) use socket::PeerSocket;
pub(crate) use takeover::CurrentConnection;
pub(crate) use tls::TlsSession;
pub(crate) use waker::{PollWaker, is_pause};
