package etcdctl

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// command is a line of the table.
type command struct {
	// line are the words after `etcdctl`; see system.fill for what stands in braces.
	line string
	// input is its standard input.
	input string
	// sorted says that the order of lines is that of ids.
	sorted bool
	// waits says that the command runs until it is interrupted, which it is when it has printed something.
	waits bool
	// until is what it waits for instead, if it prints nothing.
	until func(context.Context, *system) error
	// slow says that the gate leaves it out: it puts for up to a minute.
	slow bool
	// before prepares both systems.
	before func(context.Context, *system) error
	// differs is why the two systems print something else; empty if they must not.
	differs string
}

func raise(kind pb.AlarmType) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error { return s.alarm(ctx, kind) }
}

// versionIs waits until all members show a storage version: etcd's follow the cluster's after some seconds.
func versionIs(version string) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		return s.waitAll(ctx, func(status *clientv3.StatusResponse) bool { return status.StorageVersion == version })
	}
}

// holds waits until a key has a value.
func holds(key string) func(context.Context, *system) error {
	return func(ctx context.Context, s *system) error {
		return s.wait(ctx, func() (bool, error) {
			found, err := s.client.Get(ctx, key)
			return err == nil && len(found.Kvs) > 0, err
		})
	}
}

func learnRoles(ctx context.Context, s *system) error { return s.learnRoles(ctx) }

func learnAdded(ctx context.Context, s *system) error { return s.learnAdded(ctx) }

func learnLease(ctx context.Context, s *system) error { return s.learnLease(ctx) }

func startJoiner(ctx context.Context, s *system) error { return s.startJoiner(ctx) }

// codeOfTooFew is about a line of the client's log. The errors that programs see are equal.
const codeOfTooFew = "etcd sends this error with the code `Unknown`, not with its own `FailedPrecondition`"

// commands run in this order, on both systems.
var commands = []command{
	{line: "member list", sorted: true, before: versionIs("3.7.0")},
	{line: "member list --write-out=table", sorted: true},
	{line: "endpoint health", sorted: true},
	{line: "endpoint health --cluster", sorted: true},
	{line: "endpoint status", sorted: true},
	{line: "endpoint status --cluster --write-out=table", sorted: true},
	{line: "endpoint hashkv", sorted: true},
	{line: "put k 1"},
	{line: "put k 2"},
	{line: "put other 3"},
	{line: "del k"},
	{line: "put k 4"},
	{line: "endpoint hashkv --cluster", sorted: true},
	{line: "endpoint hashkv --rev=3", sorted: true},
	{line: "endpoint hashkv --rev=100", sorted: true},
	{line: "compaction --physical 3"},
	{line: "compaction 3"},
	{line: "compaction 100"},
	{line: "compaction x"},
	{line: "compaction --physical 5"},
	{line: "endpoint hashkv --rev=2", sorted: true},
	{line: "--endpoints={leader} endpoint hashkv --rev=3"},
	{line: "--endpoints={leader} endpoint hashkv --rev=5"},
	{line: "alarm list"},
	{line: "alarm disarm"},
	{line: "alarm list", before: raise(pb.AlarmType_NOSPACE)},
	{line: "put k 5"},
	{line: "del other"},
	{line: "endpoint health", sorted: true},
	{line: "endpoint status", sorted: true},
	{line: "alarm disarm"},
	{line: "alarm list", before: raise(pb.AlarmType_CORRUPT)},
	{line: "put k 6"},
	{line: "get k"},
	{line: "del k"},
	{line: "compaction 6"},
	{line: "lease grant 100"},
	{line: "endpoint health", sorted: true},
	{line: "endpoint status", sorted: true},
	{line: "alarm disarm"},
	{line: "put k 7"},
	{line: "put k 8 --prev-kv"},
	{line: "put k", input: "from standard input"},
	{line: "get k"},
	{line: "--endpoints={leader} get --prefix k --write-out=json"},
	{line: "get --from-key a --keys-only"},
	{line: "get k --rev=1000"},
	{line: "get k --rev=1"},
	{line: "del --prefix none"},
	{line: "txn", input: "value(\"k\") = \"1\"\n\nput k 9\n\nget k\nput failed 1\n\n"},
	{line: "txn", input: "value(k)\n\n\n\n"},
	{line: "watch failed --rev=7 -- false"},
	{line: "watch failed --rev=1"},
	{line: "make-mirror --prefix=fail --dest-prefix=mirror/ {leader}", until: holds("mirror/ed")},
	{line: "make-mirror"},
	{line: "--endpoints={leader} lease grant 100"},
	{line: "--endpoints={leader} lease list", before: learnLease},
	{line: "put leased 1 --lease={lease}"},
	{line: "put leased 1 --lease=1234"},
	{line: "lease timetolive {lease} --keys"},
	{line: "lease keep-alive {lease} --once"},
	{line: "lease keep-alive {lease}", waits: true},
	{line: "lease keep-alive 1234"},
	{line: "lease revoke {lease}"},
	{line: "lease revoke {lease}"},
	{line: "lease timetolive {lease}"},
	{line: "defrag", sorted: true},
	{line: "defrag --cluster", sorted: true},
	{line: "snapshot save {dir}/many.db"},
	{line: "--endpoints={leader} snapshot save {dir}/snapshot.db"},
	{line: "--endpoints={leader} snapshot save {dir}/missing/snapshot.db"},
	{line: "downgrade validate 3.6"},
	{line: "downgrade validate 3.5"},
	{line: "downgrade validate x"},
	{line: "downgrade enable 3.5"},
	{line: "downgrade cancel"},
	{line: "downgrade enable 3.6"},
	{line: "endpoint status", sorted: true, before: versionIs("3.6.0")},
	{line: "downgrade validate 3.6"},
	{line: "downgrade validate 3.5"},
	{line: "downgrade enable 3.6"},
	{line: "--endpoints={leader} snapshot save {dir}/older.db"},
	{line: "downgrade cancel"},
	{line: "endpoint status", sorted: true, before: versionIs("3.7.0")},
	{line: "lock l echo held"},
	{line: "lock l false"},
	{line: "lock l", waits: true},
	{line: "elect e candidate", waits: true},
	{line: "auth status"},
	{line: "auth enable"},
	{line: "role add r"},
	{line: "role add r"},
	{line: "role grant-permission r readwrite k"},
	{line: "role grant-permission missing read k"},
	{line: "role get r"},
	{line: "role list"},
	{line: "user add root:secret"},
	{line: "user add u --interactive=false", input: "first\n"},
	{line: "user passwd u --interactive=false", input: "second\n"},
	{line: "user grant-role root root"},
	{line: "user grant-role u r"},
	{line: "user grant-role u missing"},
	{line: "user get u"},
	{line: "user get u --detail"},
	{line: "user list"},
	{line: "auth enable"},
	{line: "get k"},
	// At one member: etcd's others refuse a token until they have applied it.
	{line: "--endpoints={leader} --user=u:first get k"},
	{line: "--endpoints={leader} --user=u:second get k"},
	{line: "--endpoints={leader} --user=u:second get other"},
	{line: "--endpoints={leader} --user=u:second user list"},
	{line: "--endpoints={leader} --user=root:secret auth status"},
	{line: "--endpoints={leader} --user=root:secret user revoke-role u r"},
	{line: "--endpoints={leader} --user=u:second get k"},
	{line: "--endpoints={leader} --user=root:secret role revoke-permission r k"},
	{line: "--endpoints={leader} --user=root:secret role delete r"},
	{line: "--endpoints={leader} --user=root:secret user delete u"},
	{line: "--endpoints={leader} --user=root:secret user delete root"},
	{line: "--endpoints={leader} --user=root:secret auth disable"},
	{line: "user delete root"},
	{line: "member add m4 --learner --peer-urls=http://127.0.0.1:1"},
	{line: "member add m5 --peer-urls=http://127.0.0.1:1"},
	{line: "member add m5 --peer-urls=127.0.0.1"},
	{line: "member promote {added-id}", before: learnAdded},
	{line: "member update {added-id} --peer-urls=http://127.0.0.1:2"},
	{line: "member update {added-id} --peer-urls={follower-peer}"},
	{line: "member update {added-id}"},
	{line: "member update {added-id} --peer-urls=127.0.0.1"},
	{line: "member promote {leader-id}"},
	{line: "member remove {added-id}"},
	{line: "member remove {added-id}"},
	{line: "member update {added-id} --peer-urls=http://127.0.0.1:2"},
	{line: "member promote {added-id}"},
	{line: "member remove zz"},
	{line: "member promote zz"},
	{line: "member promote"},
	{line: "member add m5"},
	{line: "member add m5 --peer-urls={follower-peer}"},
	{line: "member add m5 --peer-urls=http://127.0.0.1:3"},
	{line: "member list", sorted: true},
	{line: "member add m6 --peer-urls=http://127.0.0.1:4", before: learnAdded},
	{line: "member add m7 --peer-urls=http://127.0.0.1:5", differs: codeOfTooFew},
	{line: "member remove {follower-id}", differs: codeOfTooFew},
	{line: "member remove {added-id}"},
	{line: "member remove {added-id}", before: learnAdded},
	{line: "member add m4 --learner --peer-urls={joiner-peer}"},
	{line: "member promote {added-id}", before: startJoiner},
	{line: "member promote {added-id}"},
	{line: "member list", sorted: true},
	{line: "member remove {added-id}"},
	{line: "member list", sorted: true},
	{line: "--endpoints={follower} move-leader {follower-id}"},
	{line: "move-leader 1234"},
	{line: "move-leader {follower-id}"},
	{line: "endpoint status", sorted: true, before: learnRoles},
	{line: "check datascale --load=s --auto-compact --auto-defrag", slow: true},
	{line: "check perf --load=s", slow: true},
}
