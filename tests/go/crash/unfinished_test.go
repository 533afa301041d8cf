package crash

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// lay makes a member's directory with these files, and a manifest that names checkpoints 10 and 12.
func lay(t *testing.T, names ...string) string {
	t.Helper()
	manifest := make([]byte, manifestChainAt+2*manifestLink+4)
	binary.LittleEndian.PutUint32(manifest[manifestCountAt:], 2)
	binary.LittleEndian.PutUint32(manifest[manifestChainAt:], 10)
	binary.LittleEndian.PutUint32(manifest[manifestChainAt+manifestLink:], 12)
	dir := t.TempDir()
	files := map[string][]byte{"checkpoint/MANIFEST": manifest}
	for _, name := range names {
		files[name] = nil
	}
	for name, bytes := range files {
		path := filepath.Join(dir, "member", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUnfinishedWorkIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  unfinishedWork
	}{
		"nothing under way":       {[]string{"checkpoint/0000000a.base", "checkpoint/0000000c.delta", "data/0000000b.dat"}, unfinishedWork{}},
		"a checkpoint not named":  {[]string{"checkpoint/0000000d.delta"}, unfinishedWork{checkpoint: true}},
		"a manifest not in place": {[]string{"checkpoint/MANIFEST.new"}, unfinishedWork{checkpoint: true}},
		"copies not whole":        {[]string{"data/0000000d.new"}, unfinishedWork{copying: true}},
		"copies newer than all":   {[]string{"data/0000000d.dat"}, unfinishedWork{switching: true}},
	} {
		if got, err := findUnfinished(lay(t, c.files...)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := findUnfinished(t.TempDir()); err != nil || got != (unfinishedWork{}) {
		t.Errorf("another server's directory: %+v, %v", got, err)
	}
}

// TestSnapshotsAreNotTakenForRelocations makes sure that a kill is not counted as what it was not.
func TestSnapshotsAreNotTakenForRelocations(t *testing.T) {
	all := unfinishedWork{checkpoint: true, copying: true, switching: true}
	for name, c := range map[string]struct {
		log  string
		want background
	}{
		"no snapshot":                  {checkpointSaved, background{inCheckpoint: 1, inCopy: 1, inSwitch: 1, inRelocation: 1}},
		"while one arrives":            {snapshotInstalled + snapshotArrives, background{inInstallation: 1}},
		"before its first checkpoint":  {snapshotArrives + snapshotInstalled, background{inCheckpoint: 1, inCopy: 1, inRelocation: 1}},
		"after a checkpoint behind it": {snapshotArrives + snapshotInstalled + checkpointSaved, background{inCheckpoint: 1, inCopy: 1, inSwitch: 1, inRelocation: 1}},
	} {
		var got background
		if got.count(all, c.log); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
