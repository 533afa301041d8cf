package utl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stele.test/cluster"
)

// utl runs a command of ours that must end well.
func utl(t *testing.T, args ...string) string {
	t.Helper()
	r := run(t, cluster.StelePath(), append([]string{"utl"}, args...)...)
	if r.code != 0 {
		t.Fatalf("%q: %+v", args, r)
	}
	return r.out + r.errors
}

// copiedDir is a copy of a directory.
func copiedDir(t *testing.T, dir string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	check(t, os.CopyFS(copied, os.DirFS(dir)))
	return copied
}

// rewritten defragments a copy of etcd's directory and migrates it there and back; etcdutl finds the same in it.
func rewritten(t *testing.T, etcdDir string) {
	dir := copiedDir(t, etcdDir)
	status := func() string {
		r := run(t, cluster.EtcdTool("etcdutl"), "snapshot", "status", filepath.Join(dir, "member", "snap", "db"))
		if r.code != 0 {
			t.Fatalf("etcdutl cannot read the database: %+v", r)
		}
		fields := strings.Split(strings.TrimSpace(r.out), ", ")
		// All but the size.
		return strings.Join(append(fields[:3], fields[4:]...), " ")
	}
	whole := status()
	if out := utl(t, "defrag", "--data-dir="+dir); !strings.Contains(out, "bytes, before") || status() != whole {
		t.Errorf("defrag: %s: %s instead of %s", out, status(), whole)
	}
	if r := run(t, cluster.StelePath(), "utl", "migrate", "--data-dir="+dir, "--target-version=3.6"); r.code == 0 {
		t.Errorf("downwards without --force: %+v", r)
	}
	utl(t, "migrate", "--data-dir="+dir, "--target-version=3.6", "--force")
	if older := status(); !strings.Contains(older, "3.6.0") {
		t.Errorf("after the migration to 3.6: %s", older)
	}
	utl(t, "migrate", "--data-dir="+dir, "--target-version=3.7")
	if status() != whole {
		t.Errorf("after both migrations: %s instead of %s", status(), whole)
	}
	left, err := os.ReadDir(filepath.Join(dir, "member", "snap"))
	check(t, err)
	for _, file := range left {
		if strings.HasSuffix(file.Name(), ".part") {
			t.Errorf("%s was left", file.Name())
		}
	}
}

// raised restores a snapshot with a raised revision and a separate WAL directory.
func raised(t *testing.T, snapshot string, revision int64) {
	dir, wal := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "wal")
	restore := []string{"snapshot", "restore", snapshot, "--data-dir=" + dir, "--bump-revision=1000", "--mark-compacted"}
	utl(t, append(restore, "--wal-dir="+wal)...)
	both := []string{"--data-dir=" + dir, "--wal-dir=" + wal}
	if out := utl(t, append([]string{"verify"}, both...)...); !strings.HasPrefix(out, "no damage") {
		t.Errorf("verify: %s", out)
	}
	shown := strings.Join(strings.Fields(utl(t, append([]string{"inspect"}, both...)...)), " ")
	if wanted := fmt.Sprintf("revision %d compacted %d ", revision+1000, revision+1000); !strings.Contains(shown, wanted) {
		t.Errorf("inspect has no %q: %s", wanted, shown)
	}
	// etcd's default place for the log is that of a directory without a separate one.
	dir = filepath.Join(t.TempDir(), "data")
	restore[3] = "--data-dir=" + dir
	utl(t, append(restore, "--wal-dir="+filepath.Join(dir, "member", "wal"))...)
	utl(t, "verify", "--data-dir="+dir)
}

// damagedDirectories flips bits in copies of a stopped etcd's log and of a stopped Stele member's values.
func damagedDirectories(t *testing.T, etcdDir, steleDir string) {
	dir := copiedDir(t, etcdDir)
	logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	check(t, err)
	flip(t, logs[len(logs)-1], []byte("value 1"))
	imported := []string{"utl", "import", dir, "--data-dir=" + filepath.Join(t.TempDir(), "x")}
	if r := run(t, cluster.StelePath(), imported...); r.code != 1 || !strings.Contains(r.errors, "is damaged at offset") {
		t.Errorf("import with a damaged log: %+v", r)
	}
	for _, path := range logs {
		check(t, os.Remove(path))
	}
	if r := run(t, cluster.StelePath(), imported...); r.code != 1 || !strings.Contains(r.errors, "no file of a log") {
		t.Errorf("import without a log: %+v", r)
	}

	dir = copiedDir(t, steleDir)
	values, err := filepath.Glob(filepath.Join(dir, "member", "data", "*"))
	check(t, err)
	flip(t, values[0], bytes.Repeat([]byte("2"), 4096))
	if r := run(t, cluster.StelePath(), "utl", "verify", "--data-dir="+dir); r.code != 1 || !strings.Contains(r.out, `key "large"`) {
		t.Errorf("verify of a damaged value: %+v", r)
	}
}

// flip changes a bit in the middle of the first of these bytes in a file.
func flip(t *testing.T, path string, what []byte) {
	t.Helper()
	whole, err := os.ReadFile(path)
	check(t, err)
	at := bytes.Index(whole, what)
	if at < 0 {
		t.Fatalf("%s has no %.20q", path, what)
	}
	whole[at+len(what)/2] ^= 1
	check(t, os.WriteFile(path, whole, 0o600))
}
