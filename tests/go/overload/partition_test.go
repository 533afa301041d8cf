package overload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
	"stele.test/netns"
)

// TestMain gives the package a network that can be cut, if that is permitted.
func TestMain(m *testing.M) { netns.Main(m) }

const (
	// waves of puts end at a follower without a leader, one after the other: 256 MiB in all.
	waves = 4
	// putsOfWave wait there together: 64 MiB.
	putsOfWave = 2000
	waitingPut = 32 << 10
	// partitionedMemory bounds either side: twice what waits at one time, for the allocator's sake, 40 MiB of values, and
	// what a member has without data. If nothing of a wave were freed, it would not do.
	partitionedMemory = 250 << 20
)

// quickElections make puts without a leader end sooner: a request waits for five seconds and two election timeouts.
var quickElections = []string{"--heartbeat-interval=50", "--election-timeout=500", "--snapshot-count=40", "--snapshot-catchup-entries=20"}

// TestAPartitionedFollowerAndItsLeaderStaySmall cuts a follower off from the others. Puts go on at the leader, which
// holds little for it. Those of the follower's clients wait, end with an error, and leave nothing behind. When the
// network is whole again, the follower catches up, and the leader is the one of before.
func TestAPartitionedFollowerAndItsLeaderStaySmall(t *testing.T) {
	t.Parallel()
	network, err := netns.New(3)
	if err != nil {
		t.Skip("no network to partition: " + err.Error())
	}
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Hosts: network.Hosts(), Args: quickElections})
	leads := leader(ctx, t, c)
	number := (slices.Index(c.Members, leads) + 1) % len(c.Members)
	cut := c.Members[number]
	client, own := cluster.ClientOf(t, patience, leads), cluster.ClientOf(t, patience, cut)
	before := values(ctx, t, leads, "etcd_server_leader_changes_seen_total ")

	if err := network.Drop(append(network.From(number), network.To(number)...)...); err != nil {
		t.Fatal(err)
	}
	queued := putMissed(ctx, t, client, leads)
	if queued > queuedBytes {
		t.Errorf("%.0f bytes were queued for the follower", queued)
	}
	until(ctx, t, "a follower without a leader", func() bool { return values(ctx, t, cut, "etcd_server_has_leader ")[0] == 0 })
	for range waves {
		// A wave takes six seconds on an idle machine, so each has its own time.
		ctx = patiently(t)
		putInVain(ctx, t, cut)
		until(ctx, t, "no command that waits", func() bool {
			return values(ctx, t, cut, `stele_memory_accounted_bytes{component="commands"}`)[0] == 0
		})
	}
	if _, err := own.Get(ctx, "missed/0", clientv3.WithSerializable()); err != nil {
		t.Errorf("a read of the follower's own state: %v", err)
	}
	if err := network.Restore(); err != nil {
		t.Fatal(err)
	}
	ctx = patiently(t)
	until(ctx, t, "the last put on the follower", func() bool {
		got, err := own.Get(ctx, "missed/", clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithSerializable())
		return err == nil && got.Count == missed
	})
	if after := values(ctx, t, leads, "etcd_server_leader_changes_seen_total "); !slices.Equal(before, after) {
		t.Errorf("%v changes of leader, then %v", before, after)
	}
	leads.MustTakeAtMost(t, partitionedMemory)
	cut.MustTakeAtMost(t, partitionedMemory)
	t.Logf("%.0f bytes were queued at most", queued)
}

// putInVain sends many puts at once to a member that knows no leader, and waits for their errors.
func putInVain(ctx context.Context, t *testing.T, m *cluster.Member) {
	t.Helper()
	conns := make([]pb.KVClient, 20)
	for i := range conns {
		conns[i] = pb.NewKVClient(connect(t, m, ""))
	}
	var running sync.WaitGroup
	value := make([]byte, waitingPut)
	for i := range putsOfWave {
		running.Go(func() {
			put := &pb.PutRequest{Key: fmt.Append(nil, "in vain/", i), Value: value}
			_, err := conns[i%len(conns)].Put(ctx, put)
			if text := status.Convert(err).Message(); status.Code(err) != codes.Unavailable || !strings.HasPrefix(text, "etcdserver: ") {
				t.Errorf("a put without a leader: %v", err)
			}
		})
	}
	running.Wait()
}
