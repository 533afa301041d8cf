//! Endpoints from DNS: `--discovery-srv`.
//!
//! The SRV records of two names count, as in etcdctl: `_etcd-client-ssl._tcp.DOMAIN` for members with TLS, then
//! `_etcd-client._tcp.DOMAIN` for those without, each with `-NAME` behind the service if `--discovery-srv-name=NAME` is
//! given:
//!
//! ```text
//! _etcd-client-ssl._tcp.example.com   SRV  0 0 2379 infra1.example.com.    ->  https://infra1.example.com.:2379
//! _etcd-client._tcp.example.com       SRV  0 0 2379 infra2.example.com.    ->  http://infra2.example.com.:2379
//! ```
//!
//! With `--insecure-discovery=false` certificates must be good for the domain, not for the host: with changed records
//! alone, no attacker can put another server in place of a member. By default they must be good for the host, as in
//! etcdctl.

use std::str::FromStr;

use domain::base::iana::Rtype;
use domain::base::name::Name;
use domain::rdata::Srv;
use domain::resolv::StubResolver;

/// The services that are looked up, and the scheme of their endpoints.
const SERVICES: [(&str, &str); 2] = [("etcd-client-ssl", "https"), ("etcd-client", "http")];

/// The endpoints that the records of a domain name, by the resolver that the system configures.
///
/// # Errors
///
/// Neither name has records.
pub(crate) async fn endpoints(domain: &str, service_name: &str) -> Result<Vec<String>, String> {
    endpoints_at(&StubResolver::new(), domain, service_name).await
}

async fn endpoints_at(
    resolver: &StubResolver,
    domain: &str,
    service_name: &str,
) -> Result<Vec<String>, String> {
    let (mut endpoints, mut errors) = (Vec::new(), Vec::new());
    for (service, scheme) in SERVICES {
        let suffix = if service_name.is_empty() { String::new() } else { format!("-{service_name}") };
        let name = format!("_{service}{suffix}._tcp.{domain}");
        match targets(resolver, &name).await {
            Ok(found) => endpoints.extend(found.iter().map(|target| format!("{scheme}://{target}"))),
            Err(why) => errors.push(format!("lookup {name}: {why}")),
        }
    }
    if endpoints.is_empty() {
        Err(format!("dns lookup errors: {}", errors.join(" and ")))
    } else {
        Ok(endpoints)
    }
}

/// Host and port of each record of a name, in the order of their priorities, hosts and ports.
async fn targets(resolver: &StubResolver, name: &str) -> Result<Vec<String>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let question = Name::<Vec<u8>>::from_str(name).map_err(|error| text(&error))?;
    let answer = resolver.query((question, Rtype::SRV)).await.map_err(|error| text(&error))?;
    let message = answer.into_message();
    let mut found = Vec::new();
    for record in message.answer().map_err(|error| text(&error))?.limit_to_in::<Srv<_>>() {
        let record = record.map_err(|error| text(&error))?;
        let data = record.data();
        // Go's names end with a dot, and so do etcdctl's endpoints.
        let host = format!("{}.", data.target().to_string().trim_end_matches('.'));
        found.push((data.priority(), host, data.port()));
    }
    if found.is_empty() {
        return Err("no such host".to_owned());
    }
    found.sort();
    Ok(found.into_iter().map(|(_, host, port)| format!("{host}:{port}")).collect())
}

#[cfg(test)]
mod tests {
    //! Endpoints are found by a name server that the test starts.

    use std::net::Ipv4Addr;

    use domain::base::iana::Rcode;
    use domain::base::{Message, MessageBuilder};
    use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};
    use tokio::net::UdpSocket;

    use super::*;

    /// A record: the name that has it, its priority, the host and the port that it names.
    type TestRecord = (&'static str, u16, &'static str, u16);

    const TLS: &str = "_etcd-client-ssl._tcp.example.com";
    const PLAIN: &str = "_etcd-client._tcp.example.com";

    /// What is found by a resolver that asks a server with these records.
    async fn found(records: &'static [TestRecord], service_name: &str) -> Result<Vec<String>, String> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
                let query = Message::from_octets(&bytes[..count]).expect("a message");
                let question = query.first_question().expect("a question");
                let asked = question.qname().to_string();
                let own: Vec<_> = records.iter().filter(|record| record.0 == asked).collect();
                let rcode = if own.is_empty() { Rcode::NXDOMAIN } else { Rcode::NOERROR };
                let mut answer = MessageBuilder::new_vec().start_answer(&query, rcode).expect("room");
                for (_, priority, host, port) in own {
                    let host = Name::<Vec<u8>>::from_str(host).expect("a name");
                    answer.push((question.qname(), 60, Srv::new(*priority, 0, *port, host))).expect("room");
                }
                socket.send_to(&answer.finish(), from).await.expect("it is sent");
            }
        });
        let mut conf = ResolvConf::new();
        conf.servers = vec![ServerConf::new(address, Transport::UdpTcp)];
        conf.finalize();
        endpoints_at(&StubResolver::from_conf(conf), "example.com", service_name).await
    }

    #[tokio::test]
    async fn records_become_endpoints_with_tls_first() {
        let records =
            &[(PLAIN, 0, "c.example.com", 1), (TLS, 2, "b.example.com", 2), (TLS, 1, "d.example.com", 3)];
        let expected = ["https://d.example.com.:3", "https://b.example.com.:2", "http://c.example.com.:1"];
        assert_eq!(found(records, "").await, Ok(expected.map(str::to_owned).to_vec()));
    }

    #[tokio::test]
    async fn a_name_of_the_service_has_records_of_its_own() {
        let records =
            &[("_etcd-client-blue._tcp.example.com", 0, "a.example.com", 1), (PLAIN, 0, "b.example.com", 2)];
        assert_eq!(found(records, "blue").await, Ok(vec!["http://a.example.com.:1".to_owned()]));
    }

    #[tokio::test]
    async fn without_records_both_errors_are_told() {
        let error = found(&[], "blue").await.expect_err("there are none");
        assert!(
            error.starts_with("dns lookup errors: lookup _etcd-client-ssl-blue._tcp.example.com"),
            "{error}"
        );
        assert!(error.contains(" and lookup _etcd-client-blue._tcp.example.com"), "{error}");
    }
}
