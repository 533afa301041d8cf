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
	// sorted says that the order of lines is that of ids.
	sorted bool
	// waits says that the command runs until it is interrupted.
	waits bool
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

func learnRoles(ctx context.Context, s *system) error { return s.learnRoles(ctx) }

func learnAdded(ctx context.Context, s *system) error { return s.learnAdded(ctx) }

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
	{line: "member add m4 --learner --peer-urls=http://127.0.0.1:1"},
	{line: "member add m5 --peer-urls=http://127.0.0.1:1"},
	{line: "member add m5 --peer-urls=127.0.0.1"},
	{line: "member promote {added-id}", before: learnAdded},
	{line: "member update {added-id} --peer-urls=http://127.0.0.1:2"},
	{line: "member update {added-id} --peer-urls={follower-peer}"},
	{line: "member promote {leader-id}"},
	{line: "member remove {added-id}"},
	{line: "member remove {added-id}"},
	{line: "member remove zz"},
	{line: "--endpoints={follower} move-leader {follower-id}"},
	{line: "move-leader 1234"},
	{line: "move-leader {follower-id}"},
	{line: "endpoint status", sorted: true, before: learnRoles},
	{line: "check datascale --load=s --auto-compact --auto-defrag", slow: true},
	{line: "check perf --load=s", slow: true},
}
