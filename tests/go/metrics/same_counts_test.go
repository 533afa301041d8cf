package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

// sameCounts are the families whose series change by the same amounts in etcd and here for the same requests, summed up
// over the members.
const sameCounts = `etcd_mvcc_put_total etcd_mvcc_range_total etcd_mvcc_delete_total
	etcd_debugging_mvcc_keys_total etcd_debugging_mvcc_current_revision etcd_debugging_mvcc_total_put_size_in_bytes
	etcd_debugging_lease_granted_total etcd_debugging_lease_revoked_total etcd_debugging_lease_renewed_total
	etcd_debugging_server_lease_expired_total etcd_debugging_mvcc_db_compaction_keys_total
	etcd_debugging_mvcc_compact_revision etcd_debugging_mvcc_watcher_total etcd_debugging_mvcc_watch_stream_total
	etcd_debugging_mvcc_events_total etcd_debugging_mvcc_slow_watcher_total etcd_server_client_requests_total
	grpc_server_started_total grpc_server_handled_total grpc_server_msg_received_total grpc_server_msg_sent_total`

// longest is what no event of these tests takes, in seconds: a family in another unit shows more.
const longest = 60

// TestCountsAreThoseOfEtcd makes the same requests here and in etcd, and compares by how much each series changes.
func TestCountsAreThoseOfEtcd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	deadline, _ := ctx.Deadline()
	etcd := newRig(t, cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(), Size: 3}))
	own := newRig(t, cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3}))
	for _, step := range []step{{name: "requests", do: requests}, {name: "leases", do: leases}} {
		theirs, ours := settled(ctx, etcd.Cluster), settled(ctx, own.Cluster)
		for _, r := range []*rig{etcd, own} {
			if err := step.do(ctx, r); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		for {
			differences := compare(changes(theirs, sums(ctx, etcd.Cluster)), changes(ours, sums(ctx, own.Cluster)))
			if len(differences) == 0 {
				break
			}
			// What is scraped when the time has ended is not whole.
			if time.Until(deadline) < patience/10 || pause(ctx) != nil {
				t.Fatalf("%s:\n%s", step.name, strings.Join(differences, "\n"))
			}
		}
	}
	checkUnits(ctx, t, own.Cluster)
}

// sums are the values of the families, each series summed up over the members.
func sums(ctx context.Context, c *cluster.Cluster) map[string]float64 {
	all := map[string]float64{}
	for _, s := range scrapeAll(ctx, c) {
		for _, family := range strings.Fields(sameCounts) {
			for _, series := range s.series[family] {
				if !isOfEndedStream(family, series) {
					all[series] += s.values[series]
				}
			}
		}
	}
	return all
}

// settled are the sums when what a member does at its start has been counted: the same twice.
func settled(ctx context.Context, c *cluster.Cluster) map[string]float64 {
	last := sums(ctx, c)
	for pause(ctx) == nil {
		now := sums(ctx, c)
		if maps.Equal(last, now) {
			return now
		}
		last = now
	}
	return last
}

// changes are the series that have other values than before, and by how much.
func changes(before, now map[string]float64) map[string]float64 {
	changed := map[string]float64{}
	for series, value := range now {
		if by := value - before[series]; by != 0 {
			changed[series] = by
		}
	}
	return changed
}

// isOfEndedStream says whether a series depends on how a stream ends: etcd counts the end as a message received, and the
// code is that of the cancellation or of the end of the client's messages, whichever the server sees first.
func isOfEndedStream(family, series string) bool {
	return strings.Contains(series, `grpc_type="bidi_stream"`) &&
		(family == "grpc_server_msg_received_total" || family == "grpc_server_handled_total")
}

func compare(theirs, ours map[string]float64) []string {
	var differences []string
	for series := range theirs {
		if theirs[series] != ours[series] {
			differences = append(differences, fmt.Sprintf("%s changes by %v in etcd and by %v here", series, theirs[series], ours[series]))
		}
	}
	for series := range ours {
		if _, isTheirs := theirs[series]; !isTheirs {
			differences = append(differences, fmt.Sprintf("%s changes by %v here, and not in etcd", series, ours[series]))
		}
	}
	slices.Sort(differences)
	return differences
}

// checkUnits finds histograms whose sums cannot be seconds.
func checkUnits(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	checked := 0
	for name, s := range scrapeAll(ctx, c) {
		for family, kind := range s.types {
			if kind != "histogram" || !strings.HasSuffix(family, "_seconds") {
				continue
			}
			for _, series := range s.series[family] {
				labels, isSum := strings.CutPrefix(series, family+"_sum")
				if !isSum {
					continue
				}
				count := s.values[family+"_count"+labels]
				if count == 0 {
					continue
				}
				checked++
				if mean := s.values[series] / count; mean < 0 || mean > longest || mean == 0 && family != "stele_group_commit_delay_seconds" {
					t.Errorf("%s: %s: %v events took %v s on average", name, family+labels, count, mean)
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d histograms had events", checked)
	}
}
