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

// Log lines of a member.
const (
	checkpointSaved   = "saved snapshot"
	fileEmptied       = "relocated the values of a file"
	snapshotArrives   = "receiving database snapshot"
	snapshotInstalled = "applied snapshot"
)

// Offsets in a manifest (docs/internals/checkpoint.md).
const (
	manifestCountAt = 68
	manifestChainAt = 72
	manifestLink    = 32
)

// background counts what members did in the background, and the kills that interrupted it.
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

// unfinishedWork is what a killed process left unfinished in its files.
type unfinishedWork struct{ checkpoint, copying, switching bool }

// examine adds what the process of a member, which was just killed, did and left unfinished.
func (b *background) examine(m *cluster.Member) error {
	log, err := m.RunLog()
	if err != nil {
		return err
	}
	b.checkpoints += strings.Count(log, checkpointSaved)
	b.relocations += strings.Count(log, fileEmptied)
	b.installations += strings.Count(log, snapshotInstalled)
	left, err := findUnfinished(m.DataDir)
	if err != nil {
		return fmt.Errorf("what %s left: %w", m.Name, err)
	}
	b.count(left, log)
	return nil
}

// count adds a kill. The files of a snapshot look like those of a checkpoint and of a relocation: what may be either is
// not counted as a relocation.
func (b *background) count(left unfinishedWork, log string) {
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

// findUnfinished reads the file names of a member. One counter numbers all files: a file of copies with a higher number
// than the newest checkpoint was begun after it, so no checkpoint refers to it. The directory of another server has no
// manifest, and nothing is found there.
func findUnfinished(dataDir string) (unfinishedWork, error) {
	var left unfinishedWork
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
