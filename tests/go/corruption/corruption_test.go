// Package corruption looks for the checks of corruption in the logs of real members: that they run when their flags and
// gates ask for them, reach the peers, find nothing where there is nothing, and find a member that has other data. More
// of what they find is tested where answers can be falsified (crates/server/src/corruption/tests.rs).
package corruption

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

const (
	// patience bounds every wait for something that must happen.
	patience     = 60 * time.Second
	pollInterval = 50 * time.Millisecond
)

func TestChecksRunAndFindNothing(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{
		"--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true",
		"--corrupt-check-time=500ms", "--compact-hash-check-time=500ms",
	}})
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 {
		var revision int64
		for range 20 {
			put, err := client.Put(ctx, "k", "v")
			if err != nil {
				t.Fatal(err)
			}
			revision = put.Header.Revision
		}
		if _, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
	}
	waitForLine(ctx, t, c.Members, `"finished peer corruption check"`, `"number_of_peers_checked":2`, `"number-of-peers-checked":2`)
	waitForLine(ctx, t, c.Members, `"successfully checked hash on whole cluster"`)
	m := c.Members[1]
	m.Kill()
	if err := m.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	waitForLine(ctx, t, c.Members[1:2], `"initial corruption checking passed; no corruption"`)
	alarms, err := client.AlarmList(ctx)
	if err != nil || len(alarms.Alarms) > 0 {
		t.Fatalf("alarms: %v, %v", alarms, err)
	}
}

// waitForLine waits until the log of one of the members has a line with the text and, if any are given, one of the others.
func waitForLine(ctx context.Context, t *testing.T, members []*cluster.Member, text string, others ...string) {
	t.Helper()
	for {
		for _, m := range members {
			log, err := m.RunLog()
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(log) {
				if strings.Contains(line, text) && (len(others) == 0 || containsAny(line, others)) {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no member says %s", text)
		case <-time.After(pollInterval):
		}
	}
}

func containsAny(line string, texts []string) bool {
	for _, text := range texts {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}
