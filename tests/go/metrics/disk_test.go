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

// TestAStalledDiskShowsInLogAndMetrics stops the disk of a lone member. Reads need no disk, and so neither do the health
// checks; the log and a gauge tell, while it lasts.
func TestAStalledDiskShowsInLogAndMetrics(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	disks := slowdisk.New(t, 1)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: disks.Hosts()})
	r, m := newRig(t, c), c.Members[0]
	disks.Slow(t, 0, stalled)
	put := make(chan struct{})
	go func() {
		// It ends in time, or runs into its time-out.
		_, _ = r.clients[0].Put(ctx, "during", "value")
		close(put)
	}()
	awaitStall(ctx, t, m)
	for _, path := range []string{"/livez", "/readyz", "/health"} {
		if status, body, err := get(ctx, m, path); status != http.StatusOK {
			t.Errorf("%s beside a disk that stands still: %d %s %v", path, status, body, err)
		}
	}
	disks.Slow(t, 0, 0)
	awaitMetric(ctx, t, m, pendingWrite, func(s float64) bool { return s < 1 })
	<-put
	if _, err := r.clients[0].Put(ctx, "after", "value"); err != nil {
		t.Errorf("a put when the disk works again: %v", err)
	}
}

// TestAStalledDiskCostsTheLeadership stops the disk of the leader of three. It hands its leadership to a member that has
// its entries, serves reads of its own, and is not ready, because it does not apply what the others commit.
func TestAStalledDiskCostsTheLeadership(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	disks := slowdisk.New(t, 3)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Hosts: disks.Hosts()})
	r := newRig(t, c)
	leads, err := r.leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, other := c.Members[leads], r.clients[(leads+1)%3]
	disks.Slow(t, leads, stalled)
	go r.clients[leads].Put(ctx, "during", "value")
	awaitStall(ctx, t, m)
	awaitMetric(ctx, t, m, "etcd_server_is_leader", func(is float64) bool { return is == 0 })
	if _, err := other.Put(ctx, "through another member", "value"); err != nil {
		t.Errorf("a put with another leader: %v", err)
	}
	if status, body, err := get(ctx, m, "/livez"); status != http.StatusOK {
		t.Errorf("/livez beside a disk that stands still: %d %s %v", status, body, err)
	}
	awaitStatus(ctx, t, m, "/readyz", http.StatusServiceUnavailable)
	disks.Slow(t, leads, 0)
	awaitStatus(ctx, t, m, "/readyz", http.StatusOK)
	awaitMetric(ctx, t, m, pendingWrite, func(s float64) bool { return s < 1 })
}

const pendingWrite = "stele_write_pending_seconds"

// awaitStall waits until a member tells that its disk stands still.
func awaitStall(ctx context.Context, t *testing.T, m *cluster.Member) {
	t.Helper()
	awaitMetric(ctx, t, m, pendingWrite, func(s float64) bool { return s > 1 })
	awaitMetric(ctx, t, m, `stele_queue_length{queue="write"}`, func(n float64) bool { return n > 0 })
	awaitLog(ctx, t, m, overdue)
}

// awaitStatus waits until a health check answers so.
func awaitStatus(ctx context.Context, t *testing.T, m *cluster.Member, path string, wanted int) {
	t.Helper()
	for {
		status, body, err := get(ctx, m, path)
		if status == wanted {
			return
		}
		if pause(ctx) != nil {
			t.Fatalf("%s is %d and not %d: %s %v", path, status, wanted, body, err)
		}
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
