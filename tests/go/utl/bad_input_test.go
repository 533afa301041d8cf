package utl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stele.test/cluster"
)

// stranger is a user who may not read the files of others.
const stranger = 65534

// badInput gives files that cannot be taken: one line names the file, the exit code is etcdutl's where that does not panic,
// and nothing is written.
func badInput(t *testing.T, snapshot string) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, content, 0o600))
		return path
	}
	whole, err := os.ReadFile(snapshot)
	check(t, err)
	// Both meta pages of the database say a later version of its format.
	later := bytes.Clone(whole)
	for _, page := range []int{0, 4096} {
		if version := page + 16 + 4; later[version] != 2 {
			t.Fatalf("version %d of the format", later[version])
		} else {
			later[version] = 3
		}
	}
	files := []string{
		file("foreign", bytes.Repeat([]byte("text\n"), 5000)), file("later", later), dir,
		filepath.Join(dir, "no", "such"),
	}
	target := filepath.Join(dir, "target")
	tool, before := ours(t), len(listed(t, dir))
	for _, path := range files {
		for _, line := range []string{"snapshot status", "hashkv", "snapshot restore --data-dir=" + target} {
			args := append(strings.Fields(line), path)
			want := run(t, cluster.EtcdTool("etcdutl"), args...)
			check(t, os.RemoveAll(target))
			// A panic.
			if want.code == 2 {
				want.code = 1
			}
			expectLine(t, run(t, tool, args...), want.code, path)
		}
		expectLine(t, run(t, cluster.StelePath(), "utl", "import", path, "--data-dir="+target), 1, path)
		if names := listed(t, dir); len(names) != before {
			t.Fatalf("with %s this was written: %q", path, names)
		}
	}

	unreadable := file("unreadable", whole)
	check(t, os.Chmod(unreadable, 0))
	// The way there is open.
	for path := dir; path != filepath.Clean(os.TempDir()) && path != "/"; path = filepath.Dir(path) {
		check(t, os.Chmod(path, 0o755))
	}
	for _, line := range []string{"snapshot status", "hashkv", "snapshot restore --data-dir=" + target} {
		args := append([]string{"utl"}, append(strings.Fields(line), unreadable)...)
		expectLine(t, runAs(t, credential(stranger), cluster.StelePath(), args...), 1, unreadable)
	}
}

// expectLine is whether a result is one line on standard error that names a file.
func expectLine(t *testing.T, r result, code int, path string) {
	t.Helper()
	if r.code != code || r.out != "" || strings.Count(r.errors, "\n") != 1 || !strings.Contains(r.errors, path) {
		t.Errorf("%s: exit code %d is expected: %+v", path, code, r)
	}
}

// listed are the names in a directory.
func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// credential makes a command run as a user, if this process may decide that.
func credential(user uint32) *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
}
