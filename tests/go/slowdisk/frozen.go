package slowdisk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"stele.test/cluster"
)

// imageBytes is the size of a file system for one member; what is not written takes no room.
const imageBytes = 2 << 30

// Images are file systems of their own for the data of members, which can be frozen: whatever writes to one waits in the
// kernel until it is thawed, in programs of every kind. They need root and the tools of ext4; without them tests are
// skipped.
type Images struct{ paths []string }

// NewImages makes file systems for so many members. They are mounted where the members run, and go with them.
func NewImages(t *testing.T, members int) *Images {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts the file systems it needs")
	}
	for _, tool := range []string{"mkfs.ext4", "fsfreeze", "losetup"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no file system that can be frozen: ", err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "losetup", "--find").CombinedOutput(); err != nil {
		t.Skipf("there is no device for a file system that can be frozen: %s", out)
	}
	images, dir := &Images{}, t.TempDir()
	for i := range members {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, imageBytes); err != nil {
			t.Fatal(err)
		}
		run(t, "mkfs.ext4", "-q", "-F", path)
		images.paths = append(images.paths, path)
	}
	return images
}

// Hosts are hosts on loopback with these file systems at the members' data directories.
func (i *Images) Hosts() []cluster.Host {
	var hosts []cluster.Host
	for _, path := range i.paths {
		mount := `for a; do case $a in --data-dir=*) dir=${a#*=};; esac; done
			mkdir -p "$dir" && mount -o loop ` + path + ` "$dir" && rmdir "$dir/lost+found" && chmod 700 "$dir" && exec "$@"`
		hosts = append(hosts, cluster.Host{Address: "127.0.0.1", Prefix: []string{"unshare", "--mount", "sh", "-c", mount, "sh"}})
	}
	return hosts
}

// Freeze stops the disk of a member, until Thaw or the end of the test.
func (i *Images) Freeze(t *testing.T, m *cluster.Member) {
	t.Helper()
	run(t, "fsfreeze", "--freeze", mounted(m))
	// What ends the cluster comes after this: a process that waits for its disk cannot be killed.
	t.Cleanup(func() { _ = exec.Command("fsfreeze", "--unfreeze", mounted(m)).Run() })
}

// Thaw lets the disk of a member work again.
func (i *Images) Thaw(t *testing.T, m *cluster.Member) {
	t.Helper()
	run(t, "fsfreeze", "--unfreeze", mounted(m))
}

// mounted is the data directory as the member sees it.
func mounted(m *cluster.Member) string {
	return fmt.Sprintf("/proc/%d/root%s", m.ProcessID(), m.DataDir)
}

func run(t *testing.T, name string, words ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, words...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, words, err, out)
	}
}
