package dbfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// maxSnapshots is how many snapshots Stele sends at once.
const maxSnapshots = 2

// member is a member alone and a client of it.
type member struct {
	*clientv3.Client
	url string
}

func start(t *testing.T, config cluster.Config) member {
	t.Helper()
	c := cluster.ForTest(t, config)
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return member{client, c.Members[0].ClientURL}
}

func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestASnapshotIsRestoredByEtcd saves a snapshot with etcdctl, has etcdutl check and restore it, and compares the etcd
// that runs on it with the member it was taken of.
func TestASnapshotIsRestoredByEtcd(t *testing.T) {
	ctx := patiently(t)
	stele := start(t, cluster.Config{Binary: cluster.StelePath()})
	fill(t, stele, 200, clientv3.WithCompactPhysical())
	path := filepath.Join(t.TempDir(), "snapshot.db")
	tool(t, "etcdctl", "--endpoints="+stele.url, "snapshot", "save", path)

	var told struct {
		Revision int64
		TotalKey int
		Version  string
	}
	if err := json.Unmarshal(tool(t, "etcdutl", "snapshot", "status", path, "--write-out=json"), &told); err != nil {
		t.Fatal(err)
	}
	all := get(t, stele, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if told.Revision != all.Header.Revision || int64(told.TotalKey) != all.Count || told.Version != "3.7.0" {
		t.Errorf("status says %+v of %d keys at revision %d", told, all.Count, all.Header.Revision)
	}

	restore := func(m *cluster.Member, initialCluster, token string) error {
		tool(t, "etcdutl", "snapshot", "restore", path, "--name="+m.Name, "--data-dir="+m.DataDir,
			"--initial-cluster="+initialCluster, "--initial-cluster-token="+token,
			"--initial-advertise-peer-urls="+m.PeerURL)
		return nil
	}
	etcd := start(t, cluster.Config{Binary: cluster.EtcdPath(), Prepare: restore})
	compare(t, "hash", stele, etcd, func(m member) (any, error) {
		hash, err := m.HashKV(ctx, m.url, 0)
		if err != nil {
			return nil, err
		}
		return []int64{int64(hash.Hash), hash.CompactRevision, hash.HashRevision, hash.Header.Revision}, nil
	})
	hash, err := stele.HashKV(ctx, stele.url, 0)
	if err != nil {
		t.Fatal(err)
	}
	for revision := hash.CompactRevision; revision <= hash.Header.Revision; revision += 7 {
		compare(t, fmt.Sprint("keys at ", revision), stele, etcd, func(m member) (any, error) {
			found, err := m.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(revision))
			if err != nil {
				return nil, err
			}
			return found.Kvs, nil
		})
	}
	if _, err := etcd.Get(ctx, "k", clientv3.WithRev(hash.CompactRevision-1)); err == nil {
		t.Error("etcd reads below the compact revision")
	}
	compare(t, "leases", stele, etcd, leases)
	if _, err := etcd.Put(ctx, "k", "after"); err != nil {
		t.Errorf("the restored etcd takes no put: %v", err)
	}
}

// TestASnapshotStaysWhatItWas changes, compacts and relocates everything while a snapshot is sent: it has the same bytes
// as one that was taken before.
func TestASnapshotStaysWhatItWas(t *testing.T) {
	onlyStele(t, "pages that are free in one file of etcd are used in the next")
	ctx := patiently(t)
	stele := start(t, cluster.Config{Binary: cluster.StelePath()})
	fill(t, stele, 40)
	before := receive(t, open(t, ctx, stele))
	late := open(t, ctx, stele)
	first, err := late.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		// A physical compaction would wait for the snapshot.
		fill(t, stele, 40+round)
		if _, err := stele.Defragment(ctx, stele.url); err != nil {
			t.Fatal(err)
		}
	}
	after := append(first.Blob, receive(t, late)...)
	if !bytes.Equal(before, after) {
		t.Fatalf("%d bytes before, %d bytes after, and they differ", len(before), len(after))
	}
	size := len(after) - sha256.Size
	if sum := sha256.Sum256(after[:size]); !bytes.Equal(sum[:], after[size:]) {
		t.Error("the last 32 bytes are not the SHA-256 of those before")
	}
	path := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(path, after, 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "etcdutl", "snapshot", "status", path)
}

// TestSnapshotsAreLimited lets clients hold snapshots without reading them.
func TestSnapshotsAreLimited(t *testing.T) {
	onlyStele(t, "etcd has no such limit")
	stele := start(t, cluster.Config{Binary: cluster.StelePath()})
	fill(t, stele, 10)
	var leave context.CancelFunc
	for range maxSnapshots {
		ctx, cancel := context.WithCancel(patiently(t))
		leave = cancel
		if _, err := open(t, ctx, stele).Recv(); err != nil {
			t.Fatal(err)
		}
	}
	ctx := patiently(t)
	_, err := open(t, ctx, stele).Recv()
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "2 snapshots are being taken") {
		t.Fatalf("one more snapshot: %v", err)
	}
	leave()
	for ; err != nil; _, err = open(t, ctx, stele).Recv() {
		if ctx.Err() != nil {
			t.Fatalf("the place of a client that left is still taken: %v", err)
		}
	}
}

// onlyStele skips a test of what other servers do not do, and says why.
func onlyStele(t *testing.T, why string) {
	t.Helper()
	if !cluster.IsStele(cluster.StelePath()) {
		t.Skip(why)
	}
}

// fill writes keys, large values among them, overwrites and deletes some, attaches some to leases, and compacts in the
// middle, with these options.
func fill(t *testing.T, m member, keys int, compaction ...clientv3.CompactOption) {
	t.Helper()
	ctx := patiently(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lease, err := m.Grant(ctx, 3600)
	check(err)
	for round := range 3 {
		for n := 0; n < keys; n += 20 {
			var ops []clientv3.Op
			for i := n; i < min(n+20, keys); i++ {
				value := fmt.Sprint("value ", round, " of ", i)
				if i%(2+round) == 0 {
					ops = append(ops, clientv3.OpPut(fmt.Sprintf("key/%04d", i), value))
				}
			}
			_, err := m.Txn(ctx).Then(ops...).Commit()
			check(err)
		}
		for n := range 3 {
			_, err = m.Put(ctx, fmt.Sprint("large/", n), strings.Repeat(fmt.Sprint(round), 1<<20))
			check(err)
		}
		_, err = m.Put(ctx, fmt.Sprint("leased/", round), "", clientv3.WithLease(lease.ID))
		check(err)
		deleted, err := m.Delete(ctx, fmt.Sprintf("key/%04d", round), clientv3.WithRange(fmt.Sprintf("key/%04d", 9-round)))
		check(err)
		if round == 1 {
			// At a revision with tombstones, which stay.
			_, err = m.Compact(ctx, deleted.Header.Revision, compaction...)
			check(err)
		}
	}
}

// leases lists all leases of a member with their TTLs and keys.
func leases(m member) (any, error) {
	list, err := m.Leases(context.Background())
	if err != nil {
		return nil, err
	}
	var told []string
	for _, lease := range list.Leases {
		one, err := m.TimeToLive(context.Background(), lease.ID, clientv3.WithAttachedKeys())
		if err != nil {
			return nil, err
		}
		slices.SortFunc(one.Keys, bytes.Compare)
		told = append(told, fmt.Sprintf("%x: %d s, %s", lease.ID, one.GrantedTTL, one.Keys))
	}
	slices.Sort(told)
	return told, nil
}

// compare fails the test unless both members answer the same.
func compare(t *testing.T, what string, one, other member, ask func(member) (any, error)) {
	t.Helper()
	var answers [2]string
	for i, m := range []member{one, other} {
		answer, err := ask(m)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		answers[i] = fmt.Sprint(answer)
	}
	if answers[0] != answers[1] {
		t.Errorf("%s: Stele %.2000s\netcd %.2000s", what, answers[0], answers[1])
	}
}

func get(t *testing.T, m member, options ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	found, err := m.Get(patiently(t), "", options...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func open(t *testing.T, ctx context.Context, m member) pb.Maintenance_SnapshotClient {
	t.Helper()
	stream, err := pb.NewMaintenanceClient(m.ActiveConnection()).Snapshot(ctx, &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// receive reads a snapshot to its end. What each message says remains, arrives.
func receive(t *testing.T, stream pb.Maintenance_SnapshotClient) []byte {
	t.Helper()
	return receiveOf(t, stream, "3.7.0")
}

// receiveOf reads a snapshot that has this version.
func receiveOf(t *testing.T, stream pb.Maintenance_SnapshotClient, version string) []byte {
	t.Helper()
	var all []byte
	announced := -1
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if message.Version != version {
			t.Fatalf("version %q", message.Version)
		}
		all = append(all, message.Blob...)
		total := len(all) + int(message.RemainingBytes)
		if announced >= 0 && total != announced && total != announced+sha256.Size {
			t.Fatalf("%d bytes in all, %d were announced", total, announced)
		}
		announced = total
	}
}

// tool runs one of etcd's tools, which must end with 0, and returns what it printed.
func tool(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	var errors bytes.Buffer
	cmd := exec.CommandContext(patiently(t), cluster.EtcdTool(name), args...)
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out, errors.Bytes())
	}
	return out
}
