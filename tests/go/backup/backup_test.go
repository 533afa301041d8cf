// Package backup copies running clusters into archives, hurts both, and restores states that the clusters had.
package backup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// restored starts a cluster with a state of an archive.
func restored(t *testing.T, size int, archive string, flags ...string) *cluster.Cluster {
	t.Helper()
	return cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: size,
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			args := []string{"utl", "restore", archive, "--data-dir=" + m.DataDir, "--name=" + m.Name, "--initial-cluster=" + initialCluster,
				"--initial-cluster-token=" + token, "--initial-advertise-peer-urls=" + m.PeerURL}
			if r := stele(t, append(args, flags...)...); r.code != 0 || !strings.Contains(r.errors, "state hashes were compared") {
				return fmt.Errorf("restore %q: %+v", flags, r)
			}
			return nil
		}})
}

// sameAs restores a state by its revision or time, and compares it with what it was.
func sameAs(t *testing.T, m moment, archive string, flags ...string) {
	t.Helper()
	c := restored(t, 1, archive, flags...)
	client := connect(t, c, m.asRoot)
	compare(t, fmt.Sprint("restored with ", flags), m.told, answers(t, client))
	if _, err := client.Put(patiently(t), "after", "x"); err != nil {
		t.Errorf("restored with %q: it takes no put: %v", flags, err)
	}
	check(t, c.Members[0].Terminate())
}

func atRevision(m moment) string { return fmt.Sprint("--to-revision=", m.revision) }

func atTime(m moment) string { return "--to-time=" + m.time.UTC().Format(time.RFC3339Nano) }

// TestEveryStateCanBeRestored copies a cluster while it is used, and kills the copy and the member meanwhile. Then every
// state that was looked at is restored, by revision and by time.
func TestEveryStateCanBeRestored(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	archive := "file://" + filepath.Join(t.TempDir(), "archive")
	copy := startBackup(t, c, archive)
	copy.says(t, "warning: the archive is not encrypted")
	copy.says(t, "copied the state at revision 1,")
	client := connect(t, c, false)
	var moments []moment
	use(t, client, 1)
	moments = append(moments, now(t, client))
	copy.ends(t, syscall.SIGKILL)

	use(t, client, 2)
	moments = append(moments, now(t, client))
	_, err := client.Compact(patiently(t), moments[0].revision)
	check(t, err)
	use(t, client, 3)
	moments = append(moments, now(t, client))
	c.Members[0].Kill()
	// It gets a token once there are users.
	copy = startBackup(t, c, archive, "--user=root:"+password)
	check(t, c.Members[0].Restart(t.Context()))

	use(t, client, 4)
	enableAuth(t, client)
	client = connect(t, c, true)
	use(t, client, 5)
	moments = append(moments, now(t, client))
	halfway := burst(t, client)
	copy.ends(t, syscall.SIGKILL)
	if code := startBackup(t, c, archive, "--once", "--user=root:"+password).ends(t, 0); code != 0 {
		t.Fatalf("backup --once: exit code %d", code)
	}
	if r := stele(t, "utl", "backup", "verify", archive); r.code != 0 || strings.Count(r.out, "revisions ") != 1 || !strings.Contains(r.out, fmt.Sprintf("revisions 1 to %d,", halfway.last)) {
		t.Errorf("verify: %+v", r)
	}
	last := now(t, client)
	sameAs(t, last, archive)
	for i, m := range moments {
		// Behind the last revision there are changes of users, which only the time tells from what was before.
		if i%2 == 0 {
			sameAs(t, m, archive, atRevision(m))
		} else {
			sameAs(t, m, archive, atTime(m))
		}
	}
	sameAs(t, moments[3], archive, atRevision(moments[3]))
	inBetween(t, halfway, archive)
	raised(t, moments[1], archive)

	t.Run("targets", func(t *testing.T) { badTargets(t, archive, last) })
	t.Run("damage", func(t *testing.T) { damagedArchives(t, strings.TrimPrefix(archive, "file://")) })
}

// inBetween restores a revision that is in the middle of an entry.
func inBetween(t *testing.T, want between, archive string) {
	t.Helper()
	client := connect(t, restored(t, 1, archive, fmt.Sprint("--to-revision=", want.revision)), true)
	if got := at(t, client, want.revision); got != want.told {
		t.Errorf("revision %d: %.500s\ninstead of %.500s", want.revision, got, want.told)
	}
	if found, err := client.Get(patiently(t), "x"); err != nil || found.Header.Revision != want.revision {
		t.Errorf("restored to revision %d instead of %d: %v", found.Header.Revision, want.revision, err)
	}
}

// raised restores a state with its revision raised above what clients may have seen: what they know to be newer is
// compacted, and keys are as they were. Three members, restored one by one, are one cluster.
func raised(t *testing.T, m moment, archive string) {
	t.Helper()
	const by = 1_000_000
	c := restored(t, 3, archive, atRevision(m), fmt.Sprint("--bump-revision=", by), "--mark-compacted")
	client := connect(t, c, false)
	found, err := client.Get(patiently(t), "\x00", clientv3.WithFromKey())
	check(t, err)
	if found.Header.Revision != m.revision+by {
		t.Errorf("revision %d, raised by %d, is %d", m.revision, by, found.Header.Revision)
	}
	keys := map[string]string{}
	for _, kv := range found.Kvs {
		keys[fmt.Sprintf("key %q", kv.Key)] = fmt.Sprint(kv)
	}
	want := maps.Clone(m.told)
	maps.DeleteFunc(want, func(asked, _ string) bool { return !strings.HasPrefix(asked, "key ") })
	compare(t, "raised", want, keys)
	// What a client saw of the old cluster behind the restored state.
	seen := m.revision + 1
	if _, err := client.Get(patiently(t), "x", clientv3.WithRev(seen)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("get at revision %d: %v instead of %v", seen, err, rpctypes.ErrCompacted)
	}
	events := client.Watch(patiently(t), "", clientv3.WithPrefix(), clientv3.WithRev(seen))
	if told := <-events; told.CompactRevision != m.revision+by {
		t.Errorf("watch from revision %d: %+v, which is no compaction at %d", seen, told, m.revision+by)
	}
	put, err := client.Put(patiently(t), "after", "x")
	check(t, err)
	if put.Header.Revision != m.revision+by+1 {
		t.Errorf("the first change makes revision %d instead of %d", put.Header.Revision, m.revision+by+1)
	}
	for _, member := range c.Members {
		check(t, member.Terminate())
	}
}

// TestEntriesAreKeptForACopy stops a copy for longer than the member would keep entries otherwise.
func TestEntriesAreKeptForACopy(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Args: []string{"--snapshot-count=10"}})
	archive := filepath.Join(t.TempDir(), "archive")
	for round := range 3 {
		client := connect(t, c, false)
		use(t, client, round+1)
		before := checkpoints(t, c)
		until(t, "a checkpoint that would free the log", func() bool {
			_, err := client.Put(patiently(t), "more", "x")
			check(t, err)
			return checkpoints(t, c) > before+1
		})
		b := startBackup(t, c, archive, "--once")
		if code := b.ends(t, 0); code != 0 || strings.Contains(b.out.String(), "can be restored") {
			t.Fatalf("exit code %d: %s", code, b.out)
		}
	}
	if r := stele(t, "utl", "backup", "verify", archive); r.code != 0 || strings.Count(r.out, "revisions ") != 1 {
		t.Errorf("verify: %+v", r)
	}
}

// checkpoints is how many checkpoints a member has written, by its metrics.
func checkpoints(t *testing.T, c *cluster.Cluster) float64 {
	t.Helper()
	return metric(t, c, `stele_background_job_duration_seconds_count{kind="checkpoint"}`)
}

// refused runs a restore that must end with one line, and must leave no directory behind.
func refused(t *testing.T, why string, args ...string) {
	t.Helper()
	target := filepath.Join(t.TempDir(), "target")
	r := stele(t, append([]string{"utl", "restore", "--data-dir=" + target}, args...)...)
	if r.code == 0 || strings.Count(r.errors, "\n") != 1 || !strings.Contains(r.errors, why) {
		t.Errorf("restore %q: %+v, which does not say %q", args, r, why)
	}
	if _, err := os.Stat(target); err == nil {
		t.Errorf("restore %q: %s was made", args, target)
	}
}

func badTargets(t *testing.T, archive string, last moment) {
	refused(t, fmt.Sprintf("ends at revision %d", last.revision), archive, fmt.Sprint("--to-revision=", last.revision+1))
	refused(t, "the archive ends at", archive, "--to-time=2999-01-01T00:00:00Z")
	refused(t, "the archive begins at revision 1", archive, "--to-time=2001-01-01T00:00:00Z")
	refused(t, "is no time", archive, "--to-time=yesterday")
	refused(t, "both given", archive, "--to-time=2999-01-01T00:00:00Z", "--to-revision=5")
	refused(t, "between 1 and", archive, "--to-revision=0")
	refused(t, "--mark-compacted required", archive, "--bump-revision=5")
	refused(t, "--mark-compacted required", archive, "--mark-compacted")
	refused(t, "no store reaches", archive, "--bump-revision=9000000000000000000", "--mark-compacted")
	refused(t, "one argument is required")
	refused(t, "holds no archive", "file://"+t.TempDir())
	refused(t, "cannot open the directory", "file:///no/such/directory")
	refused(t, "no absolute path", "file://relative")
	refused(t, "another form", "gs://bucket")
	refused(t, "cannot read the key", archive, "--encryption-key-file=/no/such")
	full := t.TempDir()
	check(t, os.WriteFile(filepath.Join(full, "mine"), []byte("x"), 0o600))
	if r := stele(t, "utl", "restore", archive, "--data-dir="+full); r.code != 1 || !strings.Contains(r.errors, "not empty") {
		t.Errorf("restore into a directory with a file: %+v", r)
	}
	if files, err := os.ReadDir(full); err != nil || len(files) != 1 {
		t.Errorf("a refused restore changed the directory: %v %v", files, err)
	}
}

// damagedArchives changes objects, one at a time: each is noticed, by a restore and by a check.
func damagedArchives(t *testing.T, dir string) {
	logs, err := filepath.Glob(filepath.Join(dir, "log", "*"))
	check(t, err)
	bases, err := filepath.Glob(filepath.Join(dir, "base", "*"))
	check(t, err)
	if len(logs) < 3 || len(bases) != 1 {
		t.Fatalf("the archive has %d log objects and %d bases", len(logs), len(bases))
	}
	damage := func(path, why string, change func(whole []byte) []byte) {
		t.Helper()
		whole, err := os.ReadFile(path)
		check(t, err)
		check(t, os.WriteFile(path, change(append([]byte{}, whole...)), 0o600))
		refused(t, why, dir)
		if r := stele(t, "utl", "backup", "verify", dir); r.code == 0 || !strings.Contains(r.errors, why) {
			t.Errorf("verify of a damaged archive: %+v, which does not say %q", r, why)
		}
		check(t, os.WriteFile(path, whole, 0o600))
	}
	for _, path := range []string{logs[1], bases[0]} {
		damage(path, "is damaged", func(whole []byte) []byte {
			whole[len(whole)/2] ^= 4
			return whole
		})
		damage(path, "cut off", func(whole []byte) []byte { return whole[:len(whole)-5] })
		damage(path, "no object of an archive", func(whole []byte) []byte { return append([]byte("foreign"), whole...) })
	}
	damage(filepath.Join(dir, "stele-backup"), "shorter than the header", func([]byte) []byte { return nil })
	swapped, err := os.ReadFile(logs[0])
	check(t, err)
	damage(logs[1], "stands where", func([]byte) []byte { return swapped })

	check(t, os.Rename(logs[1], logs[1]+".away"))
	refused(t, "are missing in the archive", dir)
	check(t, os.Rename(logs[1]+".away", logs[1]))
}
