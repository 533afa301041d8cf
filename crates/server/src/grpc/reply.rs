//! The server's half of a call: headers, messages, trailers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::StatusCode;
use http2::{Connection, ErrorCode, Field, StreamGone};

use super::failure::Failure;
use super::handle::{CallWakers, ClientGone, StreamHandle};
use super::head::{AnswerFormat, Trailers};
use super::local::answers::LocalAnswers;
use super::messages::{EncodedMessage, compressed, is_compressed, joined, prefix};
use super::room::AnswerRoom;

/// The way back to a client. Dropping it without an end resets the call.
pub(crate) struct CallReply {
    way: Way,
    has_begun: bool,
    has_ended: bool,
    /// A message whose parts are collected, because it must be compressed as a whole, and the bytes it lacks.
    collected: Option<(EncodedMessage, usize)>,
}

/// Where answers go.
enum Way {
    /// To a stream of a connection.
    Http2 { stream: StreamHandle, format: AnswerFormat },
    /// To a caller in this process, who polls the call, and drops it when it wants no more.
    Local { answers: LocalAnswers, room: AnswerRoom },
}

impl CallReply {
    pub(super) fn new(stream: StreamHandle, format: AnswerFormat) -> CallReply {
        CallReply::over(Way::Http2 { stream, format })
    }

    pub(super) fn local(answers: LocalAnswers, room: AnswerRoom) -> CallReply {
        CallReply::over(Way::Local { answers, room })
    }

    fn over(way: Way) -> CallReply {
        CallReply { way, has_begun: false, has_ended: false, collected: None }
    }

    /// Awaits `work`; drops it if the client goes first.
    pub(crate) async fn unless_gone<T>(&mut self, work: impl Future<Output = T>) -> Result<T, ClientGone> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => match &self.way {
                Way::Http2 { stream, .. } => stream.poll_gone(context).map(Err),
                Way::Local { .. } => Poll::Pending,
            },
        })
        .await
    }

    /// Answers with one message, and ends the call. The whole message is given to the connection, which sends it as the
    /// client's window allows.
    pub(crate) fn answer(mut self, message: EncodedMessage) {
        // Whether the client still listens does not matter any more.
        let _ = self.try_answer(message);
    }

    fn try_answer(&mut self, message: EncodedMessage) -> Result<(), ClientGone> {
        if let Way::Http2 { stream, format } = &self.way
            && format.is_usual()
            && !self.has_begun
        {
            (self.has_begun, self.has_ended) = (true, true);
            return stream
                .with(|connection, stream| connection.answer(stream, &prefix(0, message.len()), message.0));
        }
        self.begin()?;
        self.has_ended = true;
        match &self.way {
            Way::Http2 { stream, format } => {
                let (flag, message) = encoded(format, message);
                stream.with(|connection, stream| {
                    connection.send_parts(stream, &prefix(flag, message.len()), message.0)?;
                    Trailers::Success.with(|trailers| connection.finish(stream, trailers))
                })
            }
            Way::Local { answers, .. } => {
                answers.push(message);
                answers.end(Ok(()));
                Ok(())
            }
        }
    }

    /// Begins a stream of messages: sends the headers of success.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn begin(&mut self) -> Result<(), ClientGone> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        match &self.way {
            Way::Http2 { stream, format } => stream.with(|connection, stream| {
                format.with_head(|head| connection.send_headers(stream, head, false))
            }),
            Way::Local { .. } => Ok(()),
        }
    }

    /// Sends some messages of a stream, as fast as the client takes them.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn send(&mut self, messages: Vec<EncodedMessage>) -> Result<(), ClientGone> {
        self.begin()?;
        match &self.way {
            Way::Http2 { stream, format } => {
                let messages = messages.into_iter().map(|message| encoded(format, message)).collect();
                stream.with(|connection, stream| {
                    joined(messages).into_iter().try_for_each(|data| connection.send_data(stream, data))
                })?;
                poll_fn(|context| stream.poll_sent(context)).await
            }
            Way::Local { answers, .. } => {
                messages.into_iter().for_each(|message| answers.push(message));
                poll_fn(|_| answers.poll_taken()).await;
                Ok(())
            }
        }
    }

    /// Begins one message of so many bytes. They follow with [`CallReply::continue_message`].
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn begin_message(&mut self, length: usize) -> Result<(), ClientGone> {
        self.begin()?;
        match &self.way {
            Way::Http2 { stream, format } if !format.is_gzip || !is_compressed(length) => stream
                .with(|connection, stream| connection.send_parts(stream, &prefix(0, length), Vec::new())),
            Way::Local { answers, .. } if length == 0 => {
                answers.push(EncodedMessage::default());
                Ok(())
            }
            Way::Http2 { .. } | Way::Local { .. } => {
                self.collected = Some((EncodedMessage::default(), length));
                Ok(())
            }
        }
    }

    /// Room for another message, to be awaited before one is made.
    pub(crate) fn room(&self) -> AnswerRoom {
        match &self.way {
            Way::Http2 { stream, .. } => AnswerRoom::of(stream.clone()),
            Way::Local { room, .. } => room.clone(),
        }
    }

    /// Waits until the client takes what it was given.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) async fn sent(&mut self) -> Result<(), ClientGone> {
        match &self.way {
            Way::Http2 { stream, .. } => poll_fn(|context| stream.poll_sent(context)).await,
            Way::Local { .. } => Ok(()),
        }
    }

    /// Gives the next bytes of a message to the connection, which sends them as the client's window allows.
    ///
    /// # Errors
    /// When the client has gone.
    pub(crate) fn continue_message(&mut self, part: Bytes) -> Result<(), ClientGone> {
        let Some((mut message, missing)) = self.collected.take() else {
            return match &self.way {
                Way::Http2 { stream, .. } => {
                    stream.with(|connection, stream| connection.send_data(stream, part))
                }
                Way::Local { .. } => Ok(()),
            };
        };
        let missing = missing.saturating_sub(part.len());
        message.0.push(part);
        if missing > 0 {
            self.collected = Some((message, missing));
            return Ok(());
        }
        match &self.way {
            Way::Http2 { stream, format } => {
                let (flag, message) = encoded(format, message);
                let prefix = prefix(flag, message.len());
                stream.with(|connection, stream| connection.send_parts(stream, &prefix, message.0))
            }
            Way::Local { answers, .. } => {
                answers.push(message);
                Ok(())
            }
        }
    }

    /// Ends the call.
    pub(crate) fn finish(mut self, result: Result<(), &Failure>) {
        if !self.has_begun {
            return self.end_at_once(StatusCode::OK, result, |connection, stream, fields| {
                connection.send_headers(stream, fields, true)
            });
        }
        self.has_ended = true;
        match &self.way {
            Way::Http2 { stream, .. } => {
                let trailers = Trailers::of(result);
                // As above: a client that is gone does not need to hear it.
                let _ = stream
                    .with(|connection, stream| trailers.with(|trailers| connection.finish(stream, trailers)));
            }
            Way::Local { answers, .. } => answers.end(result.map_err(Failure::clone)),
        }
    }

    /// Ends a call for which nothing was done, with a failure that says so. Before the answer has begun, the client's
    /// library learns that it may send the request again, over another connection.
    pub(crate) fn not_taken(mut self, failure: &Failure) {
        match &self.way {
            Way::Http2 { stream, .. } if !self.has_begun => {
                self.has_ended = true;
                stream.refuse();
            }
            Way::Http2 { .. } | Way::Local { .. } => self.finish(Err(failure)),
        }
    }

    /// Refuses a call whose head is wrong, with another HTTP status than success.
    pub(super) fn refuse(mut self, status: StatusCode, failure: &Failure) {
        self.end_at_once(status, Err(failure), |connection, stream, fields| {
            connection.refuse(stream, fields)
        });
    }

    /// Answers with headers that are trailers too.
    fn end_at_once(
        &mut self,
        status: StatusCode,
        result: Result<(), &Failure>,
        send: impl FnOnce(&mut Connection<CallWakers>, u32, &[Field<'_>]) -> Result<(), StreamGone>,
    ) {
        self.has_ended = true;
        match &self.way {
            Way::Http2 { stream, format } => {
                let trailers = Trailers::of(result);
                let _ = stream.with(|connection, stream| {
                    format.with_end(status, &trailers, |fields| send(connection, stream, fields))
                });
            }
            Way::Local { answers, .. } => answers.end(result.map_err(Failure::clone)),
        }
    }
}

/// A message as it travels, and the flag before it.
fn encoded(format: &AnswerFormat, message: EncodedMessage) -> (u8, EncodedMessage) {
    match format.is_gzip && is_compressed(message.len()) {
        true => (1, compressed(&message)),
        false => (0, message),
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        if let Way::Http2 { stream, .. } = &self.way
            && !self.has_ended
        {
            stream.reset(ErrorCode::Cancel);
        }
    }
}
