//! Which commands make the store grow. Decided on the request, before it is proposed: a log holds what it holds.

use api::etcdserverpb::request_op::Request;
use api::etcdserverpb::{RequestOp, TxnRequest};
use prost::Message;

use super::auth_command;
use super::batch::{CommandKind, LogCommand};

/// What room in the log is used for, the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RoomUse {
    /// The store keeps entries that hold what clients put; not while space is low.
    Grows,
    /// Clients free space: deletes, revocations, transactions that only delete. Also tokens, and removal of users.
    Frees,
    /// Without these space is not freed, or the cluster does not run: compaction, alarms, expiry, elections.
    Maintains,
}

/// Whether a client must wait for space with this command. A transaction grows the store if it may put, in whichever
/// branch and however deep; one that does not decode grows nothing.
pub(crate) fn grows(kind: CommandKind, body: &[u8]) -> bool {
    match kind {
        CommandKind::Txn => TxnRequest::decode(body).is_ok_and(|txn| has_put(&txn)),
        CommandKind::Auth => auth_command::grows(body),
        kind => kind.may_grow(),
    }
}

/// What a command uses room for. While space is not low (`is_low`), a transaction counts as one that grows the store:
/// then it makes no difference, and nothing is decoded.
pub(crate) fn room_use(command: &LogCommand, is_low: bool) -> RoomUse {
    use CommandKind::{Auth, DeleteRange, LeaseRevoke, Txn};
    match command.kind {
        kind if kind.may_grow() && (!is_low || grows(kind, &command.body)) => RoomUse::Grows,
        Auth | DeleteRange | LeaseRevoke | Txn => RoomUse::Frees,
        _ => RoomUse::Maintains,
    }
}

fn has_put(txn: &TxnRequest) -> bool {
    let puts = |operation: &RequestOp| match &operation.request {
        Some(Request::RequestPut(_)) => true,
        Some(Request::RequestTxn(nested)) => has_put(nested),
        _ => false,
    };
    txn.success.iter().chain(&txn.failure).any(puts)
}

#[cfg(test)]
mod tests {
    //! What grows.
    use api::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest};

    use super::*;

    fn operation(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    fn txn(success: Vec<Request>, failure: Vec<Request>) -> TxnRequest {
        let operations = |requests: Vec<Request>| requests.into_iter().map(operation).collect();
        TxnRequest { success: operations(success), failure: operations(failure), ..Default::default() }
    }

    fn txn_grows(txn: &TxnRequest) -> bool {
        grows(CommandKind::Txn, &txn.encode_to_vec())
    }

    #[test]
    fn a_transaction_grows_the_store_if_it_may_put_at_any_depth() {
        let put = || Request::RequestPut(PutRequest::default());
        let delete = || Request::RequestDeleteRange(DeleteRangeRequest::default());
        let range = || Request::RequestRange(RangeRequest::default());
        assert!(!txn_grows(&txn(vec![delete(), range()], vec![delete()])));
        assert!(!txn_grows(&TxnRequest::default()));
        assert!(txn_grows(&txn(vec![delete()], vec![range(), put()])));
        let nested = |inner| Request::RequestTxn(txn(vec![Request::RequestTxn(inner)], vec![]));
        assert!(txn_grows(&txn(vec![], vec![nested(txn(vec![], vec![put()]))])));
        assert!(!txn_grows(&txn(vec![nested(txn(vec![delete()], vec![]))], vec![])));
        assert!(!grows(CommandKind::Txn, b"\xff\xff"), "it is refused when it is applied");
    }

    #[test]
    fn other_commands_grow_the_store_by_their_kind() {
        assert!(grows(CommandKind::Put, b"") && grows(CommandKind::LeaseGrant, b""));
        assert!(!grows(CommandKind::DeleteRange, b"") && !grows(CommandKind::Compaction, b""));
    }
}
