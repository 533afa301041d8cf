//! The cluster that is copied, asked as any client asks.

use std::time::Duration;

use api::stelepb::{BackupBaseRequest, BackupBaseResponse, BackupEntriesRequest, BackupEntriesResponse};
use api::{Code, methods};
use archive::{BackupSource, BasePart, BaseStream, SourceError};
use tokio::time::Instant;

use crate::client::{CallError, Client, MessageStream, until};

/// Time that one call may take, or the begin of a base: a member that hangs is left after it.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster behind a client.
pub(super) struct ClusterSource {
    client: Client,
}

/// A base that is being received.
pub(super) struct ReceivedBase {
    stream: MessageStream,
}

impl ClusterSource {
    pub(super) fn new(client: Client) -> ClusterSource {
        ClusterSource { client }
    }
}

impl BackupSource for ClusterSource {
    type Base = ReceivedBase;

    async fn entries(&self, from: u64) -> Result<BackupEntriesResponse, SourceError> {
        let request = BackupEntriesRequest { from, max_bytes: 0 };
        let deadline = Some(Instant::now() + CALL_TIMEOUT);
        match self.client.read(methods::BACKUP_ENTRIES, &request, deadline).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                if error == CallError::Deadline {
                    self.client.leave().await;
                }
                Err(source_error(&error))
            }
        }
    }

    async fn base(&self) -> Result<ReceivedBase, SourceError> {
        // To begin may not take longer; the call itself has no deadline, which would end it after so long.
        let begun = self.client.stream(methods::BACKUP_BASE, None);
        let begun = until(Some(Instant::now() + CALL_TIMEOUT), begun).await;
        let mut stream = begun.map_err(|error| source_error(&error))?;
        stream.send(&BackupBaseRequest {}, true).map_err(|error| source_error(&error))?;
        Ok(ReceivedBase { stream })
    }
}

impl BaseStream for ReceivedBase {
    async fn next(&mut self) -> Result<Option<BasePart>, SourceError> {
        // A base takes as long as it takes; a connection that is lost is noticed by its keep-alive.
        let part: Option<BackupBaseResponse> =
            self.stream.next().await.map_err(|error| source_error(&error))?;
        Ok(part.map(|part| match part.point {
            Some(point) => BasePart::Begin(point, part.file_bytes),
            None => BasePart::Bytes(part.blob),
        }))
    }
}

fn source_error(error: &CallError) -> SourceError {
    let why = error.to_string();
    if error.is_code(Code::OutOfRange) {
        SourceError::Gone(error.reason())
    } else if error.is_code(Code::Unimplemented) {
        SourceError::Final(format!("{why}: this cluster has no continuous backup"))
    } else if error.is_passing() || error.is_code(Code::ResourceExhausted) {
        SourceError::Passing(why)
    } else {
        SourceError::Final(why)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::client::tests::options;

    #[tokio::test]
    async fn a_base_takes_as_long_as_it_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let asked = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.expect("a client");
            let mut connection = h2::server::handshake(socket).await.expect("it speaks HTTP/2");
            let (request, _answer) = connection.accept().await.expect("a call").expect("it is whole");
            (request.uri().path().to_owned(), request.headers().contains_key("grpc-timeout"))
        });
        let client = Client::open(options(&address)).await.expect("no token is needed");
        let _base = ClusterSource::new(client).base().await.expect("it has begun");
        assert_eq!(asked.await.expect("it answers"), (methods::BACKUP_BASE.to_owned(), false));
    }
}
