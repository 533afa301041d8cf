package metrics

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/slowdisk"
)

// stalled is longer than a test: the disk stands still until it is released.
const stalled = 10 * time.Minute

// overdue is logged while a sync has not ended.
const overdue = "slow fdatasync: still waiting for the disk"

// TestAStalledDiskShowsInLogAndMetrics stops the disk of a lone member, and that of the leader of three. Reads and so
// the health checks need no disk; the log and a gauge tell, while it lasts. The leader keeps its leadership.
func TestAStalledDiskShowsInLogAndMetrics(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a lone member": 1, "a leader": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			disks := slowdisk.New(t, size)
			c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: size, Hosts: disks.Hosts(), Args: []string{"--election-timeout=5000"}})
			r := newRig(t, c)
			leads, err := r.leader(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m := c.Members[leads]
			if _, err := r.clients[leads].Put(ctx, "before", "value"); err != nil {
				t.Fatal(err)
			}
			before, err := scrapeOf(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			disks.Slow(t, leads, stalled)
			put := make(chan error, 1)
			go func() {
				_, err := r.clients[leads].Put(ctx, "during", "value")
				put <- err
			}()
			awaitMetric(ctx, t, m, "stele_write_pending_seconds", func(s float64) bool { return s > 1 })
			awaitMetric(ctx, t, m, `stele_queue_length{queue="write"}`, func(n float64) bool { return n > 0 })
			awaitLog(ctx, t, m, overdue)
			for _, path := range []string{"/livez", "/readyz", "/health"} {
				if status, body, err := get(ctx, m, path); status != http.StatusOK {
					t.Errorf("%s beside a disk that stands still: %d %s %v", path, status, body, err)
				}
			}
			after, err := scrapeOf(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			changes := "etcd_server_leader_changes_seen_total"
			if after.values["etcd_server_is_leader"] != 1 || after.values[changes] != before.values[changes] {
				t.Errorf("the leadership was lost: %s", after.state(changes))
			}
			disks.Slow(t, leads, 0)
			awaitMetric(ctx, t, m, "stele_write_pending_seconds", func(s float64) bool { return s < 1 })
			// It ran into its time-out, or it was in time.
			<-put
			if _, err := r.clients[leads].Put(ctx, "after", "value"); err != nil {
				t.Errorf("a put when the disk works again: %v", err)
			}
			if status, body, err := get(ctx, m, "/readyz"); status != http.StatusOK {
				t.Errorf("/readyz when the disk works again: %d %s %v", status, body, err)
			}
		})
	}
}

// awaitMetric waits until a value is as it should be.
func awaitMetric(ctx context.Context, t *testing.T, m *cluster.Member, series string, isRight func(float64) bool) {
	t.Helper()
	for {
		s, err := scrapeOf(ctx, m)
		value, isShown := s.values[series]
		if err == nil && isShown && isRight(value) {
			return
		}
		if pause(ctx) != nil {
			t.Fatalf("%s of %s is %v (shown: %v), %v", series, m.Name, value, isShown, err)
		}
	}
}

// awaitLog waits until a member has logged a text.
func awaitLog(ctx context.Context, t *testing.T, m *cluster.Member, text string) {
	t.Helper()
	for {
		log, err := m.RunLog()
		if err == nil && strings.Contains(log, text) {
			return
		}
		if pause(ctx) != nil {
			t.Fatalf("%s has not logged %q: %v", m.Name, text, err)
		}
	}
}
