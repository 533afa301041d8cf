package overload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	// missed are the puts that a follower, or a watcher, does not take: 40 MiB.
	missed      = 160
	missedBytes = 256 << 10
	// laggingMemory bounds what the leader holds for it: recent entries, what is under way to it, and its own data.
	laggingMemory = 400 << 20
	// queuedBytes bounds what waits for a follower's socket.
	queuedBytes = 64 << 20
	// watchBytes bounds what is accounted for a watcher that does not read: recent events, and its buffer.
	watchBytes = 32 << 20
	// watchedMemory bounds a member with such a watcher, and its own data.
	watchedMemory = 256 << 20
)

// TestALaggingFollowerCatchesUp freezes a follower during more writes than the leader keeps in its log for it, so that
// it needs a snapshot afterwards.
func TestALaggingFollowerCatchesUp(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Size: 3,
		Args: []string{"--snapshot-count=40", "--snapshot-catchup-entries=20"},
	})
	leads := leader(ctx, t, c)
	lags := c.Members[(slices.Index(c.Members, leads)+1)%len(c.Members)]
	client, own := cluster.ClientOf(t, patience, leads), cluster.ClientOf(t, patience, lags)
	before := values(ctx, t, leads, "etcd_server_leader_changes_seen_total ")

	if err := lags.Freeze(); err != nil {
		t.Fatal(err)
	}
	queued := putMissed(ctx, t, client, leads)
	if queued <= 0 || queued > queuedBytes {
		t.Errorf("at most %.0f bytes were queued for the follower", queued)
	}
	leads.MustTakeAtMost(t, laggingMemory)
	if err := lags.Thaw(); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the last put on the follower", func() bool {
		got, err := own.Get(ctx, "missed/", clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
		return err == nil && got.Count == missed
	})
	if installed := values(ctx, t, lags, "etcd_snap_db_save_total_duration_seconds_count ")[0]; installed < 1 {
		t.Error("the follower installed no snapshot")
	}
	if after := values(ctx, t, leads, "etcd_server_leader_changes_seen_total "); !slices.Equal(before, after) {
		t.Errorf("%v changes of leader, then %v", before, after)
	}
}

// putMissed puts what one of the followers misses, and returns the most bytes that the leader had queued for its peers.
func putMissed(ctx context.Context, t *testing.T, client *clientv3.Client, leads *cluster.Member) float64 {
	t.Helper()
	value := strings.Repeat("v", missedBytes)
	var queued float64
	for i := range missed {
		if _, err := client.Put(ctx, fmt.Sprint("missed/", i), value); err != nil {
			t.Fatalf("put %d beside a follower that misses it: %v", i, err)
		}
		queued = max(queued, values(ctx, t, leads, "stele_peer_queued_bytes")[0])
	}
	return queued
}

// TestAWatcherThatDoesNotReadCostsLittle reads nothing while much is written, and then everything.
func TestAWatcherThatDoesNotReadCostsLittle(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	m := c.Members[0]
	client := cluster.ClientOf(t, patience, m)
	stream, err := pb.NewWatchClient(connect(t, m, "")).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create := &pb.WatchCreateRequest{Key: []byte("missed/"), RangeEnd: []byte("missed0")}
	request := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
	if err := stream.Send(request); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", missedBytes)
	for i := range missed {
		if _, err := client.Put(ctx, fmt.Sprintf("missed/%03d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	if held := values(ctx, t, m, `stele_memory_accounted_bytes{component="watches"}`)[0]; held > watchBytes {
		t.Errorf("%.0f bytes are held for a watcher that does not read", held)
	}
	m.MustTakeAtMost(t, watchedMemory)
	for seen := 0; seen < missed; {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range response.Events {
			if want := fmt.Sprintf("missed/%03d", seen); string(event.Kv.Key) != want {
				t.Fatalf("%s instead of %s", event.Kv.Key, want)
			}
			seen++
		}
	}
}
