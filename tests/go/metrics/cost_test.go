package metrics

import (
	"context"
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
)

// TestAScrapeSaysNoMoreBesideTenThousandWatchers: what a scrape writes does not grow with the watchers. That it does not
// visit them either is tested in crates/store; `cargo xtask scale --rows scrape-10k` measures what one costs.
func TestAScrapeSaysNoMoreBesideTenThousandWatchers(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	m := c.Members[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := clientv3.New(clientConfig(m))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	openWatchers(ctx, t, client, 1)
	few, err := scrapeOf(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	for range streams {
		openWatchers(ctx, t, client, watchers)
	}
	many, err := scrapeOf(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if count := many.values["etcd_debugging_mvcc_watcher_total"]; count != streams*watchers+1 {
		t.Errorf("there are %v watchers", count)
	}
	// Some series begin with an event, such as the first checkpoint; one for each stream would be a hundred.
	if more := len(many.values) - len(few.values); more >= streams {
		t.Errorf("%d series are there because of the watchers", more)
	}
	last := many
	for range measured {
		if last, err = scrapeOf(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	const cpu = "process_cpu_seconds_total"
	t.Logf("%.2f ms of CPU for each scrape, %d series", (last.values[cpu]-many.values[cpu])/measured*1e3, len(last.values))
}

// openWatchers creates so many watchers on a stream of its own, which stays open.
func openWatchers(ctx context.Context, t *testing.T, client *clientv3.Client, count int) {
	t.Helper()
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")},
	}}
	for range count {
		if err := stream.Send(create); err != nil {
			t.Fatal(err)
		}
	}
	for range count {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
}
