package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// memoryLimit is the least that a member takes.
const memoryLimit = 64 << 20

// keysPerTxn long keys are put at a time.
const keysPerTxn = 100

// TestMemoryLimit fills a member's memory with long keys, and frees it as an operator does.
func TestMemoryLimit(t *testing.T) {
	if !cluster.IsStele(*bin) {
		t.Skip("etcd has no such flag")
	}
	c := start(t, 1, fmt.Sprintf("--memory-limit-bytes=%d", memoryLimit))
	client := connect(t, c.Endpoints()...)
	ctx := patiently(t)

	taken := fillMemory(ctx, t, client)
	if accounted, limit := memoryMetrics(ctx, t, c.Endpoints()[0]); limit != memoryLimit || accounted < limit*9/10 {
		t.Fatalf("%.0f bytes of %.0f are accounted for", accounted, limit)
	}
	got := getting(t)(client.Get(ctx, "full/", clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if got.Count != int64(taken*keysPerTxn) {
		t.Fatalf("%d keys instead of %d", got.Count, taken*keysPerTxn)
	}

	deleting(t)(client.Delete(ctx, "full/0001", clientv3.WithRange("full0")))
	deleted := deleting(t)(client.Delete(ctx, "full/", clientv3.WithPrefix()))
	if _, err := client.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	for isFull := true; isFull; {
		accounted, limit := memoryMetrics(ctx, t, c.Endpoints()[0])
		isFull = accounted > limit/2
	}
	alarms, err := client.AlarmList(ctx)
	if err != nil || len(alarms.Alarms) != 1 {
		t.Fatalf("%v, %v", alarms, err)
	}
	if _, err := client.Put(ctx, "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("the alarm is not disarmed yet: %v", err)
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	putting(t)(client.Put(ctx, "k", "v"))
}

// fillMemory puts keys until they are refused, and returns how many transactions were taken.
func fillMemory(ctx context.Context, t *testing.T, client *clientv3.Client) int {
	t.Helper()
	for taken := range 10_000 {
		ops := make([]clientv3.Op, keysPerTxn)
		for i := range ops {
			ops[i] = clientv3.OpPut(fmt.Sprintf("full/%04d/%03d/%s", taken, i, strings.Repeat("k", 1_000)), "value")
		}
		_, err := client.Txn(ctx).Then(ops...).Commit()
		if errors.Is(err, rpctypes.ErrNoSpace) && taken > 100 {
			return taken
		}
		if err != nil {
			t.Fatalf("transaction %d: %v", taken, err)
		}
	}
	t.Fatal("nothing was refused")
	return 0
}

const (
	// longKey is most of what a watcher takes.
	longKey = 4 << 10
	// watchersAtOnce are created before their answers are awaited.
	watchersAtOnce = 200
)

// TestWatchersCountTowardsTheMemoryLimit opens watchers until puts are refused, and closes them.
func TestWatchersCountTowardsTheMemoryLimit(t *testing.T) {
	if !cluster.IsStele(*bin) {
		t.Skip("etcd has no such flag")
	}
	c := start(t, 1, fmt.Sprintf("--memory-limit-bytes=%d", memoryLimit))
	client := connect(t, c.Endpoints()...)
	ctx := patiently(t)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(watching)
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	for {
		_, err := client.Put(ctx, "k", "v")
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		openWatchers(t, stream, opened)
		opened += watchersAtOnce
	}
	if opened*longKey < memoryLimit/4 {
		t.Fatalf("%d watchers were enough", opened)
	}
	cancel()
	for isFull := true; isFull; {
		accounted, limit := memoryMetrics(ctx, t, c.Endpoints()[0])
		isFull = accounted > limit/2
	}
	for isRefused := true; isRefused; {
		if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
			t.Fatal(err)
		}
		_, err := client.Put(ctx, "k", "v")
		if isRefused = errors.Is(err, rpctypes.ErrNoSpace); err != nil && !isRefused {
			t.Fatal(err)
		}
	}
}

// openWatchers opens watchers of other keys than those before, and waits for the answers.
func openWatchers(t *testing.T, stream pb.Watch_WatchClient, before int) {
	t.Helper()
	for i := range watchersAtOnce {
		create := &pb.WatchCreateRequest{Key: fmt.Appendf(nil, "%08d/%s", before+i, strings.Repeat("k", longKey))}
		request := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
	}
	for range watchersAtOnce {
		if answer, err := stream.Recv(); err != nil || !answer.Created || answer.Canceled {
			t.Fatalf("%v, %v", answer, err)
		}
	}
}

var (
	accountedMemory = regexp.MustCompile(`(?m)^stele_memory_accounted_bytes\{component="[a-z_]+"\} (\S+)$`)
	limitOfMemory   = regexp.MustCompile(`(?m)^stele_memory_limit_bytes (\S+)$`)
)

// memoryMetrics returns the sum of what is accounted for, and the limit, in bytes.
func memoryMetrics(ctx context.Context, t *testing.T, endpoint string) (accounted, limit float64) {
	t.Helper()
	if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}
	answer, err := http.Get(endpoint + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	number := func(text []byte) float64 {
		number, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	for _, part := range accountedMemory.FindAllSubmatch(text, -1) {
		accounted += number(part[1])
	}
	found := limitOfMemory.FindSubmatch(text)
	if found == nil {
		t.Fatal("the limit is not shown")
	}
	return accounted, number(found[1])
}
