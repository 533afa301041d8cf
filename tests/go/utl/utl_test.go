// Package utl takes data from etcd to Stele and back with the offline tool, and compares what it prints with etcdutl.
package utl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// password is root's, once there are users.
const password = "secret"

func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect makes a client of the first member, as root unless name is empty.
func connect(t *testing.T, c *cluster.Cluster, name string) *clientv3.Client {
	t.Helper()
	return connectTo(t, c.Endpoints()[0], name)
}

// connectTo makes a client of one member, as root unless name is empty.
func connectTo(t *testing.T, endpoint, name string) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: patience, Logger: zap.NewNop(), Username: name}
	if name != "" {
		config.Password = password
	}
	client, err := clientv3.New(config)
	check(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// result is what scripts see of a line.
type result struct {
	out, errors string
	code        int
}

func run(t *testing.T, path string, args ...string) result {
	t.Helper()
	return runAs(t, nil, path, args...)
}

// runAs runs a program in a process with these attributes.
func runAs(t *testing.T, process *syscall.SysProcAttr, path string, args ...string) result {
	t.Helper()
	if c, err := offered(); err == nil && path == cluster.EtcdTool("etcdutl") {
		c.Note(args)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(patiently(t), path, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, &errs, process
	r := result{}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else {
		check(t, err)
	}
	r.out, r.errors = out.String(), errs.String()
	return r
}

// ours is a link to Stele's binary with the name of etcd's tool.
func ours(t *testing.T) string {
	t.Helper()
	stele, err := filepath.Abs(cluster.StelePath())
	check(t, err)
	path := filepath.Join(t.TempDir(), "etcdutl")
	check(t, os.Symlink(stele, path))
	return path
}

// fill uses what a cluster can hold: versions, transactions, deleted keys, leases, a compaction, users and roles.
func fill(t *testing.T, client *clientv3.Client) {
	t.Helper()
	ctx := patiently(t)
	lease, err := client.Grant(ctx, 3600)
	check(t, err)
	idle, err := client.Grant(ctx, 7200)
	check(t, err)
	for round := range 3 {
		var ops []clientv3.Op
		for n := range 20 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("key/%d/%02d", n%3, n), fmt.Sprint("value ", round)))
		}
		_, err = client.Txn(ctx).Then(ops...).Commit()
		check(t, err)
		_, err = client.Put(ctx, "large", strings.Repeat(fmt.Sprint(round), 1<<20))
		check(t, err)
		_, err = client.Put(ctx, fmt.Sprint("leased/", round), "", clientv3.WithLease(lease.ID))
		check(t, err)
		deleted, err := client.Delete(ctx, fmt.Sprintf("key/%d/", round), clientv3.WithPrefix())
		check(t, err)
		if round == 1 {
			_, err = client.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
			check(t, err)
		}
	}
	_, err = client.Put(ctx, "\x00binary\xff", "\x00\xff", clientv3.WithLease(idle.ID))
	check(t, err)
	// A transaction within one, and a lease that is gone with its key.
	nested := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("large"), ">", 0)},
		[]clientv3.Op{clientv3.OpPut("nested", "then"), clientv3.OpDelete("key/1/01")}, []clientv3.Op{clientv3.OpPut("nested", "else")})
	_, err = client.Txn(ctx).Then(clientv3.OpPut("outer", "x"), nested).Commit()
	check(t, err)
	gone, err := client.Grant(ctx, 3600)
	check(t, err)
	_, err = client.Put(ctx, "gone", "x", clientv3.WithLease(gone.ID))
	check(t, err)
	_, err = client.Revoke(ctx, gone.ID)
	check(t, err)
	for _, permission := range []struct {
		role, begin, end string
		kind             clientv3.PermissionType
	}{
		{"reader", "key/", "key0", clientv3.PermissionType(clientv3.PermRead)},
		{"writer", "one", "", clientv3.PermissionType(clientv3.PermWrite)},
		{"writer", "from", "\x00", clientv3.PermissionType(clientv3.PermReadWrite)},
	} {
		if permission.role != "writer" || permission.end == "" {
			_, err = client.RoleAdd(ctx, permission.role)
			check(t, err)
		}
		_, err = client.RoleGrantPermission(ctx, permission.role, permission.begin, permission.end, permission.kind)
		check(t, err)
	}
	_, err = client.RoleAdd(ctx, "without users")
	check(t, err)
	_, err = client.UserAddWithOptions(ctx, "certified", "", &clientv3.UserAddOptions{NoPassword: true})
	check(t, err)
	for user, role := range map[string]string{"root": "root", "guest": "reader"} {
		_, err = client.UserAdd(ctx, user, password)
		check(t, err)
		_, err = client.UserGrantRole(ctx, user, role)
		check(t, err)
	}
	_, err = client.AuthEnable(ctx)
	check(t, err)
}

// maxRevisions is at how many revisions, about, the history of a large state is asked for.
const maxRevisions = 50

// answers is all that clients can ask, by what was asked. Their texts do not depend on how a library prints messages: some
// are kept in files.
func answers(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	ctx, told := patiently(t), map[string]string{}
	endpoint := client.Endpoints()[0]
	last, err := client.HashKV(ctx, endpoint, 0)
	check(t, err)
	// Releases before 3.6 do not say of which revision the hash is.
	newest := last.Header.Revision
	told["revision"] = fmt.Sprint(newest, " ", last.CompactRevision)
	told["hash"] = fmt.Sprint(last.Hash)
	step := max(1, (newest-last.CompactRevision)/maxRevisions)
	for revision := max(1, last.CompactRevision); revision <= newest; revision += step {
		// At the compact revision, the server that compacted answers with the hash that it kept, of all it had before.
		if revision > last.CompactRevision {
			hash, err := client.HashKV(ctx, endpoint, revision)
			check(t, err)
			told[fmt.Sprint("hash at ", revision)] = fmt.Sprint(hash.Hash)
		}
		found, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
		check(t, err)
		told[fmt.Sprint("keys at ", revision)] = pairs(found.Kvs)
	}
	found, err := client.Get(ctx, "\x00", clientv3.WithFromKey())
	check(t, err)
	told["keys"] = pairs(found.Kvs)
	_, err = client.Get(ctx, "key", clientv3.WithRev(last.CompactRevision-1))
	told["below"] = fmt.Sprint(err)
	leases, err := client.Leases(ctx)
	check(t, err)
	for _, lease := range leases.Leases {
		one, err := client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		check(t, err)
		slices.SortFunc(one.Keys, bytes.Compare)
		told[fmt.Sprintf("lease %x", lease.ID)] = fmt.Sprintf("%d s, %q", one.GrantedTTL, one.Keys)
	}
	alarms, err := client.AlarmList(ctx)
	check(t, err)
	for _, alarm := range alarms.Alarms {
		told[fmt.Sprintf("alarm %v of %x", alarm.Alarm, alarm.MemberID)] = "raised"
	}
	// etcd 3.4 does not know this call.
	if auth, err := client.AuthStatus(ctx); err == nil {
		told["auth"] = fmt.Sprint(auth.Enabled, auth.AuthRevision)
	}
	users, err := client.UserList(ctx)
	check(t, err)
	for _, name := range users.Users {
		user, err := client.UserGet(ctx, name)
		check(t, err)
		told["user "+name] = fmt.Sprint(user.Roles)
	}
	roles, err := client.RoleList(ctx)
	check(t, err)
	for _, name := range roles.Roles {
		role, err := client.RoleGet(ctx, name)
		check(t, err)
		for _, own := range role.Perm {
			told["role "+name] += fmt.Sprintf("%v %q-%q ", own.PermType, own.Key, own.RangeEnd)
		}
	}
	return told
}

// pairs are keys and values with their numbers; of a long value its checksum.
func pairs(kvs []*mvccpb.KeyValue) string {
	var all strings.Builder
	for _, kv := range kvs {
		value := fmt.Sprintf("%q", kv.Value)
		if len(kv.Value) > 32 {
			value = fmt.Sprintf("%d bytes %08x", len(kv.Value), crc32.ChecksumIEEE(kv.Value))
		}
		fmt.Fprintf(&all, "%q=%s %d %d %d %x; ", kv.Key, value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
	}
	return all.String()
}

func compare(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for asked, answer := range want {
		if got[asked] != answer {
			t.Errorf("%s: %s: %.500s\ninstead of %.500s", what, asked, got[asked], answer)
		}
	}
	for asked := range maps.Keys(got) {
		if _, known := want[asked]; !known {
			t.Errorf("%s: %s: %.500s, which was not there", what, asked, got[asked])
		}
	}
}

// variables are those of the manual for a member of a test's cluster.
func variables(m *cluster.Member, initialCluster, token string) []string {
	return []string{"NAME=" + m.Name, "DATA_DIR=" + m.DataDir, "CLUSTER=" + initialCluster, "TOKEN=" + token, "PEER_URL=" + m.PeerURL}
}

// stop ends a member cleanly. etcd ends by the signal then, which counts as an error.
func stop(m *cluster.Member) { _ = m.Terminate() }

// TestDataGoesToSteleAndBack fills an etcd, makes Stele members of its snapshot and of its directory, and an etcd of what
// Stele exports. All answer the same.
func TestDataGoesToSteleAndBack(t *testing.T) {
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath()})
	fill(t, connect(t, source, ""))
	root := connect(t, source, "root")
	want := answers(t, root)
	var revision int64
	_, err := fmt.Sscan(want["revision"], &revision)
	check(t, err)
	guide := newGuide(t)
	guide.follow(t, "etcdctl --endpoints", "ETCD="+source.Endpoints()[0])
	snapshot := filepath.Join(guide.dir, "snapshot.db")
	root.Close()
	etcdDir := source.Members[0].DataDir
	if r := run(t, cluster.StelePath(), "utl", "import", etcdDir, "--timeout=1ms", "--data-dir="+filepath.Join(t.TempDir(), "x")); r.code != 1 || !strings.Contains(r.errors, "another process uses") {
		t.Errorf("import from a running etcd: %+v", r)
	}
	stop(source.Members[0])

	t.Run("forms", func(t *testing.T) { sameForms(t, copied(t, snapshot)) })
	t.Run("bad input", func(t *testing.T) { badInput(t, snapshot) })
	t.Run("damage", func(t *testing.T) { damagedSnapshots(t, snapshot) })
	t.Run("actions", func(t *testing.T) { sameActions(t, snapshot, etcdDir) })
	t.Run("rewrite", func(t *testing.T) { rewritten(t, etcdDir) })
	t.Run("raise", func(t *testing.T) { raised(t, snapshot, revision) })

	three := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3,
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			guide.follow(t, "stele utl snapshot restore", variables(m, initialCluster, token)...)
			return nil
		}})
	for i, endpoint := range three.Endpoints() {
		compare(t, fmt.Sprint("restored member ", i), want, answers(t, connectTo(t, endpoint, "root")))
	}
	client := connect(t, three, "root")
	if _, err := client.Put(patiently(t), "after", "x"); err != nil {
		t.Errorf("the restored cluster takes no put: %v", err)
	}

	imported := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(),
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			guide.follow(t, "stele utl import $ETCD_DIR --initial-cluster", append(variables(m, initialCluster, token), "ETCD_DIR="+etcdDir)...)
			return nil
		}})
	compare(t, "an imported member", want, answers(t, connect(t, imported, "root")))
	member := imported.Members[0]
	if r := run(t, cluster.StelePath(), "utl", "verify", "--data-dir="+member.DataDir); r.code != 1 || !strings.Contains(r.errors, "process") {
		t.Errorf("verify beside a running member: %+v", r)
	}
	stop(member)
	guide.follow(t, "stele utl inspect", "STELE_DIR="+member.DataDir)
	t.Run("damaged directories", func(t *testing.T) { damagedDirectories(t, etcdDir, member.DataDir) })

	back := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(),
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			guide.follow(t, "stele utl export export.db", append(variables(m, initialCluster, token), "STELE_DIR="+member.DataDir)...)
			return nil
		}})
	compare(t, "etcd again", want, answers(t, connect(t, back, "root")))
}

// copied is a copy of a file, for etcdutl, which changes what it hashes.
func copied(t *testing.T, path string) string {
	t.Helper()
	whole, err := os.ReadFile(path)
	check(t, err)
	copied := filepath.Join(t.TempDir(), "copy.db")
	check(t, os.WriteFile(copied, whole, 0o600))
	return copied
}

// sameForms compares what both tools print of the same file.
func sameForms(t *testing.T, snapshot string) {
	tool := ours(t)
	for _, form := range []string{"simple", "json", "fields", "table", "protobuf", "nonsense"} {
		for _, args := range [][]string{{"snapshot", "status", snapshot}, {"hashkv", snapshot}, {"hashkv", snapshot, "--rev=12"}} {
			args = append(args, "--write-out="+form)
			if want, got := run(t, cluster.EtcdTool("etcdutl"), args...), run(t, tool, args...); want != got {
				t.Errorf("%q\netcdutl: %+v\nstele:   %+v", args, want, got)
			}
		}
	}
	for _, rev := range []string{"1", "1000000"} {
		args := []string{"hashkv", snapshot, "--rev=" + rev}
		if want, got := run(t, cluster.EtcdTool("etcdutl"), args...), run(t, tool, args...); want != got {
			t.Errorf("%q\netcdutl: %+v\nstele:   %+v", args, want, got)
		}
	}
}

// sameActions compares the exit codes of both tools when they succeed, and their outputs besides logs.
func sameActions(t *testing.T, snapshot, etcdDir string) {
	tool := ours(t)
	for _, text := range []string{
		"snapshot restore SNAPSHOT --data-dir=NEW",
		"snapshot restore SNAPSHOT --data-dir=NEW --skip-hash-check --initial-memory-map-size=1000000",
		"snapshot restore SNAPSHOT --data-dir=NEW --bump-revision=1000 --mark-compacted",
		"snapshot restore SNAPSHOT --data-dir=NEW --wal-dir=WAL --name=n --initial-cluster=n=http://127.0.0.1:1 --initial-cluster-token=t --initial-advertise-peer-urls=http://127.0.0.1:1",
		"snapshot restore SNAPSHOT --data-dir=DIRECTORY",
		"snapshot restore SNAPSHOT --data-dir=NEW --name=other --initial-cluster=n=http://127.0.0.1:1",
		"defrag --data-dir=DIRECTORY",
		"migrate --data-dir=DIRECTORY --target-version=3.7",
		"migrate --data-dir=DIRECTORY --target-version=3.6 --force",
	} {
		both := func(path string) result {
			dir := t.TempDir()
			args := strings.Fields(strings.NewReplacer("SNAPSHOT", copied(t, snapshot), "NEW", filepath.Join(dir, "new"), "WAL", filepath.Join(dir, "wal"),
				"DIRECTORY", copiedDir(t, etcdDir)).Replace(text))
			r := run(t, path, args...)
			return result{out: strings.ReplaceAll(r.out, dir, ""), code: r.code}
		}
		if want, got := both(cluster.EtcdTool("etcdutl")), both(tool); want != got {
			t.Errorf("%s\netcdutl: %+v\nstele:   %+v", text, want, got)
		}
	}
}

// damagedSnapshots restores files that are cut or changed: one line says so, and no directory is left.
func damagedSnapshots(t *testing.T, snapshot string) {
	whole, err := os.ReadFile(snapshot)
	check(t, err)
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	for name, bytes := range map[string][]byte{
		"cut": whole[:len(whole)/2/4096*4096], "flipped": flipped, "empty": nil, "without sum": whole[:len(whole)-32],
	} {
		path, target := filepath.Join(t.TempDir(), "damaged.db"), filepath.Join(t.TempDir(), "target")
		check(t, os.WriteFile(path, bytes, 0o600))
		r := run(t, cluster.StelePath(), "utl", "snapshot", "restore", path, "--data-dir="+target)
		if r.code != 1 || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := os.Stat(target); err == nil {
			t.Errorf("%s: %s was made", name, target)
		}
	}
}

// TestItPrintsWhatEtcdutlPrints compares pages, errors and exit codes.
func TestItPrintsWhatEtcdutlPrints(t *testing.T) {
	tool := ours(t)
	for _, text := range []string{
		"", "--help", "help", "help snapshot", "help frob", "-h version", "--help snapshot status", "snapshot", "snapshot --help", "snapshot restore --help", "snapshot status --help",
		"snapshot frob", "hashkv", "hashkv --help", "hashkv a b", "hashkv --frob", "hashkv --rev=x f", "defrag", "defrag --help",
		"migrate", "migrate --help", "migrate --data-dir=x --target-version=3", "migrate --data-dir=x --target-version=3.4",
		"completion", "completion --help", "completion frob", "version", "version --help", "frob", "snapshot status",
		"snapshot status /no/such", "snapshot restore", "snapshot restore x --bump-revision=1", "snapshot restore x --mark-compacted",
		"snapshot status x -w", "--timeout=1 version", "vers",
	} {
		args := strings.Fields(text)
		if want, got := run(t, cluster.EtcdTool("etcdutl"), args...), run(t, tool, args...); want != got {
			t.Errorf("%q\netcdutl: %+v\nstele:   %+v", args, want, got)
		}
	}
}
