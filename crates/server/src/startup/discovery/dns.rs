//! How a member without data learns the first members of its cluster from DNS (`--discovery-srv`).
//!
//! The SRV records of two names count, as in etcd: `_etcd-server-ssl._tcp.DOMAIN` for members with TLS and
//! `_etcd-server._tcp.DOMAIN` for those without, each with `-NAME` behind the service if `--discovery-srv-name=NAME` is
//! given. The records name hosts and ports, and no members: the record that leads to an advertised peer URL of this
//! member gets its `--name`, the others get numbers. The result is used instead of `--initial-cluster`.
//!
//! ```text
//! --name m2 --initial-advertise-peer-urls http://10.0.0.2:2380 --discovery-srv example.com
//!   _etcd-server._tcp.example.com  SRV  0 0 2380 infra1.example.com     infra1 is 10.0.0.1
//!                                  SRV  0 0 2380 infra2.example.com     infra2 is 10.0.0.2: this member
//!   -> 0=http://infra1.example.com:2380,m2=http://infra2.example.com:2380
//! ```
//!
//! The peer URLs that the cluster is made of are those with the hosts of the records, so all members must find the same
//! records.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;

use domain::base::iana::Rtype;
use domain::base::name::Name;
use domain::rdata::Srv;
use domain::resolv::StubResolver;

use crate::config::{SrvDiscovery, Url, parse_initial_cluster};

/// The services that are looked up, and the scheme of their members' URLs.
const SERVICES: [(&str, &str); 2] = [("etcd-server-ssl", "https"), ("etcd-server", "http")];

/// The members that the records name, by name. The resolver is the one that the system configures.
///
/// # Errors
/// There are no records, or this member is not among them.
pub(super) async fn look_up(
    srv: &SrvDiscovery,
    own_name: &str,
    advertised: &[Url],
) -> Result<Vec<(String, Vec<Url>)>, String> {
    look_up_at(&StubResolver::new(), srv, own_name, advertised).await
}

/// The members that the records of both services name, by name.
async fn look_up_at(
    resolver: &StubResolver,
    srv: &SrvDiscovery,
    own_name: &str,
    advertised: &[Url],
) -> Result<Vec<(String, Vec<Url>)>, String> {
    let mut own = BTreeMap::new();
    for url in advertised {
        own.insert(resolve(url.address()).await?, url);
    }
    let (mut members, mut errors) = (Vec::new(), Vec::new());
    for (service, scheme) in SERVICES {
        let service = match srv.service_name.as_str() {
            "" => service.to_owned(),
            suffix => format!("{service}-{suffix}"),
        };
        match members_of(resolver, (&service, scheme), &srv.domain, (own_name, &own)).await {
            Ok(found) => members.extend(found),
            Err(error) => {
                errors.push(format!("error querying DNS SRV records for _{service} {error}"));
            }
        }
    }
    if members.is_empty() {
        return Err(errors.join("\n"));
    }
    for error in errors {
        tracing::info!(error, "a service of --discovery-srv names no member");
    }
    let cluster = members.join(",");
    tracing::info!(initial_cluster = cluster, discovery_srv = srv.domain, "got the first members from DNS");
    let members = parse_initial_cluster(&cluster)?;
    if !members.iter().any(|(name, _)| name == own_name) {
        return Err(format!("cannot find local etcd member {own_name:?} in SRV records"));
    }
    Ok(members)
}

/// The members of one service, as parts of `--initial-cluster`. A record whose host has no address is left out, as in
/// etcd; an error is returned if none is left.
async fn members_of(
    resolver: &StubResolver,
    (service, scheme): (&str, &str),
    domain: &str,
    (own_name, own): (&str, &BTreeMap<SocketAddr, &Url>),
) -> Result<Vec<String>, String> {
    let mut last = format!("on {domain}: no such record");
    let (mut members, mut numbered) = (Vec::new(), 0);
    for (host, port) in records(resolver, &format!("_{service}._tcp.{domain}")).await? {
        let address = format!("{host}:{port}");
        let found = match resolve(&address).await {
            Ok(found) => own.get(&found),
            Err(error) => {
                last = error;
                continue;
            }
        };
        let name = match found {
            Some(url) if !url.as_str().starts_with(&format!("{scheme}:")) => {
                last = format!(
                    "bootstrap at {scheme}://{address} from DNS for {service} has scheme mismatch with expected peer {url}"
                );
                continue;
            }
            Some(_) => own_name.to_owned(),
            None => {
                numbered += 1;
                (numbered - 1).to_string()
            }
        };
        members.push(format!("{name}={scheme}://{address}"));
    }
    if members.is_empty() { Err(last) } else { Ok(members) }
}

/// Host and port of each SRV record, in the order of their priorities, hosts and ports.
async fn records(resolver: &StubResolver, name: &str) -> Result<Vec<(String, u16)>, String> {
    let text = |error: &dyn std::fmt::Display| format!("on {name}: {error}");
    let question = Name::<Vec<u8>>::from_str(name).map_err(|error| text(&error))?;
    let answer = resolver.query((question, Rtype::SRV)).await.map_err(|error| text(&error))?;
    let message = answer.into_message();
    let answers = message.answer().map_err(|error| text(&error))?;
    let mut records = Vec::new();
    for record in answers.limit_to_in::<Srv<_>>() {
        let record = record.map_err(|error| text(&error))?;
        let data = record.data();
        let host = data.target().to_string();
        records.push((data.priority(), host.trim_end_matches('.').to_owned(), data.port()));
    }
    records.sort();
    Ok(records.into_iter().map(|(_, host, port)| (host, port)).collect())
}

/// The first address of `host:port`, as the system resolves it.
async fn resolve(address: &str) -> Result<SocketAddr, String> {
    let found = tokio::net::lookup_host(address).await.map_err(|error| format!("{address}: {error}"))?;
    // Names such as localhost have several, in no fixed order.
    found.min().ok_or_else(|| format!("{address}: it has no address"))
}

#[cfg(test)]
mod tests {
    //! Members are found by a name server that the test starts. Its hosts are names of this machine.

    use std::net::Ipv4Addr;

    use domain::base::iana::Rcode;
    use domain::base::{Message, MessageBuilder};
    use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};
    use tokio::net::UdpSocket;

    use super::*;

    /// A record: the name that has it, the port and the host that it names.
    type TestRecord = (&'static str, u16, &'static str);

    /// Answers questions for SRV records, and returns a resolver that asks it.
    async fn name_server(records: &'static [TestRecord]) -> StubResolver {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        tokio::spawn(async move {
            let mut bytes = [0; 4096];
            while let Ok((count, from)) = socket.recv_from(&mut bytes).await {
                let query = Message::from_octets(&bytes[..count]).expect("a message");
                let question = query.first_question().expect("a question");
                let asked = question.qname().to_string();
                let found: Vec<_> = records.iter().filter(|(name, _, _)| *name == asked).collect();
                let rcode = if found.is_empty() { Rcode::NXDOMAIN } else { Rcode::NOERROR };
                let mut answer = MessageBuilder::new_vec().start_answer(&query, rcode).expect("room");
                for (_, port, host) in found {
                    let host = Name::<Vec<u8>>::from_str(host).expect("a name");
                    answer.push((question.qname(), 60, Srv::new(0, 0, *port, host))).expect("room");
                }
                socket.send_to(&answer.finish(), from).await.expect("it is sent");
            }
        });
        let mut conf = ResolvConf::new();
        conf.servers = vec![ServerConf::new(address, Transport::UdpTcp)];
        conf.finalize();
        StubResolver::from_conf(conf)
    }

    async fn found(
        records: &'static [TestRecord],
        service_name: &str,
        advertised: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let resolver = name_server(records).await;
        let srv = SrvDiscovery { domain: "example.com".to_owned(), service_name: service_name.to_owned() };
        let members = look_up_at(&resolver, &srv, "m2", &[Url::parse(advertised).expect("a URL")]).await?;
        let text = |(name, urls): (String, Vec<Url>)| (name, crate::config::join_urls(&urls));
        Ok(members.into_iter().map(text).collect())
    }

    fn members(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, url)| (name.to_string(), url.to_string())).collect()
    }

    const PLAIN: &str = "_etcd-server._tcp.example.com";

    #[tokio::test]
    async fn a_member_finds_the_others_and_itself() {
        let records = &[(PLAIN, 3, "localhost"), (PLAIN, 1, "localhost"), (PLAIN, 2, "localhost")];
        let expected = members(&[
            ("0", "http://localhost:1"),
            ("1", "http://localhost:3"),
            ("m2", "http://localhost:2"),
        ]);
        assert_eq!(found(records, "", "http://localhost:2").await, Ok(expected));
    }

    #[tokio::test]
    async fn a_name_of_the_service_and_tls_have_records_of_their_own() {
        let records = &[
            ("_etcd-server-blue._tcp.example.com", 2, "localhost"),
            ("_etcd-server-ssl-blue._tcp.example.com", 3, "localhost"),
            (PLAIN, 9, "localhost"),
        ];
        let expected = members(&[("0", "https://localhost:3"), ("m2", "http://localhost:2")]);
        assert_eq!(found(records, "blue", "http://localhost:2").await, Ok(expected));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_told_in_etcds_words() {
        let missing = found(&[(PLAIN, 1, "localhost")], "", "http://localhost:2").await;
        assert_eq!(missing, Err("cannot find local etcd member \"m2\" in SRV records".to_owned()));
        let none = found(&[], "", "http://localhost:2").await.expect_err("there are no records");
        assert!(none.starts_with("error querying DNS SRV records for _etcd-server-ssl "), "{none}");
        assert!(none.contains("\nerror querying DNS SRV records for _etcd-server "), "{none}");
        let scheme =
            found(&[(PLAIN, 2, "localhost")], "", "https://localhost:2").await.expect_err("no member");
        let expected = "bootstrap at http://localhost:2 from DNS for etcd-server has scheme mismatch with expected peer \
                        https://localhost:2";
        assert!(scheme.ends_with(expected), "{scheme}");
    }
}
