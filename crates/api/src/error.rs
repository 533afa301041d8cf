//! The error table: every error of a client's request, with gRPC code and exact text.
//!
//! Clients of etcd match on both (clientv3 turns the text back into a Go error value), so a text
//! here is contract, not prose. The variants up to [`Error::COUNT_OF_TABLE`] are the published
//! table; `tests/errors.rs` holds them equal to it. Those after it are errors that etcd passes on
//! without an entry in its table: a plain Go error reaches the client with code `Unknown` and its
//! own text, and clients see it that way.
//!
//! One difference is intended: etcd returns two of its own errors, "too many requests" and "not
//! enough started members", in their client-side form, which gRPC does not recognise, so they
//! arrive as `Unknown`. The table says `ResourceExhausted` and `FailedPrecondition`, and so do we.
//! Clients that match on text see no difference.
//!
//! The lock and election services of etcd are clients of the other services, and what those answer
//! leaves them as a plain Go error: same text, code `Unknown`.
//!
//! The messages say "etcdserver" because clients look for it.

use std::fmt;

/// The status codes of gRPC, with their numbers.
///
/// Our own, so that the deterministic crates can name a code without a gRPC library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// The client went away or gave up.
    Canceled = 1,
    /// An error outside the table.
    Unknown = 2,
    /// The request can never succeed as it is.
    InvalidArgument = 3,
    /// The time allowed by the client was not enough.
    DeadlineExceeded = 4,
    /// What the request names does not exist.
    NotFound = 5,
    /// The authenticated user may not do this.
    PermissionDenied = 7,
    /// A limit was reached; later may be better.
    ResourceExhausted = 8,
    /// The state of the cluster does not allow it now.
    FailedPrecondition = 9,
    /// A number lies outside what is possible.
    OutOfRange = 11,
    /// The method, or this use of it, is not offered.
    Unimplemented = 12,
    /// The client's bytes are not what the protocol says.
    Internal = 13,
    /// The cluster cannot serve now; retry, perhaps elsewhere.
    Unavailable = 14,
    /// Data was damaged.
    DataLoss = 15,
    /// The credentials are missing or not valid.
    Unauthenticated = 16,
}

impl Code {
    /// The number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The code of a number on the wire.
    pub fn from_number(number: i32) -> Option<Code> {
        use Code::*;
        let all = [
            Canceled,
            Unknown,
            InvalidArgument,
            DeadlineExceeded,
            NotFound,
            PermissionDenied,
            ResourceExhausted,
            FailedPrecondition,
            OutOfRange,
            Unimplemented,
            Internal,
            Unavailable,
            DataLoss,
            Unauthenticated,
        ];
        all.into_iter().find(|code| code.number() == number)
    }

    /// The name as Go writes it in the text of an error, such as `InvalidArgument`.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Canceled => "Canceled",
            Code::Unknown => "Unknown",
            Code::InvalidArgument => "InvalidArgument",
            Code::DeadlineExceeded => "DeadlineExceeded",
            Code::NotFound => "NotFound",
            Code::PermissionDenied => "PermissionDenied",
            Code::ResourceExhausted => "ResourceExhausted",
            Code::FailedPrecondition => "FailedPrecondition",
            Code::OutOfRange => "OutOfRange",
            Code::Unimplemented => "Unimplemented",
            Code::Internal => "Internal",
            Code::Unavailable => "Unavailable",
            Code::DataLoss => "DataLoss",
            Code::Unauthenticated => "Unauthenticated",
        }
    }
}

macro_rules! error_table {
    ($($name:ident = $code:ident, $message:literal;)*) => {
        /// An error that is returned to a client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Error {
            $(#[doc = $message] $name,)*
        }

        impl Error {
            /// Every error, the published table first.
            pub const ALL: &[Error] = &[$(Error::$name,)*];

            /// The gRPC status code.
            pub const fn code(self) -> Code {
                match self {
                    $(Error::$name => Code::$code,)*
                }
            }

            /// The exact text clients match on.
            pub const fn message(self) -> &'static str {
                match self {
                    $(Error::$name => $message,)*
                }
            }
        }
    };
}

error_table! {
    Canceled = Canceled, "etcdserver: request canceled";
    WatchCanceled = Canceled, "etcdserver: watch canceled";
    Corrupt = DataLoss, "etcdserver: corrupt cluster";
    DeadlineExceeded = DeadlineExceeded, "etcdserver: context deadline exceeded";
    PeerUrlExists = FailedPrecondition, "etcdserver: Peer URLs already exists";
    AuthNotEnabled = FailedPrecondition, "etcdserver: authentication is not enabled";
    BadLeaderTransferee = FailedPrecondition, "etcdserver: bad leader transferee";
    MemberNotLearner = FailedPrecondition, "etcdserver: can only promote a learner member";
    LearnerNotReady = FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader";
    ClusterIdMismatch = FailedPrecondition, "etcdserver: cluster ID mismatch";
    DowngradeInProgress = FailedPrecondition, "etcdserver: cluster has a downgrade job in progress";
    ClusterVersionUnavailable = FailedPrecondition, "etcdserver: cluster version not found during downgrade";
    LeaseExists = FailedPrecondition, "etcdserver: lease already exists";
    MemberExists = FailedPrecondition, "etcdserver: member ID already exist";
    NoDowngradeInProgress = FailedPrecondition, "etcdserver: no inflight downgrade job";
    NotCapable = FailedPrecondition, "etcdserver: not capable";
    NotLeader = FailedPrecondition, "etcdserver: not leader";
    PermissionNotGranted = FailedPrecondition, "etcdserver: permission is not granted to the role";
    NotEnoughStartedMembers = FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members";
    RoleNotGranted = FailedPrecondition, "etcdserver: role is not granted to the user";
    RoleExists = FailedPrecondition, "etcdserver: role name already exists";
    RoleNotFound = FailedPrecondition, "etcdserver: role name not found";
    RootUserNotFound = FailedPrecondition, "etcdserver: root user does not exist";
    RootRoleNotGranted = FailedPrecondition, "etcdserver: root user does not have root role";
    NotSupportedForLearner = FailedPrecondition, "etcdserver: rpc not supported for learner";
    TooManyLearners = FailedPrecondition, "etcdserver: too many learner members in cluster";
    UserExists = FailedPrecondition, "etcdserver: user name already exists";
    UserNotFound = FailedPrecondition, "etcdserver: user name not found";
    AuthFailed = InvalidArgument, "etcdserver: authentication failed, invalid user ID or password";
    DuplicateKey = InvalidArgument, "etcdserver: duplicate key given in txn request";
    BadMemberUrls = InvalidArgument, "etcdserver: given member URLs are invalid";
    InvalidAuthManagement = InvalidArgument, "etcdserver: invalid auth management";
    InvalidClientApiVersion = InvalidArgument, "etcdserver: invalid client api version";
    InvalidDowngradeTarget = InvalidArgument, "etcdserver: invalid downgrade target version";
    InvalidSortOption = InvalidArgument, "etcdserver: invalid sort option";
    EmptyKey = InvalidArgument, "etcdserver: key is not provided";
    KeyNotFound = InvalidArgument, "etcdserver: key not found";
    LeaseProvided = InvalidArgument, "etcdserver: lease is provided";
    PermissionNotGiven = InvalidArgument, "etcdserver: permission not given";
    RequestTooLarge = InvalidArgument, "etcdserver: request is too large";
    AuthOldRevision = InvalidArgument, "etcdserver: revision of auth store is old";
    RoleEmpty = InvalidArgument, "etcdserver: role name is empty";
    TooManyOps = InvalidArgument, "etcdserver: too many operations in txn request";
    UserEmpty = InvalidArgument, "etcdserver: user name is empty";
    ValueProvided = InvalidArgument, "etcdserver: value is provided";
    WrongDowngradeVersionFormat = InvalidArgument, "etcdserver: wrong downgrade target version format";
    MemberNotFound = NotFound, "etcdserver: member not found";
    LeaseNotFound = NotFound, "etcdserver: requested lease not found";
    Compacted = OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    FutureRevision = OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    LeaseTtlTooLarge = OutOfRange, "etcdserver: too large lease TTL";
    PermissionDenied = PermissionDenied, "etcdserver: permission denied";
    NoSpace = ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    TooManyRequests = ResourceExhausted, "etcdserver: too many requests";
    InvalidAuthToken = Unauthenticated, "etcdserver: invalid auth token";
    LeaderChanged = Unavailable, "etcdserver: leader changed";
    NoLeader = Unavailable, "etcdserver: no leader";
    Timeout = Unavailable, "etcdserver: request timed out";
    TimeoutConnectionLost = Unavailable, "etcdserver: request timed out, possibly due to connection lost";
    TimeoutLeaderFailed = Unavailable, "etcdserver: request timed out, possibly due to previous leader failure";
    TimeoutWaitingForApply = Unavailable, "etcdserver: request timed out, waiting for the applied index took too long";
    Stopped = Unavailable, "etcdserver: server stopped";
    Unhealthy = Unavailable, "etcdserver: unhealthy cluster";

    // Not in the published table: etcd passes these on as they are.
    UnknownMethod = Unknown, "etcdserver: unknown method";
    NotTaken = Unavailable, "etcdserver: server stopped before it took the request";
    TimeoutLeaderTransfer = Unknown, "etcdserver: request timed out, leader transfer took too long";
    NotPrimaryLessor = Unknown, "not a primary lessor";
    NoPasswordUser = Unknown, "auth: authentication failed, password was given for no password user";
    EmptyWatchRange = Unknown, "mvcc: watcher range is empty";
    DuplicateWatchId = Unknown, "mvcc: duplicate watch ID provided on the WatchStream";
    MissingLeaderKey = Unknown, "\"leader\" field must be provided";
    StreamSortUnsupported = Unimplemented, "RangeStream does not support custom sort orders";
    StreamFilterUnsupported = Unimplemented, "RangeStream does not support revision filters";
}

impl Error {
    /// How many of [`Error::ALL`] belong to the published table.
    pub const COUNT_OF_TABLE: usize = 63;

    /// The error with exactly this text; texts are unique.
    pub fn from_message(message: &str) -> Option<Error> {
        Error::ALL.iter().copied().find(|error| error.message() == message)
    }

    /// The text Go gives a gRPC error: `rpc error: code = C desc = D`.
    ///
    /// etcd puts it, instead of the bare message, into the `cancel_reason` of a watch that was
    /// refused for want of permission, and clients parse it there.
    pub fn status_text(self) -> String {
        format!("rpc error: code = {} desc = {}", self.code().name(), self.message())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}
