package membership

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var old = flag.String("old", "", "an older release of the server, for the test that mixes the two")

var same = flag.String("same", "", "an older release that knows the same commands, for the test that mixes the two")

// recorded is what a member logs when the cluster begins to use a newer set of commands.
const recorded = "all members can apply a newer set of commands"

func TestReleasesMixMemberByMemberAndBack(t *testing.T) {
	if *old == "" {
		t.Skip("no older release was given: -old PATH")
	}
	f := begin(t, 3, *old)
	l := startLoad(f)
	f.run(*bin, 0, 1)
	f.mustRefuseMembershipChanges()
	f.run(*old, 1, 0)
	f.run(*bin, 2)
	f.run(*old, 2)
	f.run(*bin, 0, 1, 2)
	f.waitForLog(f.cluster.Members[0], recorded)
	f.join(true)

	// There is no way back any more, and the old release says why.
	f.cluster.AllowErrors("this Stele reads version", "run a release that knows it")
	first := f.cluster.Members[0]
	_ = first.Terminate()
	first.UseBinary(*old)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !first.Ended(ctx) {
		t.Error("a release that does not know the commands of the cluster runs")
	}
	log, err := first.RunLog()
	// Either it reads no checkpoint of this release, or it meets an entry first.
	reason := strings.Contains(log, "this Stele reads version") || strings.Contains(log, "run a release that knows it")
	if err != nil || !reason {
		t.Errorf("it does not say why it ended (%v):\n%s", err, log)
	}
	first.Kill()
	f.run(*bin, 0)
	// Each run of a member, and one more that ends.
	l.verify(f, 9)
}

// run restarts members, by their index, with a release, one after the other.
func (f *fleet) run(binary string, members ...int) {
	f.t.Helper()
	for _, index := range members {
		m := f.cluster.Members[index]
		_ = m.Terminate()
		m.UseBinary(binary)
		if err := m.Restart(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// mustRefuseMembershipChanges asks a member of the new release for what one of the old release would not understand.
func (f *fleet) mustRefuseMembershipChanges() {
	f.t.Helper()
	client := f.connect(f.cluster.Members[0])
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if _, err := client.MemberAdd(ctx, []string{"http://127.0.0.1:1"}); !errors.Is(err, rpctypes.ErrNotCapable) {
		f.t.Errorf("a member can be added: %v", err)
	}
}

// A release with the same commands can be mixed with this one in both directions for good, also while members change: each
// reads the directories, frames and snapshots of the other.
func TestReleasesWithTheSameCommandsMixMemberByMemberAndBack(t *testing.T) {
	if *same == "" {
		t.Skip("no older release was given: -same PATH")
	}
	f := begin(t, 3, *same)
	l := startLoad(f)
	f.writeEverything()
	// Each release is the only one, a part of the cluster, and what a member returns to.
	f.run(*bin, 0)
	f.run(*bin, 1, 2)
	f.writeEverything()
	f.run(*same, 2, 0)
	f.writeEverything()

	// Members of either release receive a snapshot of a cluster with both.
	for _, binary := range []string{*same, *bin} {
		f.binary, f.flags = binary, quick
		f.join(true)
	}
	f.run(*same, 1)
	f.remove(f.cluster.Members[4])
	f.remove(f.cluster.Members[3])
	f.run(*bin, 0, 1, 2)
	f.run(*same, 0, 1, 2)
	f.writeEverything()
	f.run(*bin, 2, 1, 0)
	f.mustHaveEverything()
	// Each run of a member, and two removals.
	l.verify(f, 17)
}

// everything is how many times writeEverything was called.
const everything = 4

// writeEverything makes commands and records of many kinds: keys, leases, transactions, a compaction, users.
func (f *fleet) writeEverything() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	f.written++
	key := fmt.Sprintf("everything/%d", f.written)
	lease, err := f.client.Grant(ctx, 3600)
	must(err)
	_, err = f.client.Put(ctx, key, strings.Repeat("v", 100_000), clientv3.WithLease(lease.ID))
	must(err)
	_, err = f.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", strings.Repeat("v", 100_000))).
		Then(clientv3.OpPut(key+"/txn", "v")).Commit()
	must(err)
	_, err = f.client.Put(ctx, "everything/deleted", "v")
	must(err)
	deleted, err := f.client.Delete(ctx, "everything/deleted")
	must(err)
	_, err = f.client.Compact(ctx, deleted.Header.Revision-1)
	must(err)
	_, err = f.client.RoleAdd(ctx, fmt.Sprintf("role%d", f.written))
	must(err)
	_, err = f.client.UserAdd(ctx, fmt.Sprintf("user%d", f.written), "password")
	must(err)
}

// mustHaveEverything reads what writeEverything has written from each member, and compares their hashes.
func (f *fleet) mustHaveEverything() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	revision := int64(0)
	hashes := map[uint32]int{}
	for _, m := range f.running() {
		client := f.connect(m)
		keys, err := client.Get(ctx, "everything/", clientv3.WithPrefix())
		if err != nil {
			f.t.Fatal(err)
		}
		if len(keys.Kvs) != 2*everything {
			f.t.Errorf("%s has %d of the keys, expected %d", m.Name, len(keys.Kvs), 2*everything)
		}
		for _, kv := range keys.Kvs {
			if length := len(kv.Value); length != 100_000 && length != 1 {
				f.t.Errorf("%s has a value of %d bytes under %s", m.Name, length, kv.Key)
			}
		}
		users, err := client.UserList(ctx)
		if err != nil || len(users.Users) != everything {
			f.t.Errorf("%s has the users %v (%v)", m.Name, users, err)
		}
		leases, err := client.Leases(ctx)
		if err != nil || len(leases.Leases) != everything {
			f.t.Errorf("%s has other leases: %v (%v)", m.Name, leases, err)
		}
		if revision == 0 {
			revision = keys.Header.Revision
		}
		hash, err := client.HashKV(ctx, m.ClientURL, revision)
		if err != nil {
			f.t.Fatal(err)
		}
		hashes[hash.Hash]++
	}
	if len(hashes) != 1 {
		f.t.Errorf("the members have different hashes at revision %d: %v", revision, hashes)
	}
}
