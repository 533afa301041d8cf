package utl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stele.test/cluster"
)

var (
	older = flag.String("older", "", "an etcd of an older release, for TestAnOlderRelease")
	name  = flag.String("write-older", "", "with -older: write testdata/NAME.tar.gz, what that release leaves")
)

// The parts of a file in testdata: a snapshot, the directory of a member that was killed under load, and what etcd answered
// with each.
const (
	snapshotFile     = "snapshot.db"
	snapshotAnswers  = "snapshot.json"
	directory        = "killed"
	directoryAnswers = "killed.json"
)

// TestOlderReleasesAreTaken restores snapshots and imports directories that older releases of etcd have left.
func TestOlderReleasesAreTaken(t *testing.T) {
	files, err := filepath.Glob("testdata/etcd-*.tar.gz")
	check(t, err)
	if len(files) < 3 {
		t.Errorf("there are only %q", files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			unpack(t, file, dir)
			olderIsTaken(t, dir)
		})
	}
}

// olderIsTaken compares what becomes of a release's files with what it answered.
func olderIsTaken(t *testing.T, dir string) {
	t.Helper()
	restored := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(),
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			utl(t, "snapshot", "restore", filepath.Join(dir, snapshotFile), "--name="+m.Name, "--data-dir="+m.DataDir,
				"--initial-cluster="+initialCluster, "--initial-cluster-token="+token, "--initial-advertise-peer-urls="+m.PeerURL)
			return nil
		}})
	compareWithOlder(t, "the snapshot", filepath.Join(dir, snapshotAnswers), restored)
	imported, _ := importedCluster(t, filepath.Join(dir, directory))
	compareWithOlder(t, "the directory", filepath.Join(dir, directoryAnswers), imported)
	stop(imported.Members[0])
	goesOnAlone(t, dir)
}

// goesOnAlone imports a directory with its member, whose id and peer URL stay.
func goesOnAlone(t *testing.T, dir string) {
	t.Helper()
	var said string
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(),
		Prepare: func(m *cluster.Member, _, _ string) error {
			said = utl(t, "import", filepath.Join(dir, directory), "--data-dir="+m.DataDir)
			return nil
		}})
	compareWithOlder(t, "the member", filepath.Join(dir, directoryAnswers), c)
	listed, err := connect(t, c, "root").MemberList(patiently(t))
	check(t, err)
	if len(listed.Members) != 1 {
		t.Fatalf("the members are %v", listed.Members)
	}
	member := listed.Members[0]
	told := fmt.Sprintf("for member %x of cluster %x", member.ID, listed.Header.ClusterId)
	if !strings.Contains(said, told) || len(member.PeerURLs) != 1 || member.PeerURLs[0] == c.Members[0].PeerURL {
		t.Errorf("import says %s, the cluster %v", said, listed)
	}
}

func compareWithOlder(t *testing.T, what, file string, c *cluster.Cluster) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	want := map[string]string{}
	check(t, json.Unmarshal(text, &want))
	got := everything(t, c)
	if _, told := want["auth"]; !told {
		delete(got, "auth")
	}
	compare(t, what, want, got)
}

// TestAnOlderRelease runs an etcd of an older release: what it leaves is taken, and written to testdata if that is requested.
//
//	go test ./utl -run TestAnOlderRelease -older PATH -write-older etcd-3.5.21
func TestAnOlderRelease(t *testing.T) {
	if *older == "" {
		t.Skip("no -older")
	}
	dir := t.TempDir()
	// Its log has most of it.
	source := cluster.ForTest(t, cluster.Config{Binary: *older, Args: []string{"--backend-batch-interval=1h"}})
	fill(t, connect(t, source, ""))
	root := connect(t, source, "root")
	writeAnswers(t, filepath.Join(dir, snapshotAnswers), everything(t, source))
	snapshot, err := root.Snapshot(patiently(t))
	check(t, err)
	whole, err := io.ReadAll(snapshot)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, snapshotFile), whole, 0o600))

	source = cluster.ForTest(t, cluster.Config{Binary: *older, Args: []string{"--backend-batch-interval=1h"}})
	left := killedUnderLoad(t, source, false)
	check(t, os.Rename(left, filepath.Join(dir, directory)))
	check(t, source.Members[0].Restart(t.Context()))
	writeAnswers(t, filepath.Join(dir, directoryAnswers), everything(t, source))
	olderIsTaken(t, dir)
	if *name != "" && !t.Failed() {
		pack(t, dir, filepath.Join("testdata", *name+".tar.gz"))
	}
}

func writeAnswers(t *testing.T, file string, answers map[string]string) {
	t.Helper()
	text, err := json.MarshalIndent(answers, "", " ")
	check(t, err)
	check(t, os.WriteFile(file, text, 0o600))
}

// pack writes the files of a directory to an archive. The space that a log has allocated ahead is left out but for a
// sector.
func pack(t *testing.T, dir, archive string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(archive), 0o755))
	out, err := os.Create(archive)
	check(t, err)
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	check(t, err)
	packed := tar.NewWriter(compressed)
	contents := map[string][]byte{}
	check(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) == ".tmp" {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		check(t, err)
		contents[inside], err = os.ReadFile(path)
		return err
	}))
	for _, inside := range slices.Sorted(maps.Keys(contents)) {
		content := contents[inside]
		if filepath.Ext(inside) == ".wal" {
			content = append(bytes.TrimRight(content, "\x00"), make([]byte, 1024)...)
		}
		check(t, packed.WriteHeader(&tar.Header{Name: inside, Mode: 0o600, Size: int64(len(content))}))
		_, err := packed.Write(content)
		check(t, err)
	}
	check(t, packed.Close())
	check(t, compressed.Close())
	check(t, out.Close())
}

// unpack writes the files of an archive below a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	in, err := os.Open(archive)
	check(t, err)
	defer in.Close()
	plain, err := gzip.NewReader(in)
	check(t, err)
	for packed := tar.NewReader(plain); ; {
		header, err := packed.Next()
		if err == io.EOF {
			return
		}
		check(t, err)
		content, err := io.ReadAll(packed)
		check(t, err)
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, content, 0o600))
	}
}
