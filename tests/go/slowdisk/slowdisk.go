// Package slowdisk makes the disks of members slow while they run, each member's for itself: what is loaded before a
// member delays its syncs. It needs a C compiler; without one tests are skipped. What is loaded does not reach programs
// that call the kernel by themselves, as etcd does: [Images] are file systems that are frozen under programs of any kind.
package slowdisk

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"stele.test/cluster"
)

//go:embed testdata/slowdisk.c
var source []byte

// Disks are those of the members of a cluster.
type Disks struct {
	dir     string
	library string
	members int
}

// New compiles what is loaded before so many members. Their disks are not slow yet.
func New(t *testing.T, members int) *Disks {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler, which makes syncs slow")
	}
	dir := t.TempDir()
	disks := &Disks{dir: dir, library: filepath.Join(dir, "slowdisk.so"), members: members}
	text := filepath.Join(dir, "slowdisk.c")
	if err := os.WriteFile(text, source, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", disks.library, text)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return disks
}

// Hosts are hosts on loopback with these disks.
func (d *Disks) Hosts() []cluster.Host {
	var hosts []cluster.Host
	for i := range d.members {
		hosts = append(hosts, cluster.Host{Address: "127.0.0.1", Prefix: []string{"env", "LD_PRELOAD=" + d.library, "SLOW_DISK=" + d.path(i)}})
	}
	return hosts
}

func (d *Disks) path(member int) string { return filepath.Join(d.dir, fmt.Sprint(member)) }

// Slow makes each sync of a member take so much longer, from the next one on.
func (d *Disks) Slow(t *testing.T, member int, by time.Duration) {
	t.Helper()
	// It must never be seen half written.
	temporary := d.path(member) + ".new"
	if err := os.WriteFile(temporary, []byte(fmt.Sprint(by.Milliseconds())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, d.path(member)); err != nil {
		t.Fatal(err)
	}
}
