//! The metrics of a member: one request over HTTP/1.0, whose answer ends with the connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::endpoint::{Address, Endpoint};
use super::options::ClientOptions;
use super::socket::connect;

/// Bytes of metrics that are read at most: etcd's are about 100 KB.
const MAX_METRICS_BYTES: u64 = 16 << 20;

/// Time that a member has to send them.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The lines of `/metrics`.
#[derive(Default)]
pub(crate) struct Metrics {
    lines: Vec<(String, f64)>,
}

impl Metrics {
    /// Asks a member.
    ///
    /// # Errors
    ///
    /// What went wrong, as text.
    pub(crate) async fn fetch(endpoint: &Endpoint, options: &ClientOptions) -> Result<Self, String> {
        let Address::Tcp(address) = &endpoint.address else {
            return Err(format!("{} has no port for metrics", endpoint.name));
        };
        let exchange = async {
            let mut socket = connect(endpoint, options).await.map_err(std::io::Error::other)?;
            let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
            socket.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            socket.take(MAX_METRICS_BYTES).read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(Ok(answer)) => String::from_utf8_lossy(&answer).into_owned(),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("no answer in time".to_owned()),
        };
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        if head.split(' ').nth(1).is_none_or(|code| code != "200") {
            return Err("the endpoint has no metrics".to_owned());
        }
        Ok(Self::read(body))
    }

    /// Reads the text format.
    pub(crate) fn read(text: &str) -> Self {
        let line = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self { lines: text.lines().filter(|text| !text.starts_with('#')).filter_map(line).collect() }
    }

    /// The sum of all lines of a metric whose labels contain a text.
    pub(crate) fn sum(&self, name: &str, label: &str) -> Option<f64> {
        let mut values =
            self.of(name).filter(|(labels, _)| labels.contains(label)).map(|(_, value)| value).peekable();
        values.peek()?;
        Some(values.sum())
    }

    /// The lines of a metric: labels and values.
    pub(crate) fn of(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        self.lines.iter().filter_map(move |(key, value)| {
            let labels = key.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_name_are_summed_and_others_are_not() {
        let text = "# HELP a\na{x=\"1\",y=\"q\"} 2\na{x=\"2\"} 3\nab 7\nb 1e3\n";
        let metrics = Metrics::read(text);
        assert_eq!(metrics.sum("a", ""), Some(5.0));
        assert_eq!(metrics.sum("a", "x=\"1\""), Some(2.0));
        assert_eq!(metrics.sum("b", ""), Some(1000.0));
        assert_eq!(metrics.sum("c", ""), None);
    }
}
