//! What a command works with: connections, and runs of clients that share a plan.

use std::future::Future;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use api::etcdserverpb as pb;
use api::methods;
use ctl::{Endpoint, Streams, TlsFlags};

use crate::cli::own::RunOptions;
use crate::cli::{Line, Reach};
use crate::client::{Dialling, Lane, Login, leader_endpoints, open_lanes};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::record::Recorder;
use crate::report::text::Layout;
use crate::report::{self, Phase, RunReport};
use crate::schedule::{Pacer, Plan, Ticket};
use crate::servers::Watched;

/// The most connections, and the most clients: each takes a descriptor, or memory.
const MAX_CONNECTIONS: u32 = 60_000;
const MAX_CLIENTS: u32 = 1_000_000;

/// Where a run notes what came of its requests: one recorder for each kind of them.
pub(crate) type Recorders = Rc<[Rc<Recorder>]>;

/// The surroundings of a command.
pub(crate) struct BenchSession {
    /// Whether it was called by Stele's own name, and may print more than `benchmark` does.
    pub(crate) own_name: bool,
    pub(crate) reach: Reach,
    pub(crate) options: RunOptions,
    pub(crate) layout: Layout,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) dialling: Rc<Dialling>,
    pub(crate) login: Option<Login>,
    /// The connections; clients use them in turn.
    pub(crate) lanes: Vec<Rc<Lane>>,
    /// The word that names the command.
    pub(crate) operation: &'static str,
    pub(crate) interrupt: Rc<Interrupt>,
    pub(crate) result: RunReport,
}

impl BenchSession {
    /// Checks the options and connects. `said` is the line without secrets.
    ///
    /// # Errors
    /// One line: which option is wrong, or which endpoint cannot be reached and why.
    pub(crate) async fn open(
        own_name: bool,
        line: &Line,
        said: &str,
        interrupt: &Rc<Interrupt>,
    ) -> Result<Self, String> {
        let reach = line.reach.clone();
        check(&reach, &line.own)?;
        let tls = TlsFlags {
            authorities: reach.cacert.clone(),
            certificate: reach.cert.clone(),
            key: reach.key.clone(),
            any_server: reach.insecure_skip_tls_verify,
            system_file: std::env::var("SSL_CERT_FILE").unwrap_or_default(),
            ..TlsFlags::default()
        };
        let config = tls.config().map_err(|error| format!("bad tls config: {error}"))?;
        let dialling =
            Rc::new(Dialling { timeout: reach.dial_timeout, tls: config, tls_flagged: tls.are_set() });
        let login = login(&reach.user)?;
        // Not before: at the question for a password Ctrl-C ends the process by itself.
        interrupt.listen();
        let names = reach.endpoints.iter().map(|name| Endpoint::parse(name.trim()));
        let mut endpoints = names.collect::<Result<Vec<_>, _>>()?;
        let dial_error = |error| format!("dial error: {error}");
        if reach.target_leader {
            endpoints = leader_endpoints(&endpoints, &dialling, login.as_ref()).await.map_err(dial_error)?;
        }
        let lanes = open_lanes(&endpoints, reach.conns as usize, &dialling, login.as_ref());
        let lanes = lanes.await.map_err(dial_error)?;
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut session = Self {
            own_name,
            layout: Layout { precise: reach.precise, samples: reach.sample },
            options: line.own.clone(),
            interrupt: Rc::clone(interrupt),
            reach,
            endpoints,
            dialling,
            login,
            lanes,
            operation: line.task.name(),
            result: RunReport {
                format: report::FORMAT,
                command: said.to_owned(),
                unix_seconds: began.as_secs(),
                ..RunReport::default()
            },
        };
        if own_name {
            session.result.server = session.server_version().await;
        }
        Ok(session)
    }

    /// The connection of a client.
    pub(crate) fn lane(&self, client: usize) -> Rc<Lane> {
        Rc::clone(&self.lanes[client % self.lanes.len()])
    }

    /// A connection that is used for nothing else.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn own_lane(&self) -> Result<Rc<Lane>, String> {
        let lanes = open_lanes(&self.endpoints, 1, &self.dialling, self.login.as_ref()).await;
        let lanes = lanes.map_err(|error| format!("dial error: {error}"))?;
        lanes.into_iter().next().ok_or_else(|| "no endpoint".to_owned())
    }

    /// A plan with the options of the line.
    pub(crate) fn plan(&self, total: u64, rate: u64) -> Plan {
        let mut plan = Plan { open_loop: self.options.open_loop, ..Plan::new(total, rate) };
        if let Some(duration) = self.options.duration {
            plan = Plan { total: u64::MAX, duration: Some(duration), ..plan };
        }
        plan
    }

    /// Runs all clients until the plan is fulfilled, after a warm-up if one was asked for, and returns what came of it:
    /// a phase for each of `names`. `request` makes one request on a connection, and notes what came of it in one of
    /// the recorders, which stand in the order of the names.
    pub(crate) async fn drive<F, R>(&self, plan: Plan, names: &[&str], request: F) -> Vec<Phase>
    where
        F: Fn(Rc<Lane>, Ticket, Recorders) -> R + Clone + 'static,
        R: Future<Output = ()> + 'static,
    {
        let start = |samples| -> Recorders { names.iter().map(|_| Recorder::start(samples)).collect() };
        if let Some(time) = self.options.warm_up {
            let warm_up = Plan { total: u64::MAX, duration: Some(time), ..plan };
            let recorders = start(false);
            let progress = Progress::start(warm_up, &recorders).labelled("warm-up ");
            self.run_clients(&Pacer::start(warm_up), &recorders, &request).await;
            progress.finish();
        }
        let recorders = start(self.layout.samples);
        let watched = self.watch_servers();
        let progress = Progress::start(plan, &recorders);
        let pacer = Pacer::start(plan);
        if let Some(first) = recorders.first() {
            first.count_missed_of(&pacer);
        }
        self.interrupt.measure(self.run_clients(&pacer, &recorders, &request)).await;
        progress.finish();
        let finished = names.iter().zip(recorders.iter()).map(|(name, recorder)| recorder.finish(name));
        let mut phases: Vec<Phase> = finished.collect();
        watched.finish(&mut phases);
        phases
    }

    async fn run_clients<F, R>(&self, pacer: &Rc<Pacer>, recorders: &Recorders, request: &F)
    where
        F: Fn(Rc<Lane>, Ticket, Recorders) -> R + Clone + 'static,
        R: Future<Output = ()> + 'static,
    {
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..self.reach.clients as usize {
            let (lane, pacer, request) = (self.lane(number), Rc::clone(pacer), request.clone());
            let recorders = Rc::clone(recorders);
            clients.spawn_local(async move {
                while let Some(ticket) = pacer.next().await {
                    request(Rc::clone(&lane), ticket, Rc::clone(&recorders)).await;
                }
            });
        }
        clients.join_all().await;
    }

    /// Watches what local servers use from now on; nothing under `benchmark`'s name.
    pub(crate) fn watch_servers(&self) -> Watched {
        let endpoints: &[Endpoint] = if self.own_name { &self.endpoints } else { &[] };
        Watched::start(endpoints)
    }

    /// Prints a phase as `benchmark` does, and keeps it for the files.
    pub(crate) fn show(&mut self, phase: Phase) {
        crate::print::say(&report::text::render(&phase, self.layout));
        self.keep(phase);
    }

    /// Keeps a phase that was printed, with what we say beyond `benchmark`.
    pub(crate) fn keep(&mut self, phase: Phase) {
        if self.own_name {
            crate::print::say(&report::extra::render(&phase));
        }
        if self.reach.report_perfdash {
            crate::print::say(&format!("{}\n", report::file::write_perfdash(&phase, self.operation)));
        }
        self.result.phases.push(phase);
    }

    /// Writes the files that were asked for.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn close(self) -> Result<(), String> {
        if let Some(path) = &self.options.json {
            report::file::write_json(path, &self.result)?;
        }
        if let Some(path) = &self.options.html {
            report::file::write(path, &report::html::render(&[(String::new(), self.result)])?)?;
        }
        Ok(())
    }

    async fn server_version(&self) -> String {
        let Some(lane) = self.lanes.first() else { return String::new() };
        let status: Result<pb::StatusResponse, _> =
            lane.ask(methods::MAINTENANCE_STATUS, &pb::StatusRequest {}).await;
        status.map_or_else(|_| String::new(), |status| status.version)
    }
}

fn check(reach: &Reach, options: &RunOptions) -> Result<(), String> {
    let range = |name: &str, value: u32, max: u32| {
        if (1..=max).contains(&value) {
            Ok(())
        } else {
            Err(format!("expected --{name} from 1 to {max}, got {value}"))
        }
    };
    range("conns", reach.conns, MAX_CONNECTIONS)?;
    range("clients", reach.clients, MAX_CLIENTS)?;
    if options.duration.is_some_and(|duration| duration.is_zero()) {
        return Err("expected a positive --duration".to_owned());
    }
    Ok(())
}

/// Splits `user:password`, or asks for the password.
fn login(user: &str) -> Result<Option<Login>, String> {
    let (user, password) = match user.split_once(':') {
        _ if user.is_empty() => return Ok(None),
        Some((user, password)) => (user, password.to_owned()),
        None => {
            let asked = ctl::ask_password(&mut Streams::standard(), "Password: ");
            (user, asked.map_err(|error| format!("bad user information: {user} {error}"))?)
        }
    };
    Ok(Some(Login { user: user.to_owned(), password }))
}
