//! `status`: is the cluster healthy, in plain words, and what to do if it is not.

use api::etcdserverpb as pb;
use api::methods;

use super::cluster::{Asked, ask, members};
use crate::exit::{Exit, Outcome, code};
use crate::shell::Shell;
use cli::text::human;

/// Entries that a member may be behind the leader while it is only busy.
const MAX_USUAL_LAG: u64 = 5000;

/// Share of the quota, in percent, from which on it is time to do something.
const QUOTA_WARNING_PERCENT: i64 = 80;

/// What is wrong, and what to do.
struct Finding {
    what: String,
    advice: String,
    /// Whether the cluster is healthy in spite of it.
    harmless: bool,
}

fn problem(what: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { what: what.into(), advice: advice.into(), harmless: false }
}

fn remark(what: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { what: what.into(), advice: advice.into(), harmless: true }
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    let (options, client, members) = members(shell).await?;
    let asked = ask(&options, &members).await;
    let alarms: Result<pb::AlarmResponse, _> =
        client.write(methods::MAINTENANCE_ALARM, &pb::AlarmRequest::default(), shell.deadline()).await;
    let alarms = alarms.map(|answer| answer.alarms).unwrap_or_default();
    let findings = findings(&asked, &alarms);
    let healthy = findings.iter().all(|finding| finding.harmless);
    let paint = Paint(shell.streams.out_columns.is_some());
    let verdict = verdict(&asked, healthy);
    let mut page = format!("{}\n\n", if healthy { paint.good(&verdict) } else { paint.bad(&verdict) });
    page.push_str(&member_lines(&asked));
    let columns = shell.streams.out_columns.unwrap_or(usize::MAX);
    for finding in &findings {
        let sign = if finding.harmless { "note" } else { "problem" };
        page.push_str(&format!("\n{}\n", wrap(&format!("{sign}: {}", finding.what), "  ", columns)));
        page.push_str(&format!("{}\n", wrap(&format!("do: {}", finding.advice), "  ", columns)));
    }
    shell.print(page.as_bytes())?;
    if healthy { Ok(()) } else { Err(Exit::silent(code::ERROR)) }
}

/// Colours, on a terminal.
struct Paint(bool);

impl Paint {
    fn good(&self, text: &str) -> String {
        self.with(32, text)
    }

    fn bad(&self, text: &str) -> String {
        self.with(31, text)
    }

    fn with(&self, colour: u8, text: &str) -> String {
        if self.0 { format!("\x1b[1;{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn voters(asked: &[Asked]) -> impl Iterator<Item = &Asked> {
    asked.iter().filter(|asked| !asked.member.is_learner)
}

fn verdict(asked: &[Asked], healthy: bool) -> String {
    let all = asked.len();
    let answering = asked.iter().filter(|asked| asked.status.is_ok()).count();
    let leader = asked.iter().find(|asked| asked.leads()).map(Asked::name);
    let leader = leader.map_or("no leader is seen".to_owned(), |name| format!("{name} leads"));
    let state = if healthy { "healthy" } else { "not healthy" };
    format!("The cluster is {state}: {answering} of {all} members answer, {leader}.")
}

/// One line for each member.
fn member_lines(asked: &[Asked]) -> String {
    let mut rows: Vec<[String; 5]> = Vec::new();
    for asked in asked {
        let role = match (&asked.status, asked.leads()) {
            (Err(_), _) => "silent",
            (_, true) => "leader",
            _ if asked.member.is_learner => "learner",
            _ => "follower",
        };
        let (version, size) = match &asked.status {
            Ok(status) => (
                format!("version {}", status.version),
                format!(
                    "{} in use of {}",
                    human::bytes(status.db_size_in_use.max(0).unsigned_abs()),
                    human::bytes(status.db_size_quota.max(0).unsigned_abs())
                ),
            ),
            Err(_) => Default::default(),
        };
        rows.push([asked.name(), role.to_owned(), asked.url().to_owned(), version, size]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    text
}

fn findings(asked: &[Asked], alarms: &[pb::AlarmMember]) -> Vec<Finding> {
    let mut findings = Vec::new();
    silent_members(asked, &mut findings);
    for alarm in alarms {
        let member = asked.iter().find(|asked| asked.member.id == alarm.member_id);
        let name = member.map_or_else(|| format!("{:x}", alarm.member_id), Asked::name);
        findings.push(match alarm.alarm {
            1 => problem(
                format!("{name} has raised NOSPACE: the cluster accepts deletes and reads, but no puts."),
                "compact old revisions (`compaction REVISION`), run `defrag --cluster`, then `alarm disarm`; or raise \
                 --quota-backend-bytes on all members",
            ),
            2 => problem(
                format!("{name} has raised CORRUPT: its data differs from that of the others."),
                "compare `endpoint hashkv --cluster`; remove the member that differs, delete its data, add it again, \
                 then `alarm disarm`",
            ),
            _ => problem(format!("{name} has raised an alarm that is not known here."), "look at `alarm list`"),
        });
    }
    let applied = |asked: &Asked| asked.status.as_ref().map_or(0, |status| status.raft_applied_index);
    let ahead = asked.iter().map(applied).max().unwrap_or(0);
    for asked in asked.iter().filter(|asked| asked.status.is_ok()) {
        let lag = ahead - applied(asked);
        if lag > MAX_USUAL_LAG {
            findings.push(problem(
                format!("{} is {lag} entries behind.", asked.name()),
                "look at its disk and network (`top` shows whether it catches up)",
            ));
        }
        findings.extend(asked.status.as_ref().ok().and_then(|status| space(asked, status)));
    }
    versions(asked, &mut findings);
    shape(asked, &mut findings);
    findings
}

/// Members that do not answer, and whether the others suffice.
fn silent_members(asked: &[Asked], findings: &mut Vec<Finding>) {
    let all = voters(asked).count();
    let quorum = all / 2 + 1;
    let answering = voters(asked).filter(|asked| asked.status.is_ok()).count();
    for asked in asked {
        let Err(error) = &asked.status else { continue };
        if asked.member.name.is_empty() {
            findings.push(problem(
                format!("member {:x} was added but never started.", asked.member.id),
                "start it with --initial-cluster-state existing, or take it back with `member remove`",
            ));
            continue;
        }
        let effect = match (asked.member.is_learner, answering >= quorum) {
            (true, _) => "It is a learner: the cluster goes on without it.".to_owned(),
            (_, true) => {
                format!("The cluster goes on: {answering} of {all} voters answer, {quorum} are a quorum.")
            }
            (_, false) => format!(
                "The cluster does not accept writes: {answering} of {all} voters answer, {quorum} are a quorum."
            ),
        };
        findings.push(problem(
            format!("{} does not answer at {} ({error}). {effect}", asked.name(), asked.url()),
            "start it, or look at its log and at the network to it; if its data is lost, `member remove` it and add a \
             new one",
        ));
    }
    let leaderless = |asked: &&Asked| asked.status.as_ref().is_ok_and(|status| status.leader == 0);
    for asked in asked.iter().filter(leaderless) {
        findings.push(problem(
            format!("{} knows no leader.", asked.name()),
            "wait a few seconds for an election; if it lasts, look at the network between the members",
        ));
    }
}

fn space(asked: &Asked, status: &pb::StatusResponse) -> Option<Finding> {
    let percent = (status.db_size_in_use * 100).checked_div(status.db_size_quota)?;
    (percent >= QUOTA_WARNING_PERCENT).then(|| {
        problem(
            format!("{} uses {percent} % of its quota.", asked.name()),
            "delete what is not needed and compact, or raise --quota-backend-bytes on all members",
        )
    })
}

fn versions(asked: &[Asked], findings: &mut Vec<Finding>) {
    let mut versions: Vec<&str> = asked
        .iter()
        .filter_map(|asked| asked.status.as_ref().ok())
        .map(|status| status.version.as_str())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        findings.push(remark(
            format!("members run different versions: {}.", versions.join(", ")),
            "finish the upgrade, or the downgrade",
        ));
    }
}

/// Remarks on how the cluster is made up.
fn shape(asked: &[Asked], findings: &mut Vec<Finding>) {
    let count = voters(asked).count();
    if count > 1 && count.is_multiple_of(2) {
        findings.push(remark(
            format!("{count} voting members survive no more failures than {} do.", count - 1),
            "add one, or remove one",
        ));
    }
    for learner in asked.iter().filter(|asked| asked.member.is_learner && asked.status.is_ok()) {
        findings.push(remark(
            format!("{} is a learner: it does not vote.", learner.name()),
            format!("`member promote {:x}` once it has caught up", learner.member.id),
        ));
    }
}

/// Breaks a text into lines that fit, each with an indent.
fn wrap(text: &str, indent: &str, columns: usize) -> String {
    let mut lines = vec![indent.to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() < columns);
        match line {
            Some(line) if line.len() > indent.len() => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) => line.push_str(word),
            None => lines.push(format!("{indent}  {word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::CallError;

    fn member(name: &str, id: u64, status: Result<pb::StatusResponse, CallError>) -> Asked {
        Asked {
            member: pb::Member { name: name.to_owned(), id, ..Default::default() },
            endpoint: None,
            status,
        }
    }

    fn answering(leader: u64) -> Result<pb::StatusResponse, CallError> {
        Ok(pb::StatusResponse {
            leader,
            db_size_quota: 100,
            version: "3.7.3".to_owned(),
            ..Default::default()
        })
    }

    #[test]
    fn three_members_that_answer_are_healthy() {
        let asked =
            [member("a", 1, answering(1)), member("b", 2, answering(1)), member("c", 3, answering(1))];
        assert!(findings(&asked, &[]).is_empty());
        assert_eq!(verdict(&asked, true), "The cluster is healthy: 3 of 3 members answer, a leads.");
    }

    #[test]
    fn a_silent_member_is_named_with_its_effect() {
        let silent = || Err(CallError::Deadline);
        let one = [member("a", 1, answering(1)), member("b", 2, answering(1)), member("c", 3, silent())];
        assert!(findings(&one, &[])[0].what.contains("The cluster goes on: 2 of 3 voters answer"));
        let two = [member("a", 1, answering(0)), member("b", 2, silent()), member("c", 3, silent())];
        assert!(
            findings(&two, &[])[0]
                .what
                .contains("does not accept writes: 1 of 3 voters answer, 2 are a quorum")
        );
    }

    #[test]
    fn alarms_and_full_quotas_come_with_what_to_do() {
        let full = Ok(pb::StatusResponse {
            leader: 1,
            db_size_in_use: 85,
            db_size_quota: 100,
            version: "3.7.3".to_owned(),
            ..Default::default()
        });
        let findings = findings(&[member("a", 1, full)], &[pb::AlarmMember { member_id: 1, alarm: 1 }]);
        assert!(
            findings[0].what.contains("a has raised NOSPACE") && findings[0].advice.contains("alarm disarm")
        );
        assert!(findings[1].what.contains("85 % of its quota"));
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        assert_eq!(wrap("one two three", " ", 9), " one two\n   three");
        assert_eq!(wrap("one two three", " ", usize::MAX), " one two three");
    }
}
