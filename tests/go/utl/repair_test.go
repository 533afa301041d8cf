package utl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stele.test/cluster"
)

// TestRepair damages copies of a stopped member's directory: what it can repair starts again with every key, and what it
// cannot is refused and left as it was.
func TestRepair(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Args: []string{"--snapshot-count=40"}})
	client := connect(t, c, "")
	for i := range 150 {
		_, err := client.Put(patiently(t), fmt.Sprintf("key-%03d", i), fmt.Sprintf("value %d", i))
		check(t, err)
	}
	check(t, c.Members[0].Terminate())
	whole := c.Members[0].DataDir
	// The log is in the first segment; the others were made ahead, and would only be copied.
	for _, ahead := range files(t, whole, "wal", "*.seg")[1:] {
		check(t, os.Remove(ahead))
	}
	healthy := utl(t, "inspect", "--data-dir="+whole)

	dir, backup := copiedDir(t, whole), filepath.Join(t.TempDir(), "backup")
	if out := repair(t, dir, backup); !strings.Contains(out, "nothing is to be repaired") {
		t.Errorf("a whole directory: %s", out)
	}
	if _, err := os.Stat(backup); err == nil {
		t.Error("a copy was made for nothing")
	}

	t.Run("TornEnd", func(t *testing.T) { tornEnd(t, copiedDir(t, whole), healthy) })
	t.Run("NewestCheckpoint", func(t *testing.T) { newestCheckpoint(t, copiedDir(t, whole), healthy) })
	dir = copiedDir(t, whole)
	for _, damage := range []struct {
		name, path string
		what       []byte
	}{
		{"Base", files(t, dir, "checkpoint", "*.base")[0], nil},
		{"Manifest", filepath.Join(dir, "member", "checkpoint", "MANIFEST"), nil},
		{"Value", files(t, dir, "wal", "*.seg")[0], []byte("value 17")},
	} {
		t.Run(damage.name, func(t *testing.T) {
			backup := filepath.Join(t.TempDir(), "backup")
			change := func() {
				if damage.what == nil {
					flipMiddle(t, damage.path)
				} else {
					flip(t, damage.path, damage.what)
				}
			}
			change()
			before := content(t, dir)
			r := run(t, cluster.StelePath(), "utl", "repair", "--data-dir="+dir, "--backup-dir="+backup)
			if r.code != 1 || !strings.Contains(r.errors, "cannot be repaired without peers") || !strings.Contains(r.errors, "member remove") {
				t.Errorf("repair: %+v", r)
			}
			if _, err := os.Stat(backup); err == nil || content(t, dir) != before {
				t.Error("something was written")
			}
			if damage.what == nil {
				flipMiddle(t, damage.path)
			}
		})
	}
	t.Run("BadInput", func(t *testing.T) {
		for _, refused := range []struct{ backup, why string }{
			{filepath.Join(dir, "backup"), "not in the data directory"},
			{whole, "must be new or empty"},
		} {
			r := run(t, cluster.StelePath(), "utl", "repair", "--data-dir="+dir, "--backup-dir="+refused.backup)
			if r.code != 1 || !strings.Contains(r.errors, refused.why) {
				t.Errorf("backup %s: %+v", refused.backup, r)
			}
		}
		if r := run(t, cluster.StelePath(), "utl", "repair", "--data-dir="+dir); r.code != 1 || !strings.Contains(r.errors, `"backup-dir" not set`) {
			t.Errorf("without a backup: %+v", r)
		}
	})
}

// recordAlignment is what every record of the log begins at a multiple of.
const recordAlignment = 8

// tornEnd writes a part of a record behind the last one, as a power failure leaves it. Where the last one is a seal, which
// ends in zeros, it may hit that: a seal holds no entry.
func tornEnd(t *testing.T, dir, healthy string) {
	path := files(t, dir, "wal", "*.seg")[0]
	whole, err := os.ReadFile(path)
	check(t, err)
	segment, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".seg"), 16, 32)
	check(t, err)
	end := len(bytes.TrimRight(whole, "\x00"))
	end = (end + recordAlignment - 1) / recordAlignment * recordAlignment
	// A record begins with a checksum and the number of its segment; without that it would be taken for an old one.
	head := binary.LittleEndian.AppendUint32([]byte("torn"), uint32(segment))
	copy(whole[end:], bytes.Repeat(head, 5))
	check(t, os.WriteFile(path, whole, 0o600))
	before, backup := content(t, dir), filepath.Join(t.TempDir(), "backup")
	out := repair(t, dir, backup)
	if !strings.Contains(out, "cut at offset") || !strings.Contains(out, "repaired: ") {
		t.Errorf("repair: %s", out)
	}
	if content(t, filepath.Join(backup, "data")) != before {
		t.Error("the copy is not what was there")
	}
	sameState(t, dir, healthy)
}

// newestCheckpoint damages the newest of several checkpoints.
func newestCheckpoint(t *testing.T, dir, healthy string) {
	deltas := files(t, dir, "checkpoint", "*.delta")
	flipMiddle(t, deltas[len(deltas)-1])
	r := run(t, cluster.StelePath(), "utl", "verify", "--data-dir="+dir)
	if r.code != 1 {
		t.Errorf("verify: %+v", r)
	}
	before, backup := content(t, dir), filepath.Join(t.TempDir(), "backup")
	if out := repair(t, dir, backup); !strings.Contains(out, "left out damaged checkpoints") {
		t.Errorf("repair: %s", out)
	}
	if content(t, filepath.Join(backup, "data")) != before {
		t.Error("the copy is not what was there")
	}
	sameState(t, dir, healthy)
}

// repair runs a repair that must end well.
func repair(t *testing.T, dir, backup string) string {
	t.Helper()
	return utl(t, "repair", "--data-dir="+dir, "--backup-dir="+backup)
}

// sameState compares the state of a repaired directory with what it was before the damage.
func sameState(t *testing.T, dir, healthy string) {
	t.Helper()
	state := func(shown string) []string {
		return slices.DeleteFunc(strings.Split(shown, "\n"), func(line string) bool {
			return !strings.HasPrefix(line, "revision") && !strings.HasPrefix(line, "keys") && !strings.HasPrefix(line, "member")
		})
	}
	if got := utl(t, "inspect", "--data-dir="+dir); !slices.Equal(state(got), state(healthy)) {
		t.Errorf("the state was\n%sand is\n%s", healthy, got)
	}
	if out := utl(t, "verify", "--data-dir="+dir); !strings.HasPrefix(out, "no damage") {
		t.Errorf("verify: %s", out)
	}
}

// files are those of a pattern in a part of a member's directory, in the order of their names.
func files(t *testing.T, dir, part, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "member", part, pattern))
	check(t, err)
	if len(found) == 0 {
		t.Fatalf("%s has no %s in %s", dir, pattern, part)
	}
	return found
}

// flipMiddle changes a bit in the middle of a file.
func flipMiddle(t *testing.T, path string) {
	t.Helper()
	whole, err := os.ReadFile(path)
	check(t, err)
	whole[len(whole)/2] ^= 1
	check(t, os.WriteFile(path, whole, 0o600))
}

// content is what a directory holds, but for the lock file.
func content(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	check(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "LOCK" {
			return err
		}
		bytes, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %d %08x\n", strings.TrimPrefix(path, dir), len(bytes), crc32.ChecksumIEEE(bytes))
		return err
	}))
	return all.String()
}
