package overload

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"stele.test/cluster"
)

const (
	// waitingReads are more than a member answers with one round, so that it predicts how long the next one waits.
	waitingReads = 2000
	// longRanges at once wait for each other.
	longRanges = 100
	// keysOfRange are several times as many as make a range a long one.
	keysOfRange = 5000
	keysPerTxn  = 100
)

// reads asks for the same range many times at once, each again and again until it is stopped, and counts refusals.
type reads struct {
	refused, answered atomic.Int64
	mu                sync.Mutex
	wrong             error
}

// start begins to read. What it returns ends that.
func (r *reads) start(t *testing.T, m *cluster.Member, request *pb.RangeRequest, readers int) func() {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	conns := make([]pb.KVClient, 20)
	for i := range conns {
		conns[i] = pb.NewKVClient(connect(t, m, ""))
	}
	for i := range readers {
		running.Go(func() {
			for ctx.Err() == nil {
				var trailer metadata.MD
				_, err := conns[i%len(conns)].Range(ctx, request, grpc.Trailer(&trailer))
				switch {
				case ctx.Err() != nil:
				case err == nil:
					r.answered.Add(1)
				default:
					if _, err := refusal(err, trailer); err != nil {
						r.mu.Lock()
						r.wrong = err
						r.mu.Unlock()
					}
					r.refused.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(pollInterval):
					}
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// check fails the test if a read was refused in another way than the one for too much load.
func (r *reads) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong != nil {
		t.Error(r.wrong)
	}
}

// refusedFor is how many calls a member has refused for a reason.
func refusedFor(ctx context.Context, t *testing.T, m *cluster.Member, reason string) float64 {
	t.Helper()
	return values(ctx, t, m, fmt.Sprintf("stele_refused_requests_total{reason=%q}", reason))[0]
}

// TestReadsThatWouldWaitAreRefused lets linearizable reads wait for followers that stand still.
func TestReadsThatWouldWaitAreRefused(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{maxWait, "--election-timeout=20000"}})
	leads := leader(ctx, t, c)
	var followers []*cluster.Member
	for _, m := range c.Members {
		if m != leads {
			followers = append(followers, m)
		}
	}
	for _, m := range followers {
		if err := m.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	var gets reads
	stop := gets.start(t, leads, &pb.RangeRequest{Key: []byte("key")}, waitingReads)
	// A new one every now and then, which does not wait behind those of the others' goroutines.
	extra, cancel := context.WithCancel(ctx)
	defer cancel()
	kv := pb.NewKVClient(connect(t, leads, ""))
	until(ctx, t, "a read that is refused", func() bool {
		go kv.Range(extra, &pb.RangeRequest{Key: []byte("key")})
		return refusedFor(ctx, t, leads, "read_wait") > 0
	})
	if waits := values(ctx, t, leads, `stele_queue_wait_seconds{queue="reads"}`)[0]; waits <= 0 {
		t.Errorf("reads wait for %v s", waits)
	}
	// A read of this member alone waits for no other member.
	if _, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("key"), Serializable: true}); err != nil {
		t.Errorf("a serializable read: %v", err)
	}
	for _, m := range followers {
		if err := m.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "a read when the followers are back", func() bool { return gets.answered.Load() > waitingReads })
	stop()
	gets.check(t)
	leads.MustTakeAtMost(t, overloadMemory)
}

// TestLongRangesThatWouldWaitAreRefused asks for more long ranges than are encoded at once.
func TestLongRangesThatWouldWaitAreRefused(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{maxWait, "--watch-progress-notify-interval=100ms"}})
	m, client := c.Members[0], cluster.ClientOf(t, patience, c.Members...)
	for begin := 0; begin < keysOfRange; begin += keysPerTxn {
		var ops []clientv3.Op
		for i := range keysPerTxn {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("long/%05d", begin+i), strings.Repeat("v", 100)))
		}
		if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := client.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	notified := notifications(ctx, t, m)
	var ranges reads
	request := &pb.RangeRequest{Key: []byte("long/"), RangeEnd: []byte("long0"), Serializable: true}
	stop := ranges.start(t, m, request, longRanges)
	until(ctx, t, "a range that is refused", func() bool { return refusedFor(ctx, t, m, "range_wait") > 0 })
	// What is short is answered beside them, and neither reads of this member nor renewals of leases are refused.
	for range 20 {
		if _, err := client.Get(ctx, "long/00001", clientv3.WithSerializable()); err != nil {
			t.Errorf("a short read: %v", err)
		}
		if _, err := client.KeepAliveOnce(ctx, lease.ID); err != nil {
			t.Errorf("a lease: %v", err)
		}
	}
	until(ctx, t, "a put and a linearizable read of it", func() bool {
		_, err := client.Put(ctx, "short", "value")
		if err != nil {
			return false
		}
		got, err := client.Get(ctx, "short")
		return err == nil && len(got.Kvs) == 1
	})
	seen := notified.Load()
	until(ctx, t, "a progress notification", func() bool { return notified.Load() > seen })
	until(ctx, t, "a long range that is answered", func() bool { return ranges.answered.Load() > 0 })
	stop()
	ranges.check(t)
	until(ctx, t, "a long range alone", func() bool {
		_, err := client.Get(ctx, "long/", clientv3.WithPrefix(), clientv3.WithSerializable())
		return err == nil
	})
	m.MustTakeAtMost(t, overloadMemory)
}

// TestAWorkerWithoutTimeRefuses gives a member one core and more reads than it has time for.
func TestAWorkerWithoutTimeRefuses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip("there is no taskset, which keeps a member on one core")
	}
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: []string{"--max-request-wait=10ms"},
		Hosts: []cluster.Host{{Address: "127.0.0.1", Prefix: []string{"taskset", "--cpu-list", "0"}}},
	})
	m := c.Members[0]
	var gets reads
	stop := gets.start(t, m, &pb.RangeRequest{Key: []byte("key")}, waitingReads)
	until(ctx, t, "a read that is refused", func() bool { return refusedFor(ctx, t, m, "worker_wait") > 0 })
	until(ctx, t, "a read that is answered", func() bool { return gets.answered.Load() > 0 })
	stop()
	gets.check(t)
	client := cluster.ClientOf(t, patience, m)
	until(ctx, t, "a read when there is time again", func() bool {
		_, err := client.Get(ctx, "key")
		return err == nil
	})
	m.MustTakeAtMost(t, overloadMemory)
}
