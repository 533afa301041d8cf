package metrics

import (
	"context"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	// streams with watchers each: ten thousand watchers.
	streams  = 100
	watchers = 100
	// measured scrapes, so many that the clock of the process, which counts hundredths of a second, tells one.
	measured = 40
	// maxScrapeSeconds is what a scrape may take of CPU in an optimized build.
	maxScrapeSeconds = 0.005
)

// TestAScrapeIsCheapWithTenThousandWatchers compares the member's own CPU time before and after some scrapes.
func TestAScrapeIsCheapWithTenThousandWatchers(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	m := c.Members[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := clientv3.New(clientConfig(m))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range streams {
		stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")},
		}}
		for range watchers {
			if err := stream.Send(create); err != nil {
				t.Fatal(err)
			}
		}
		for range watchers {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, err := scrapeOf(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for range measured {
		if last, err = scrapeOf(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if count := last.values["etcd_debugging_mvcc_watcher_total"]; count != streams*watchers {
		t.Errorf("there are %v watchers", count)
	}
	const cpu = "process_cpu_seconds_total"
	each := (last.values[cpu] - first.values[cpu]) / measured
	t.Logf("%.2f ms of CPU for each scrape, %d series", each*1e3, len(last.values))
	if each > maxScrapeSeconds && !strings.Contains(*bin, "/debug/") {
		t.Errorf("a scrape takes %.2f ms of CPU", each*1e3)
	}
}
