package corruption

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	found    = `"found damaged data"`
	repaired = `"repaired damaged data"`
	waits    = `"watchers wait for a damaged value`
)

// A value is damaged on one of three disks. Its reader gets a peer's copy; metrics and log have the damage and the
// repair once.
func TestADamagedValueIsRepairedAndReportedOnce(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{"--snapshot-count=10"}})
	c.AllowErrors("found damaged data")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := c.Members[2]
	value := putAndDamage(ctx, t, c, m)
	client := cluster.ClientOf(t, patience, m)
	for range 3 {
		read, err := client.Get(ctx, "damaged", clientv3.WithSerializable())
		if err != nil || len(read.Kvs) != 1 || string(read.Kvs[0].Value) != value {
			t.Fatalf("a read of the damaged value: %v, %v", read, err)
		}
	}
	if found, repaired := damage(ctx, t, m); found != 1 || repaired != 1 {
		t.Errorf("%v found and %v repaired instead of 1 and 1", found, repaired)
	}
	for _, text := range []string{found, repaired} {
		if lines := linesWith(t, m, text); lines != 1 {
			t.Errorf("%d lines with %s", lines, text)
		}
	}
}

var slow = flag.Bool("slow", false, "also what waits for the first round of the scrub, a minute")

// maxScrub is how long the scrub may take to find one value: its first round begins 60 s after the start.
const maxScrub = 5 * time.Minute

// No client reads a damaged value: the scrub finds it, and repairs it from a peer.
func TestTheScrubRepairsWhatNoClientReads(t *testing.T) {
	if !*slow {
		t.Skip("it takes a minute; -slow runs it")
	}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{"--snapshot-count=10"}})
	c.AllowErrors("found damaged data")
	ctx, cancel := context.WithTimeout(t.Context(), maxScrub)
	defer cancel()
	m := c.Members[2]
	value := putAndDamage(ctx, t, c, m)
	waitForLine(ctx, t, []*cluster.Member{m}, repaired)
	for sumOf(ctx, t, m, "stele_scrub_rounds") < 1 {
		select {
		case <-ctx.Done():
			t.Fatal("no round of the scrub has ended")
		case <-time.After(pollInterval):
		}
	}
	if found, repaired := damage(ctx, t, m); found != 1 || repaired != 1 {
		t.Errorf("%v found and %v repaired instead of 1 and 1", found, repaired)
	}
	// What is on the disk now is good, not only what a reader gets: the others are gone.
	for _, other := range c.Members[:2] {
		other.Kill()
	}
	read, err := cluster.ClientOf(t, patience, m).Get(ctx, "damaged", clientv3.WithSerializable())
	if err != nil || len(read.Kvs) != 1 || string(read.Kvs[0].Value) != value {
		t.Errorf("a read of the repaired value: %v, %v", read, err)
	}
}

// A lone member has no peer to repair it from. Watchers of each kind try again, ever more rarely, other watches of their
// streams are served, and the damage is counted once.
func TestWatchersOfAValueThatCannotBeRepairedDoNotSpin(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--snapshot-count=10"}})
	c.AllowErrors("found damaged data")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := c.Members[0]
	putAndDamage(ctx, t, c, m)
	client := cluster.ClientOf(t, patience, m)
	began := time.Now()
	stuck := client.Watch(ctx, "damaged", clientv3.WithRev(1))
	// The same stream, as the context has the same metadata.
	other := client.Watch(ctx, "other", clientv3.WithRev(1))
	for {
		if lines := linesWith(t, m, waits); lines >= 5 {
			// Pauses of 100, 200, 400 and 800 ms lie between five attempts.
			if spent := time.Since(began); spent < 1500*time.Millisecond {
				t.Errorf("%d attempts in %v", lines, spent)
			}
			break
		}
		select {
		case answer, open := <-stuck:
			t.Fatalf("the watcher of the damaged value got %v, %v", answer, open)
		case <-ctx.Done():
			t.Fatal("no watcher waits")
		case <-time.After(pollInterval):
		}
	}
	if found, repaired := damage(ctx, t, m); found != 1 || repaired != 0 {
		t.Errorf("%v found and %v repaired instead of 1 and 0", found, repaired)
	}
	if lines := linesWith(t, m, found); lines != 1 {
		t.Errorf("%d lines with %s", lines, found)
	}
	if _, err := client.Put(ctx, "other", "last"); err != nil {
		t.Fatal(err)
	}
	for {
		answer, open := <-other
		if !open {
			t.Fatal("the watcher of the other key has ended")
		}
		if last := len(answer.Events) - 1; last >= 0 && string(answer.Events[last].Kv.Value) == "last" {
			return
		}
	}
}

// putAndDamage puts a value, lets a member write checkpoints so that its start reads no value, and stops it; damages the
// value on its disk, and starts the member. Returns the value.
func putAndDamage(ctx context.Context, t *testing.T, c *cluster.Cluster, m *cluster.Member) string {
	t.Helper()
	value := strings.Repeat("a value of four kilobytes; ", 152)
	client := cluster.ClientOf(t, patience, c.Members[0])
	if _, err := client.Put(ctx, "damaged", value); err != nil {
		t.Fatal(err)
	}
	for written := sumOf(ctx, t, m, checkpointsWritten); sumOf(ctx, t, m, checkpointsWritten) < written+2; {
		if _, err := client.Put(ctx, "other", "value"); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Terminate(); err != nil {
		t.Fatal(err)
	}
	flipBit(t, m.DataDir, value)
	if err := m.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	return value
}

// flipBit changes one bit of a value in the log of a member that does not run.
func flipBit(t *testing.T, dataDir, value string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, "member", "wal", "*"))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(content, []byte(value)); at >= 0 {
			content[at+len(value)/2] ^= 1
			changed++
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changed != 1 {
		t.Fatalf("%d files have the value", changed)
	}
}

// damage is how much of it a member counts as found and as repaired.
func damage(ctx context.Context, t *testing.T, m *cluster.Member) (found, repaired float64) {
	t.Helper()
	return sumOf(ctx, t, m, "stele_damage_found_total"), sumOf(ctx, t, m, "stele_damage_repaired_total")
}

// linesWith counts the lines in the log of a member's run that have a text.
func linesWith(t *testing.T, m *cluster.Member, text string) int {
	t.Helper()
	log, err := m.RunLog()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(log, text)
}
