package crash

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"stele.test/cluster"
)

// What members print; one line each.
const (
	checkpointSaved   = "saved snapshot"
	fileEmptied       = "relocated the values of a file"
	snapshotArrives   = "receiving database snapshot"
	snapshotInstalled = "applied snapshot"
)

// Where a manifest, the root of a member's files, holds what is looked for (docs/internals/checkpoint.md).
const (
	manifestCountAt = 68
	manifestChainAt = 72
	manifestLink    = 32
)

// background is what members did in the background, and how many kills fell into it as their disks show.
type background struct {
	// Finished, by the members' logs.
	checkpoints, relocations, installations int
	// Kills that left a checkpoint which is not named yet, or one it replaces.
	inCheckpoint int
	// Kills that left values copied in part, and those that left whole copies which no checkpoint refers to yet.
	inCopy, inSwitch int
	// Kills that left either of the two.
	inRelocation int
	// Kills while a snapshot was being installed; none of the above.
	inInstallation int
}

// remains is what a killed run left unfinished on its disk.
type remains struct{ checkpoint, copying, switching bool }

// examine adds what a member's run, which was just killed, did and left.
func (b *background) examine(m *cluster.Member) error {
	log, err := m.RunLog()
	if err != nil {
		return err
	}
	b.checkpoints += strings.Count(log, checkpointSaved)
	b.relocations += strings.Count(log, fileEmptied)
	b.installations += strings.Count(log, snapshotInstalled)
	left, err := findRemains(m.DataDir)
	if err != nil {
		return fmt.Errorf("what %s left: %w", m.Name, err)
	}
	b.count(left, log)
	return nil
}

// count adds a kill. The files of a snapshot look like those of a checkpoint and of a relocation: what may be either is
// not counted as the latter.
func (b *background) count(left remains, log string) {
	installed := strings.LastIndex(log, snapshotInstalled)
	if strings.LastIndex(log, snapshotArrives) > installed {
		b.inInstallation++
		return
	}
	if installed > strings.LastIndex(log, checkpointSaved) {
		left.switching = false
	}
	b.inCheckpoint += times(left.checkpoint)
	b.inCopy += times(left.copying)
	b.inSwitch += times(left.switching)
	b.inRelocation += times(left.copying || left.switching)
}

func times(is bool) int {
	if is {
		return 1
	}
	return 0
}

// findRemains looks through a member's files. All draw their numbers from one counter: copies with a higher number than
// the newest checkpoint's were made after that was begun, so it cannot refer to them. Another server's directory has
// no manifest, and nothing is found there.
func findRemains(dataDir string) (remains, error) {
	var left remains
	checkpoints := filepath.Join(dataDir, "member", "checkpoint")
	manifest, err := os.ReadFile(filepath.Join(checkpoints, "MANIFEST"))
	if errors.Is(err, fs.ErrNotExist) {
		return left, nil
	}
	if err != nil {
		return left, err
	}
	named, newest, err := chain(manifest)
	if err != nil {
		return left, err
	}
	err = eachFile(checkpoints, func(number uint32, suffix string) {
		left.checkpoint = left.checkpoint || suffix == ".new" || suffix != "" && !named[number]
	})
	if err != nil {
		return left, err
	}
	err = eachFile(filepath.Join(dataDir, "member", "data"), func(number uint32, suffix string) {
		left.copying = left.copying || suffix == ".new"
		left.switching = left.switching || suffix == ".dat" && number > newest
	})
	return left, err
}

// chain reads the numbers of the checkpoints that a manifest names, and the newest.
func chain(manifest []byte) (named map[uint32]bool, newest uint32, err error) {
	if len(manifest) < manifestChainAt {
		return nil, 0, fmt.Errorf("a manifest of %d bytes", len(manifest))
	}
	links := manifest[manifestChainAt:]
	count := int(binary.LittleEndian.Uint32(manifest[manifestCountAt:]))
	if len(links) < count*manifestLink {
		return nil, 0, fmt.Errorf("a manifest of %d bytes names %d checkpoints", len(manifest), count)
	}
	named = map[uint32]bool{}
	for i := range count {
		newest = binary.LittleEndian.Uint32(links[i*manifestLink:])
		named[newest] = true
	}
	return named, newest, nil
}

// eachFile visits the files of a folder, if it exists; a name without a number has number 0.
func eachFile(folder string, visit func(number uint32, suffix string)) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		suffix := filepath.Ext(entry.Name())
		number, _ := strconv.ParseUint(strings.TrimSuffix(entry.Name(), suffix), 16, 32)
		visit(uint32(number), suffix)
	}
	return err
}
