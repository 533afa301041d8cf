//! `reload`: each member reads its configuration again.

use api::methods;
use api::stelepb::{ReloadRequest, ReloadResponse};

use crate::command::each_endpoint;
use crate::exit::{Exit, Outcome, code};
use crate::shell::{Shell, open};

/// Asks the members one after the other, and says of each what changed. One that refuses does not keep the others from
/// it: they have files of their own.
pub(super) async fn run(shell: &mut Shell) -> Outcome {
    let mut failed = false;
    for (endpoint, options) in each_endpoint(shell).await? {
        let client = open(options).await?;
        let answer: Result<ReloadResponse, _> =
            client.write(methods::ADMIN_RELOAD, &ReloadRequest {}, shell.deadline()).await;
        match answer {
            Ok(changes) => shell.say(format!("{endpoint}: {}", told(&changes)))?,
            Err(error) => {
                failed = true;
                shell.complain(format!("{endpoint}: {error}"));
            }
        }
    }
    if failed { Err(Exit::silent(code::ERROR)) } else { Ok(()) }
}

fn told(changes: &ReloadResponse) -> String {
    let changed = match changes.changed.as_slice() {
        [] => "nothing changed".to_owned(),
        changed => format!("changed {}", changed.join(", ")),
    };
    match changes.needs_restart.as_slice() {
        [] => changed,
        waiting => format!("{changed}; a restart is needed for {}", waiting.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    //! What is said of a member.
    use super::*;

    #[test]
    fn what_changed_and_what_waits_is_told() {
        assert_eq!(told(&ReloadResponse::default()), "nothing changed");
        let changed = vec!["--log-level (debug)".to_owned(), "--cors (*)".to_owned()];
        let changes = ReloadResponse { changed, needs_restart: vec!["--name".to_owned()] };
        assert_eq!(told(&changes), "changed --log-level (debug), --cors (*); a restart is needed for --name");
    }
}
