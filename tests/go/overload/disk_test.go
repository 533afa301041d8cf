package overload

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"stele.test/cluster"
	"stele.test/slowdisk"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

const (
	// slowSync is many times what the queue may wait, and less than a leader is missed for.
	slowSync = 300 * time.Millisecond
	// maxWait is what a request may wait, in the words of the flag.
	maxWait = "--max-request-wait=100ms"
	// patientFollowers miss their leader late: members, clients and other tests share two cores here.
	patientFollowers = "--election-timeout=5000"
	// putters put at the same time, again and again: some batches full.
	putters = 3000
	// refusalsWanted are enough to see that they go on.
	refusalsWanted = 500
	// overloadMemory bounds a member that is asked for more than it can do. An unoptimized one takes most.
	overloadMemory = 512 << 20
)

// flood puts until it is stopped, and counts what comes of it.
type flood struct {
	// valueBytes is how large values are; 0 for a few.
	valueBytes int
	// mayTimeOut is whether those that are admitted may wait for too long.
	mayTimeOut        bool
	admitted, refused atomic.Int64
	mu                sync.Mutex
	wrong             error
}

// start begins to put. What it returns ends that.
func (f *flood) start(t *testing.T, m *cluster.Member) func() {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	conns := make([]pb.KVClient, 20)
	for i := range conns {
		conns[i] = pb.NewKVClient(connect(t, m, ""))
	}
	value := append([]byte("value"), make([]byte, f.valueBytes)...)
	for i := range putters {
		running.Go(func() {
			put := &pb.PutRequest{Key: fmt.Append(nil, "flood/", i), Value: value}
			for ctx.Err() == nil {
				var trailer metadata.MD
				_, err := conns[i%len(conns)].Put(ctx, put, grpc.Trailer(&trailer))
				if ctx.Err() != nil {
					return
				}
				f.note(err, trailer)
				if err != nil {
					// A client that keeps to its hint. All of it would make the test longer.
					select {
					case <-ctx.Done():
					case <-time.After(100 * time.Millisecond):
					}
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

func (f *flood) note(err error, trailer metadata.MD) {
	if err == nil {
		f.admitted.Add(1)
		return
	}
	if f.mayTimeOut && errors.Is(rpctypes.Error(err), rpctypes.ErrTimeout) {
		return
	}
	if _, err := refusal(err, trailer); err != nil {
		f.mu.Lock()
		f.wrong = err
		f.mu.Unlock()
		return
	}
	f.refused.Add(1)
}

func (f *flood) check(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wrong != nil {
		t.Fatal(f.wrong)
	}
}

// TestASlowDiskRefusesEarlyAndKeepsItsLeader makes the leader's disk slow under more puts than it can take.
func TestASlowDiskRefusesEarlyAndKeepsItsLeader(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	disks := slowdisk.New(t, 3)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Hosts: disks.Hosts(), Args: []string{maxWait, patientFollowers, "--watch-progress-notify-interval=100ms"}})
	leads := leader(ctx, t, c)
	number := slices.Index(c.Members, leads)
	client := cluster.ClientOf(t, patience, leads)
	lease, err := client.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	before := leaderChanges(ctx, t, c)

	notified := notifications(ctx, t, leads)
	disks.Slow(t, number, slowSync)
	var puts flood
	stop := puts.start(t, leads)
	until(ctx, t, "refusals", func() bool {
		puts.check(t)
		return puts.refused.Load() >= refusalsWanted
	})
	until(ctx, t, "the queues in the metrics", func() bool {
		queues := values(ctx, t, leads, `stele_queue_length{queue="proposals"}`, `stele_queue_wait_seconds{queue="commands"}`)
		return queues[0] > 0 && queues[1] > 0
	})
	// What needs no disk goes on: leases are kept alive, linearizable reads and those of this member are answered.
	// Another process may hold them up now and then, so one of a few rounds must be soon.
	const rounds, soon = 20, 2 * time.Second
	for round := 1; ; round++ {
		began := time.Now()
		if _, err := client.KeepAliveOnce(ctx, lease.ID); err != nil {
			t.Errorf("a lease beside the puts: %v", err)
		}
		if _, err := client.Get(ctx, "flood/1", clientv3.WithSerializable()); err != nil {
			t.Errorf("a read of this member beside the puts: %v", err)
		}
		seen := notified.Load()
		until(ctx, t, "a progress notification", func() bool { return notified.Load() > seen })
		took := time.Since(began)
		if took <= soon && round >= 3 {
			break
		}
		if round == rounds {
			t.Fatalf("in %d rounds, the last took %v", rounds, took)
		}
	}
	// A lease is granted although puts are refused: it may be late.
	if _, err := client.Grant(ctx, 60); err != nil {
		t.Errorf("a grant beside the puts: %v", err)
	}
	stop()
	puts.check(t)
	// On a busy machine an RPC worker may be behind as well, which is another reason.
	counted := values(ctx, t, leads, `stele_refused_requests_total{reason="command_wait"}`, "stele_refused_requests_total{")
	if refused := puts.refused.Load(); counted[0] == 0 || counted[1] < float64(refused) {
		t.Errorf("%d puts were refused and %v counted", refused, counted)
	}
	if after := leaderChanges(ctx, t, c); !slices.Equal(before, after) || values(ctx, t, leads, "etcd_server_is_leader ")[0] != 1 {
		t.Errorf("the leadership was lost: %v changes, then %v", before, after)
	}
	leads.MustTakeAtMost(t, overloadMemory)
	t.Logf("%d puts were admitted, %d refused", puts.admitted.Load(), puts.refused.Load())

	disks.Slow(t, number, 0)
	until(ctx, t, "a put when the disk is fast again", func() bool {
		_, err := client.Put(ctx, "after", "value")
		return err == nil
	})
}

const (
	// stalled is longer than a test: a disk that stands still until it is released.
	stalled = 10 * time.Minute
	// refusedLarge puts of so many bytes are 256 MiB.
	refusedLarge = 8192
	valueOfStall = 32 << 10
	// stalledMemory bounds a member whose disk stands still: fewer commands wait than there are putters, whose values are
	// 94 MiB together.
	stalledMemory = 300 << 20
)

// TestAStalledDiskHoldsLittle stops the disk of a member that is flooded with values. It refuses them without keeping
// them, answers what needs no disk, and goes on when the disk does.
func TestAStalledDiskHoldsLittle(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	disks := slowdisk.New(t, 1)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: disks.Hosts(), Args: []string{maxWait}})
	m, client := c.Members[0], cluster.ClientOf(t, patience, c.Members...)
	disks.Slow(t, 0, stalled)
	puts := flood{valueBytes: valueOfStall, mayTimeOut: true}
	stop := puts.start(t, m)
	until(ctx, t, "refusals", func() bool {
		puts.check(t)
		return puts.refused.Load() >= refusedLarge
	})
	if _, err := client.Get(ctx, "key"); err != nil {
		t.Errorf("a read beside a disk that stands still: %v", err)
	}
	disks.Slow(t, 0, 0)
	stop()
	until(ctx, t, "a put when the disk works again", func() bool {
		_, err := client.Put(ctx, "after", "value")
		return err == nil
	})
	until(ctx, t, "no command that waits", func() bool {
		return values(ctx, t, m, `stele_memory_accounted_bytes{component="commands"}`)[0] == 0
	})
	m.MustTakeAtMost(t, stalledMemory)
	t.Logf("%d puts were admitted, %d refused", puts.admitted.Load(), puts.refused.Load())
}

// notifications counts the progress notifications of a watch that has no events.
func notifications(ctx context.Context, t *testing.T, m *cluster.Member) *atomic.Int64 {
	t.Helper()
	stream, err := pb.NewWatchClient(connect(t, m, "")).Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	create := &pb.WatchCreateRequest{Key: []byte("idle"), ProgressNotify: true}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	seen := &atomic.Int64{}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
			seen.Add(1)
		}
	}()
	return seen
}

const (
	// longSync is just less than the election timeout that members have by default, of a second.
	longSync = 600 * time.Millisecond
	// longSyncs of them must end while the leader stays.
	longSyncs = 4
	// attempts allow for other processes that keep a member from its processor for an election timeout.
	attempts = 5
)

// TestASlowDiskKeepsItsLeaderByDefault makes syncs slow in members with the default times of elections, first on the
// leader and then on a quorum: heartbeats wait for no disk. (A disk that takes longer than an election timeout for one
// write counts as one that stands still: metrics/disk_test.go.)
func TestASlowDiskKeepsItsLeaderByDefault(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	disks := slowdisk.New(t, 3)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Hosts: disks.Hosts()})
	client := cluster.ClientOf(t, patience, c.Members...)
	for slow := 1; slow <= 2; slow++ {
		for lost := 0; ; {
			isKept, areLonger := keepsLeader(ctx, t, c, disks, client, slow)
			if isKept {
				break
			}
			// On a busy machine a sync takes much longer than it is slowed by: a disk that stands still.
			if !areLonger {
				lost++
			}
			if lost == attempts {
				t.Fatalf("with %d slow disks the leadership was lost %d times", slow, lost)
			}
		}
	}
}

// keepsLeader says whether the leader stays while the disks of so many members are slow, its own first, and whether a
// sync of the leader took longer than an election timeout meanwhile.
func keepsLeader(ctx context.Context, t *testing.T, c *cluster.Cluster, disks *slowdisk.Disks, client *clientv3.Client, slow int) (isKept, areLonger bool) {
	t.Helper()
	leads := leader(ctx, t, c)
	number := slices.Index(c.Members, leads)
	before := leaderChanges(ctx, t, c)
	const (
		syncs = "etcd_disk_wal_fsync_duration_seconds_count "
		short = `etcd_disk_wal_fsync_duration_seconds_bucket{le="1.024"} `
	)
	begun := values(ctx, t, leads, syncs, short)
	for i := range slow {
		disks.Slow(t, (number+i)%3, longSync)
	}
	until(ctx, t, "slow syncs", func() bool {
		_, _ = client.Put(ctx, "slow", "value")
		return values(ctx, t, leads, syncs)[0] >= begun[0]+longSyncs
	})
	isKept = slices.Equal(before, leaderChanges(ctx, t, c)) && values(ctx, t, leads, "etcd_server_is_leader ")[0] == 1
	for i := range slow {
		disks.Slow(t, (number+i)%3, 0)
	}
	until(ctx, t, "a put when the disks are fast again", func() bool {
		_, err := client.Put(ctx, "after", "value")
		return err == nil
	})
	ended := values(ctx, t, leads, syncs, short)
	areLonger = ended[0]-begun[0] > ended[1]-begun[1]
	for _, m := range c.Members {
		m.MustTakeAtMost(t, overloadMemory)
	}
	t.Logf("%d slow disks: kept %v, longer syncs %v", slow, isKept, areLonger)
	return isKept, areLonger
}

const (
	// largePuts at once are more than may be under way.
	largePuts = 128
	// largeSync is what makes them wait for each other; each of them is a batch of its own.
	largeSync = 20 * time.Millisecond
	// maxLarge is what of large commands may be under way, and one more.
	maxLarge = 65 << 20
	// largeMemory bounds the member meanwhile, with the requests that wait for their turn.
	largeMemory = 512 << 20
)

// TestLargePutsWaitForTheirTurn gives a slow disk more bytes at once than a member takes.
func TestLargePutsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	disks := slowdisk.New(t, 1)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: disks.Hosts()})
	m, client := c.Members[0], cluster.ClientOf(t, patience, c.Members...)
	disks.Slow(t, 0, largeSync)
	value := strings.Repeat("v", largeValue)
	var running sync.WaitGroup
	var left atomic.Int64
	left.Store(largePuts)
	for i := range largePuts {
		running.Go(func() {
			if _, err := client.Put(ctx, fmt.Sprint("large/", i), value); err != nil {
				t.Errorf("put %d: %v", i, err)
			}
			left.Add(-1)
		})
	}
	most := 0.0
	until(ctx, t, "the puts", func() bool {
		most = max(most, values(ctx, t, m, `stele_memory_accounted_bytes{component="commands"}`)[0])
		return left.Load() == 0
	})
	running.Wait()
	if most > maxLarge {
		t.Errorf("%.0f bytes of commands waited in the member", most)
	}
	m.MustTakeAtMost(t, largeMemory)
}

const (
	// smallDisk holds the segments of an empty member and its reserves, and some values.
	smallDisk = "420m"
	// largeValue fills it quickly.
	largeValue = 1 << 20
	// refusedOfFull puts of such values are more than fullMemory, which bounds a member on a full disk.
	refusedOfFull = 300
	fullMemory    = 256 << 20
)

// TestAFullDiskRecoversByItself fills a file system of its own, and frees it as an operator does.
func TestAFullDiskRecoversByItself(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts the file system it needs")
	}
	ctx := patiently(t)
	mount := `for a; do case $a in --data-dir=*) dir=${a#*=};; esac; done
		mkdir -p "$dir" && mount -t tmpfs -o size=` + smallDisk + `,mode=0700 tmpfs "$dir" && exec "$@"`
	host := cluster.Host{Address: "127.0.0.1", Prefix: []string{"unshare", "--mount", "sh", "-c", mount, "sh"}}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: []cluster.Host{host}})
	client := cluster.ClientOf(t, patience, c.Members...)
	value := strings.Repeat("v", largeValue)
	full := func(ctx context.Context, number int) error {
		_, err := client.Put(ctx, fmt.Sprintf("full/%04d", number), value)
		return err
	}
	taken := 0
	for ; ; taken++ {
		if err := full(ctx, taken); errors.Is(err, rpctypes.ErrNoSpace) {
			break
		} else if err != nil {
			t.Fatalf("put %d: %v", taken, err)
		}
	}
	got, err := client.Get(ctx, "full/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || got.Count != int64(taken) {
		t.Fatalf("%v, %v: %d values were taken", got, err, taken)
	}
	// What is refused leaves nothing behind.
	for range refusedOfFull {
		if err := full(ctx, taken); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("a put on a full disk: %v", err)
		}
	}
	deleted, err := client.Delete(ctx, "full/", clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("a delete must work on a full disk: %v", err)
	}
	if _, err := client.Compact(ctx, deleted.Header.Revision); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "a put after the compaction", func() bool { return full(ctx, 0) == nil })
	c.Members[0].MustTakeAtMost(t, fullMemory)
	t.Logf("%d values of a MiB were taken", taken)
}
