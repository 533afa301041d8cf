//! What a command works with: its line, the environment, and where it reads and prints.

use std::io::Write;

use tokio::time::Instant;

use crate::client::discovery;
use crate::client::tls::TlsFlags;
use crate::client::{Client, ClientOptions, Credentials, Endpoint, Security};
use crate::commands;
use crate::exit::{Exit, Outcome, code};
use crate::password;
use crate::print::{Format, View};
use cli::Streams;
use cli::parse::Values;
use cli::{Arg, Flag, Program};

/// Beginning of the variables that stand for flags.
const PREFIX: &str = "ETCDCTL_";

/// Variables that no flag belongs to: `ETCDCTL_API` chose between two versions until etcd 3.6.
const OTHER_VARIABLES: [&str; 3] = ["ETCDCTL_API", "ETCDCTL_WATCH_KEY", "ETCDCTL_WATCH_RANGE_END"];

/// What a command works with.
pub(crate) struct Shell {
    pub(crate) program: Program,
    pub(crate) streams: Streams,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) values: Values,
    /// The arguments, without flags.
    pub(crate) args: Vec<Arg>,
    /// The line as it was given.
    pub(crate) line: Vec<Arg>,
    pub(crate) view: View,
    /// How to reach the cluster, once that was asked: a password is asked for once.
    pub(crate) options: Option<ClientOptions>,
}

impl Shell {
    /// Prints to standard output.
    ///
    /// # Errors
    ///
    /// The output is closed.
    pub(crate) fn print(&mut self, bytes: &[u8]) -> Outcome {
        self.streams.out.write_all(bytes)?;
        self.streams.out.flush()?;
        Ok(())
    }

    /// Prints a line to standard output.
    ///
    /// # Errors
    ///
    /// The output is closed.
    pub(crate) fn say(&mut self, line: impl AsRef<str>) -> Outcome {
        self.print(format!("{}\n", line.as_ref()).as_bytes())
    }

    /// Prints a line to standard error.
    pub(crate) fn complain(&mut self, line: impl AsRef<str>) {
        // Where errors cannot be printed, that cannot be said either.
        let _ = writeln!(self.streams.errors, "{}", line.as_ref());
    }

    /// A variable of the environment; empty if it is not set.
    pub(crate) fn variable(&self, name: &str) -> &str {
        self.variables.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// An argument as text.
    pub(crate) fn arg(&self, at: usize) -> String {
        self.args.get(at).map(|arg| String::from_utf8_lossy(arg).into_owned()).unwrap_or_default()
    }

    /// When a short command has taken too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(Instant::now() + self.values.duration("command-timeout"))
    }

    /// Takes flags that the line does not give from the environment.
    ///
    /// # Errors
    ///
    /// A flag that is given twice: here and in the environment.
    pub(crate) fn read_variables(&mut self) -> Outcome {
        for (key, value) in self.variables.clone() {
            if !key.starts_with(PREFIX) || OTHER_VARIABLES.contains(&key.as_str()) {
                continue;
            }
            match global_flag(&key) {
                Some(flag) if self.values.on_line(flag.name) => {
                    return Err(Exit::new(
                        code::ERROR,
                        format!(
                            "{key} and --{} are both given: unset the variable or drop the flag",
                            flag.name
                        ),
                    ));
                }
                Some(_) if value.is_empty() => {}
                Some(flag) => {
                    if let Err(why) = self.values.set(flag, &value, false) {
                        self.complain(format!("Warning: {key} is ignored: {why}"));
                    }
                }
                None => self.complain(format!("Warning: unrecognized environment variable {key}")),
            }
        }
        Ok(())
    }

    /// Reads how to print.
    ///
    /// # Errors
    ///
    /// A form that does not exist.
    pub(crate) fn read_view(&mut self) -> Outcome {
        let format = Format::named(self.values.text("write-out"))
            .ok_or_else(|| Exit::new(code::BAD_FEATURE, "unsupported output format"))?;
        self.view = View { format, hex: self.values.switch("hex"), value_only: false };
        Ok(())
    }

    /// How to reach the cluster.
    ///
    /// # Errors
    ///
    /// Flags that ask for what is not offered, or contradict each other.
    pub(crate) async fn client_options(&mut self) -> Result<ClientOptions, Exit> {
        if let Some(options) = &self.options {
            return Ok(options.clone());
        }
        let options = self.read_options().await?;
        self.options = Some(options.clone());
        Ok(options)
    }

    async fn read_options(&mut self) -> Result<ClientOptions, Exit> {
        self.read_variables()?;
        for name in ["cert", "key", "cacert"] {
            if self.values.on_line(name) && self.values.text(name).is_empty() {
                return Err(Exit::bad_args(format!("empty string is passed to --{name} option")));
            }
        }
        let credentials = self.credentials()?;
        self.read_view()?;
        let domain = self.values.text("discovery-srv").to_owned();
        let names = match self.discovered(&domain).await? {
            found if found.is_empty() => self.values.list("endpoints"),
            found => found,
        };
        let endpoints = parse_endpoints(&names)?;
        let mut flags = self.tls_flags("");
        let checked = !domain.is_empty() && !self.values.switch("insecure-discovery");
        // As in etcdctl, a domain that is checked is a reason for TLS where no scheme says otherwise.
        flags.demanded |= checked;
        let options = ClientOptions {
            tls: tls_config(&flags, &endpoints)?,
            tls_flagged: flags.are_set(),
            server_name: Some(domain).filter(|_| checked),
            endpoints,
            dial_timeout: self.values.duration("dial-timeout"),
            keepalive_interval: self.values.duration("keepalive-time"),
            keepalive_timeout: self.values.duration("keepalive-timeout"),
            max_request_bytes: usize::try_from(self.values.int("max-request-bytes")).unwrap_or(0),
            max_response_bytes: usize::try_from(self.values.int("max-recv-bytes")).unwrap_or(0),
            credentials,
        };
        if options.max_response_bytes > 0 && options.max_request_bytes > options.max_response_bytes {
            return Err(Exit::new(
                code::BAD_CONNECTION,
                format!(
                    "gRPC message recv limit ({} bytes) must be greater than send limit ({} bytes)",
                    options.max_response_bytes, options.max_request_bytes
                ),
            ));
        }
        Ok(options)
    }

    /// The endpoints that DNS names; none without a domain, or if they are not good enough.
    ///
    /// # Errors
    ///
    /// There are no records.
    async fn discovered(&mut self, domain: &str) -> Result<Vec<String>, Exit> {
        if domain.is_empty() {
            return Ok(Vec::new());
        }
        let service_name = self.values.text("discovery-srv-name").to_owned();
        let found = discovery::endpoints(domain, &service_name).await;
        let mut found = found.map_err(|why| Exit::new(code::ERROR, why))?;
        if !self.values.switch("insecure-discovery") {
            let (secure, insecure) = found.into_iter().partition(|name| !name.starts_with("http://"));
            found = secure;
            let insecure: Vec<String> = insecure;
            for name in insecure {
                self.complain(format!("ignoring discovered insecure endpoint {name:?}"));
            }
        }
        Ok(found)
    }

    /// A client of the cluster.
    ///
    /// # Errors
    ///
    /// Its flags are wrong, or it could not authenticate.
    pub(crate) async fn client(&mut self) -> Result<Client, Exit> {
        let options = self.client_options().await?;
        open(options).await
    }

    /// How to reach the second cluster of a command that copies into one: by the flags that begin with `dest-`.
    ///
    /// # Errors
    ///
    /// Flags that ask for what is not offered, or contradict each other.
    pub(crate) async fn destination_options(&mut self, names: &[String]) -> Result<ClientOptions, Exit> {
        let user = self.values.text("dest-user").to_owned();
        let password = self.values.text("dest-password").to_owned();
        let credentials = match user.is_empty() {
            true => None,
            false => Some(self.user_and_password(user, password, "Destination Password: ")?),
        };
        let flags = self.tls_flags("dest-");
        let options = self.client_options().await?;
        let endpoints = parse_endpoints(names)?;
        let tls = tls_config(&flags, &endpoints)?;
        let tls_flagged = flags.are_set();
        Ok(ClientOptions { endpoints, credentials, tls, tls_flagged, server_name: None, ..options })
    }

    /// What the flags of a cluster say about TLS; those of a mirror's destination begin with `dest-`.
    pub(crate) fn tls_flags(&self, prefix: &str) -> TlsFlags {
        let text = |name: &str| self.values.text(&format!("{prefix}{name}")).to_owned();
        TlsFlags {
            authorities: text("cacert"),
            certificate: text("cert"),
            key: text("key"),
            demanded: !self.values.switch(&format!("{prefix}insecure-transport")),
            any_server: prefix.is_empty() && self.values.switch("insecure-skip-tls-verify"),
            system_file: self.variable("SSL_CERT_FILE").to_owned(),
        }
    }

    fn credentials(&mut self) -> Result<Option<Credentials>, Exit> {
        let (user, password) = (self.values.text("user").to_owned(), self.values.text("password").to_owned());
        let token = self.values.text("auth-jwt-token").to_owned();
        if !token.is_empty() {
            return Ok(Some(Credentials::Token(token)));
        }
        if user.is_empty() {
            return Ok(None);
        }
        self.user_and_password(user, password, "Password: ").map(Some)
    }

    /// A user with the password that is given, stands behind a colon, or is asked for.
    ///
    /// # Errors
    ///
    /// No password could be read.
    pub(crate) fn user_and_password(
        &mut self,
        user: String,
        password: String,
        prompt: &str,
    ) -> Result<Credentials, Exit> {
        if !password.is_empty() {
            return Ok(Credentials::Password { user, password });
        }
        if let Some((user, password)) = user.split_once(':') {
            return Ok(Credentials::Password { user: user.to_owned(), password: password.to_owned() });
        }
        let password = password::ask(&mut self.streams, prompt).map_err(|why| Exit::new(code::ERROR, why))?;
        Ok(Credentials::Password { user, password })
    }
}

/// Endpoints of a list.
///
/// # Errors
///
/// There is none, or one is wrong.
pub(crate) fn parse_endpoints(names: &[String]) -> Result<Vec<Endpoint>, Exit> {
    if names.is_empty() {
        return Err(Exit::new(code::BAD_CONNECTION, "etcdclient: no available endpoints"));
    }
    names.iter().map(|name| Endpoint::parse(name).map_err(Exit::bad_args)).collect()
}

/// How endpoints are reached by TLS, if a flag or one of them asks for it.
///
/// # Errors
///
/// A file that cannot be used.
pub(crate) fn tls_config(
    flags: &TlsFlags,
    endpoints: &[Endpoint],
) -> Result<Option<std::sync::Arc<rustls::ClientConfig>>, Exit> {
    let asked = endpoints.iter().any(|endpoint| endpoint.security == Security::Tls);
    if !flags.are_set() && !asked {
        return Ok(None);
    }
    flags.config().map(Some).map_err(Exit::bad_args)
}

/// A client, or etcdctl's exit code for one that cannot be made.
///
/// # Errors
///
/// It could not authenticate.
pub(crate) async fn open(options: ClientOptions) -> Result<Client, Exit> {
    Client::open(options).await.map_err(|error| Exit::call(code::BAD_CONNECTION, error))
}

/// The flag that a variable stands for.
fn global_flag(variable: &str) -> Option<&'static Flag> {
    let name = variable.strip_prefix(PREFIX)?.to_lowercase().replace('_', "-");
    commands::ROOT.shared_flags.iter().find(|flag| flag.name == name)
}

#[cfg(test)]
mod tests {
    use cli::find::find;
    use cli::parse;

    use super::*;

    fn shell(line: &str, input: &'static str) -> Shell {
        let line: Vec<Arg> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let found = find(commands::STELE_CTL, &line).expect("it exists");
        let parsed =
            parse::parse(commands::STELE_CTL, &found.path, &found.rest).unwrap_or_else(|why| panic!("{why}"));
        Shell {
            program: commands::STELE_CTL,
            streams: Streams {
                input: Box::new(input.as_bytes()),
                out: Box::new(std::io::sink()),
                errors: Box::new(std::io::sink()),
                out_columns: None,
                errors_on_terminal: false,
            },
            variables: Vec::new(),
            values: parsed.values,
            args: parsed.args,
            line,
            view: View { format: Format::Simple, hex: false, value_only: false },
            options: None,
        }
    }

    fn password(options: &ClientOptions) -> &str {
        match &options.credentials {
            Some(Credentials::Password { password, .. }) => password,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_side_is_asked_for_its_password_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for command in ["follow", "make-mirror"] {
            let line = format!("{command} --user reader --dest-user writer b:2");
            let mut shell = shell(&line, "of the destination\nof the source\nnot asked for\n");
            let destination = runtime.block_on(shell.destination_options(&["b:2".to_owned()]));
            assert_eq!(
                password(&destination.unwrap_or_else(|_| panic!("it is right"))),
                "of the destination"
            );
            for _ in 0..2 {
                let source = runtime.block_on(shell.client_options());
                assert_eq!(password(&source.unwrap_or_else(|_| panic!("it is right"))), "of the source");
            }
        }
    }
}
