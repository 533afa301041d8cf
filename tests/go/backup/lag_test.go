package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// acknowledged is a put and when it was answered.
type acknowledged struct {
	revision int64
	at       time.Time
}

// putting puts until it is stopped, and returns what was acknowledged.
func putting(t *testing.T, client *clientv3.Client, pause time.Duration) (stop func() []acknowledged) {
	t.Helper()
	var mutex sync.Mutex
	var done []acknowledged
	end := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(pause):
			}
			answer, err := client.Put(t.Context(), fmt.Sprint("put/", n%100), fmt.Sprint(n))
			if err != nil {
				continue
			}
			mutex.Lock()
			done = append(done, acknowledged{answer.Header.Revision, time.Now()})
			mutex.Unlock()
		}
	}()
	return func() []acknowledged {
		close(end)
		mutex.Lock()
		defer mutex.Unlock()
		return done
	}
}

// TestTheIntervalBoundsWhatIsLost kills all members under load: the archive has every change that is older than the
// interval and what a copy takes, and the metric has said so all along.
func TestTheIntervalBoundsWhatIsLost(t *testing.T) {
	const interval = time.Second
	archive := "file://" + filepath.Join(t.TempDir(), "archive")
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3,
		Args: []string{"--backup-url=" + archive, "--backup-interval=" + interval.String(), "--backup-base-interval=1h"}})
	client := cluster.ClientOf(t, patience, c.Members...)
	stop := putting(t, client, 10*time.Millisecond)
	until(t, "something is in the archive", func() bool { return metric(t, c, "stele_backup_revision") > 1 })
	first := metric(t, c, "stele_backup_revision")
	until(t, "the copy goes on", func() bool { return metric(t, c, "stele_backup_revision") > first+100 })
	asked := time.Now()
	lag := metric(t, c, "stele_backup_lag_seconds")
	covered := metric(t, c, "stele_backup_revision")
	for _, m := range c.Members {
		m.Kill()
	}
	puts := stop()
	killed := puts[len(puts)-1].at

	restoredClient := connect(t, restored(t, 1, archive), false)
	found, err := restoredClient.Get(patiently(t), "x")
	check(t, err)
	// A slow machine takes long for a copy: what the metric said before the end is allowed for.
	allowed := 2*interval + 2*time.Second + time.Duration(lag*float64(time.Second))
	for _, put := range puts {
		if put.revision > found.Header.Revision && killed.Sub(put.at) > allowed {
			t.Fatalf("revision %d was acknowledged %v before the end, and is lost: the archive ends at %d",
				put.revision, killed.Sub(put.at), found.Header.Revision)
		}
		// All that was acknowledged before the lag began was in the archive. The lag is set every second.
		if put.revision > int64(covered) && asked.Sub(put.at) > time.Duration((lag+1)*float64(time.Second)) {
			t.Fatalf("the metric said %v s when revision %d, acknowledged %v before, was not in the archive", lag, put.revision, asked.Sub(put.at))
		}
	}
}

// TestTheLagRisesWhileNothingIsCopied gives a new cluster the archive of another one: it is refused, and the metric shows
// how long nothing has been copied.
func TestTheLagRisesWhileNothingIsCopied(t *testing.T) {
	t.Parallel()
	archive := filepath.Join(t.TempDir(), "archive")
	other := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	if code := startBackup(t, other, archive, "--once").ends(t, 0); code != 0 {
		t.Fatalf("backup --once: exit code %d", code)
	}
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(),
		Args: []string{"--backup-url=file://" + archive, "--backup-interval=1s", "--backup-base-interval=1h"}})
	c.AllowErrors("the backup failed")
	until(t, "the failure is counted", func() bool { return metric(t, c, "stele_backup_failures_total") > 0 })
	until(t, "the lag rises", func() bool { return metric(t, c, "stele_backup_lag_seconds") > 5 })
	// The next process does not know more.
	c.Members[0].Kill()
	check(t, c.Members[0].Restart(patiently(t)))
	until(t, "the lag rises again", func() bool { return metric(t, c, "stele_backup_lag_seconds") > 3 })
}

// TestABaseIsNotNewerThanItSays copies a state of many keys while a client puts: what was acknowledged before the time
// of the copy is in it.
func TestABaseIsNotNewerThanItSays(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	client := connect(t, c, false)
	for batch := range 400 {
		var puts []clientv3.Op
		for n := range 100 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("many/%03d/%03d", batch, n), "x"))
		}
		_, err := client.Txn(patiently(t)).Then(puts...).Commit()
		check(t, err)
	}
	stop := putting(t, client, 0)
	archive := filepath.Join(t.TempDir(), "archive")
	if code := startBackup(t, c, archive, "--once").ends(t, 0); code != 0 {
		t.Fatalf("backup --once: exit code %d", code)
	}
	puts := stop()
	bases, err := filepath.Glob(filepath.Join(archive, "base", "*"))
	check(t, err)
	name := regexp.MustCompile(`-r(\d+)-t(\d+)$`).FindStringSubmatch(bases[0])
	revision, err := strconv.ParseInt(name[1], 10, 64)
	check(t, err)
	ms, err := strconv.ParseInt(name[2], 10, 64)
	check(t, err)
	for _, put := range puts {
		if put.revision > revision && put.at.Before(time.UnixMilli(ms)) {
			t.Fatalf("revision %d was acknowledged %v before the time of the copy, which ends at revision %d",
				put.revision, time.UnixMilli(ms).Sub(put.at), revision)
		}
	}
	if len(puts) == 0 || puts[len(puts)-1].revision <= revision {
		t.Errorf("nothing was put behind revision %d", revision)
	}
}

// TestAStateBehindADamagedBaseIsRestoredFromAnOlderOne damages the second of two bases.
func TestAStateBehindADamagedBaseIsRestoredFromAnOlderOne(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	client := connect(t, c, false)
	archive := filepath.Join(t.TempDir(), "archive")
	for round := range 2 {
		use(t, client, round+1)
		if code := startBackup(t, c, archive, "--once", "--base-interval=100ms").ends(t, 0); code != 0 {
			t.Fatalf("backup --once: exit code %d", code)
		}
		// The next base is due.
		last := time.Now()
		until(t, "an interval", func() bool { return time.Since(last) > 100*time.Millisecond })
	}
	use(t, client, 3)
	if code := startBackup(t, c, archive, "--once", "--base-interval=1h").ends(t, 0); code != 0 {
		t.Fatalf("backup --once: exit code %d", code)
	}
	wanted := now(t, client)
	bases, err := filepath.Glob(filepath.Join(archive, "base", "*"))
	check(t, err)
	if len(bases) != 2 {
		t.Fatalf("the archive has the bases %q", bases)
	}
	for what, change := range map[string]func(whole []byte) []byte{
		"a bit in its middle": func(whole []byte) []byte {
			whole[len(whole)/2] ^= 4
			return whole
		},
		"a byte of its beginning": func(whole []byte) []byte {
			whole[3] ^= 1
			return whole
		},
		"its end": func(whole []byte) []byte { return whole[:len(whole)-5] },
	} {
		whole, err := os.ReadFile(bases[1])
		check(t, err)
		check(t, os.WriteFile(bases[1], change(append([]byte{}, whole...)), 0o600))
		verified := stele(t, "utl", "backup", "verify", archive)
		if verified.code == 0 || !strings.Contains(verified.out, fmt.Sprintf(" to %d,", wanted.revision)) {
			t.Errorf("%s: verify: %+v", what, verified)
		}
		sameAs(t, wanted, archive)
		sameAs(t, wanted, archive, atRevision(wanted))
		check(t, os.WriteFile(bases[1], whole, 0o600))
	}
	check(t, os.WriteFile(bases[0], nil, 0o600))
	check(t, os.WriteFile(bases[1], nil, 0o600))
	refusal := stele(t, "utl", "restore", archive, "--data-dir="+filepath.Join(t.TempDir(), "target"))
	if refusal.code == 0 || !strings.Contains(refusal.errors, filepath.Base(bases[1])+" is damaged") {
		t.Errorf("with all bases damaged: %+v", refusal)
	}
}

// TestTheNewestStateIsNotAnOlderOne damages the second of two bases in an archive that has no entries between them: what
// is left is an older state, which is restored only if it is asked for.
func TestTheNewestStateIsNotAnOlderOne(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	client := connect(t, c, false)
	archive := filepath.Join(t.TempDir(), "archive")
	var older moment
	for round := range 2 {
		use(t, client, round+1)
		if round == 0 {
			older = now(t, client)
		}
		last := time.Now()
		until(t, "an interval", func() bool { return time.Since(last) > 100*time.Millisecond })
		if code := startBackup(t, c, archive, "--once", "--base-interval=100ms").ends(t, 0); code != 0 {
			t.Fatalf("backup --once: exit code %d", code)
		}
	}
	logs, err := filepath.Glob(filepath.Join(archive, "log", "*"))
	check(t, err)
	for _, log := range logs {
		check(t, os.Remove(log))
	}
	bases, err := filepath.Glob(filepath.Join(archive, "base", "*"))
	check(t, err)
	if len(bases) != 2 {
		t.Fatalf("the archive has the bases %q", bases)
	}
	check(t, os.WriteFile(bases[1], nil, 0o600))
	refusal := stele(t, "utl", "restore", archive, "--data-dir="+filepath.Join(t.TempDir(), "target"))
	ends := fmt.Sprintf("before them, it ends at revision %d,", older.revision)
	if refusal.code == 0 || !strings.Contains(refusal.errors, "are missing in the archive") || !strings.Contains(refusal.errors, ends) {
		t.Errorf("the newest state: %+v, which does not say %q", refusal, ends)
	}
	sameAs(t, older, archive, atRevision(older))
}
