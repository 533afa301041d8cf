package utl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// writers is how many clients write at once.
const writers = 4

// TestAKilledEtcdIsImportedCompletely kills etcd under load, imports what it leaves, and starts it again: both must have
// the same. Its database reaches the disk every now and then, or hardly ever: then its log has nearly everything.
func TestAKilledEtcdIsImportedCompletely(t *testing.T) {
	for name, args := range map[string][]string{
		"Usual":     nil,
		"LogAlone":  {"--backend-batch-interval=1h", "--backend-batch-limit=1000000"},
		"Snapshots": {"--backend-batch-interval=1h", "--snapshot-count=100"},
	} {
		t.Run(name, func(t *testing.T) { killedAndImported(t, args, name == "LogAlone") })
	}
}

// killedAndImported imports what a killed member left. With needsLog the import must find entries in the log.
func killedAndImported(t *testing.T, args []string, needsLog bool) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(), Args: args})
	left := killedUnderLoad(t, source, needsLog)
	check(t, source.Members[0].Restart(t.Context()))
	want := everything(t, source)
	imported, said := importedCluster(t, left)
	if needsLog && !strings.Contains(said, "entries of its log behind the database") {
		t.Errorf("import says %s", said)
	}
	compare(t, "an imported member", want, everything(t, imported))
	_, err := connect(t, imported, "root").Put(patiently(t), "after", "x")
	check(t, err)
}

// killedUnderLoad uses what a member can hold, kills it while clients write, and returns a copy of its directory. With
// logAlone, the load before the kill has nothing that makes etcd commit its database (compactions, what deletes from a
// bucket, and changes of users do): what is put after the last user is then in the log alone, however soon the kill comes.
func killedUnderLoad(t *testing.T, source *cluster.Cluster, logAlone bool) string {
	t.Helper()
	stop := write(t, source, "", true)
	fill(t, connect(t, source, ""))
	stop()
	root := connect(t, source, "root")
	if logAlone {
		last, err := root.Put(patiently(t), "before", "x")
		check(t, err)
		_, err = root.Compact(patiently(t), last.Header.Revision, clientv3.WithCompactPhysical())
		check(t, err)
	}
	stop = write(t, source, "root", !logAlone)
	changeUsers(t, root)
	_, err := root.Put(patiently(t), "last", "x")
	check(t, err)
	source.Members[0].Kill()
	stop()
	return copiedDir(t, source.Members[0].DataDir)
}

// everything is what root and guest see.
func everything(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	told := answers(t, connect(t, c, "root"))
	told["guest"] = seenByGuest(t, c)
	return told
}

// importedCluster is a member that was made of a directory of etcd, and what the import said.
func importedCluster(t *testing.T, dir string, flags ...string) (*cluster.Cluster, string) {
	t.Helper()
	var said string
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(),
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			said = utl(t, append([]string{"import", dir, "--name=" + m.Name, "--data-dir=" + m.DataDir,
				"--initial-cluster=" + initialCluster, "--initial-cluster-token=" + token,
				"--initial-advertise-peer-urls=" + m.PeerURL}, flags...)...)
			return nil
		}})
	return c, said
}

// write writes with every kind of request, or with those that do not commit, until it is stopped or the server is gone.
func write(t *testing.T, c *cluster.Cluster, user string, commits bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done, begun sync.WaitGroup
	for writer := range writers {
		client := connect(t, c, user)
		begun.Add(1)
		done.Go(func() {
			err := writeOnce(ctx, client, writer, 0, commits)
			begun.Done()
			// Once users are demanded, requests without one are refused, when they are applied.
			for round := 1; err == nil; round++ {
				err = writeOnce(ctx, client, writer, round, commits)
			}
		})
	}
	begun.Wait()
	return func() {
		cancel()
		done.Wait()
	}
}

// writeOnce puts and deletes, compares values that are in the database or only in the log, and uses leases.
func writeOnce(ctx context.Context, client *clientv3.Client, writer, round int, commits bool) error {
	key, value := fmt.Sprintf("load/%d/%d", writer, round%7), fmt.Sprintf("%d %s", round, strings.Repeat("v", round*97%2000))
	put, err := client.Put(ctx, key, value)
	if err != nil {
		return err
	}
	same := clientv3.Compare(clientv3.Value(key), "=", value)
	other := clientv3.Compare(clientv3.Value("large"), ">", "1")
	swap := clientv3.OpTxn([]clientv3.Cmp{other}, []clientv3.Op{clientv3.OpPut(key+"/large", value)}, nil)
	_, err = client.Txn(ctx).If(same).Then(clientv3.OpPut(key+"/same", value), clientv3.OpDelete(key), swap).
		Else(clientv3.OpPut(key+"/other", "")).Commit()
	if err != nil {
		return err
	}
	lease, err := client.Grant(ctx, int64(1000+round))
	if err != nil {
		return err
	}
	if _, err = client.Put(ctx, key+"/leased", "", clientv3.WithLease(lease.ID)); err != nil {
		return err
	}
	switch {
	case round%4 == 1 && commits:
		_, err = client.Revoke(ctx, lease.ID)
	case round%4 == 2:
		_, err = client.Put(ctx, key+"/leased", "", clientv3.WithIgnoreLease(), clientv3.WithPrevKV())
	case round%4 == 3 && commits:
		// Another writer may have compacted later.
		_, _ = client.Compact(ctx, put.Header.Revision-20)
	}
	return err
}

// changeUsers changes users and roles, and ends while the others write.
func changeUsers(t *testing.T, root *clientv3.Client) {
	t.Helper()
	ctx := patiently(t)
	for i := range 3 {
		name := fmt.Sprint("user", i)
		_, err := root.UserAdd(ctx, name, password)
		check(t, err)
		_, err = root.RoleAdd(ctx, name)
		check(t, err)
		_, err = root.RoleGrantPermission(ctx, name, "load/", "load0", clientv3.PermissionType(clientv3.PermReadWrite))
		check(t, err)
		_, err = root.UserGrantRole(ctx, name, name)
		check(t, err)
	}
	_, err := root.UserDelete(ctx, "user1")
	check(t, err)
	_, err = root.RoleDelete(ctx, "user1")
	check(t, err)
	_, err = root.RoleRevokePermission(ctx, "user2", "load/", "load0")
	check(t, err)
	_, err = root.UserChangePassword(ctx, "guest", password+"2")
	check(t, err)
	_, err = root.UserChangePassword(ctx, "guest", password)
	check(t, err)
}

// seenByGuest is what a user sees who may read a part, which shows the password too.
func seenByGuest(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	guest := connect(t, c, "guest")
	found, err := guest.Get(patiently(t), "key/", clientv3.WithPrefix())
	check(t, err)
	_, err = guest.Get(patiently(t), "load/", clientv3.WithPrefix())
	return fmt.Sprintf("%d keys, and of others %v", found.Count, err)
}

// TestOnlyCommittedEntriesAreImported leaves out what the hard state does not have: what is imported is what etcd had at
// that revision.
func TestOnlyCommittedEntriesAreImported(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(),
		Args: []string{"--backend-batch-interval=1h", "--backend-batch-limit=1000000"}})
	member := source.Members[0]
	client := connect(t, source, "")
	for i := range 10 {
		_, err := client.Put(patiently(t), fmt.Sprint("key", i), fmt.Sprint(i))
		check(t, err)
	}
	member.Kill()
	left := copiedDir(t, member.DataDir)
	check(t, member.Restart(t.Context()))
	all, _ := importedCluster(t, left)
	some, _ := importedCluster(t, left, "--committed-only")
	revisionOf := func(c *cluster.Cluster) int64 {
		found, err := connect(t, c, "").Get(patiently(t), "key0")
		check(t, err)
		return found.Header.Revision
	}
	if revisionOf(all) != revisionOf(source) || revisionOf(some) > revisionOf(all) || revisionOf(some) < 10 {
		t.Errorf("etcd is at revision %d, all of its log at %d, what was committed at %d",
			revisionOf(source), revisionOf(all), revisionOf(some))
	}
	hash := func(c *cluster.Cluster) uint32 {
		found, err := connect(t, c, "").HashKV(patiently(t), c.Endpoints()[0], revisionOf(some))
		check(t, err)
		return found.Hash
	}
	if hash(some) != hash(source) {
		t.Error("what was committed is not what etcd had")
	}
}

// TestAReceivedSnapshotIsImported names the database as etcd does between receiving it from a leader and using it.
func TestAReceivedSnapshotIsImported(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(), Args: []string{"--snapshot-count=20"}})
	member := source.Members[0]
	client := connect(t, source, "")
	_, err := client.Put(patiently(t), "old", "x")
	check(t, err)
	stop(member)
	older := copied(t, filepath.Join(member.DataDir, "member", "snap", "db"))
	check(t, member.Restart(t.Context()))
	for i := range 60 {
		_, err = client.Put(patiently(t), "new", fmt.Sprint(i))
		check(t, err)
	}
	want, err := client.HashKV(patiently(t), source.Endpoints()[0], 0)
	check(t, err)
	stop(member)
	dir := copiedDir(t, member.DataDir)
	snap := filepath.Join(dir, "member", "snap")
	// The names end with the index: 0000000000000002-000000000000002a.snap.
	names, err := filepath.Glob(filepath.Join(snap, "*-*.snap"))
	check(t, err)
	if len(names) == 0 {
		t.Fatal("etcd took no snapshot")
	}
	newest := filepath.Base(slices.Max(names))
	index := newest[strings.Index(newest, "-")+1:]
	check(t, os.Rename(filepath.Join(snap, "db"), filepath.Join(snap, index+".db")))
	check(t, os.Rename(older, filepath.Join(snap, "db")))
	imported, _ := importedCluster(t, dir)
	got, err := connect(t, imported, "").HashKV(patiently(t), imported.Endpoints()[0], 0)
	check(t, err)
	if got.Hash != want.Hash || got.HashRevision != want.HashRevision {
		t.Errorf("HashKV is %x at %d instead of %x at %d", got.Hash, got.HashRevision, want.Hash, want.HashRevision)
	}
	check(t, os.Remove(filepath.Join(snap, index+".db")))
	r := run(t, cluster.StelePath(), "utl", "import", dir, "--data-dir="+filepath.Join(t.TempDir(), "x"))
	if r.code != 1 || !strings.Contains(r.errors, "which is later") {
		t.Errorf("without the snapshot: %+v", r)
	}
}
