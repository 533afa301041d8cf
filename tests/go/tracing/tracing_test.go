// Package tracing receives the spans of a member, as a collector of OpenTelemetry does, and compares them with etcd's.
package tracing

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// patience is longer than an exporter keeps spans; etcd's keeps them for five seconds unless its environment says less.
const patience = 60 * time.Second

// putSpans are those of a put: of the call, the operation, four phases, and the sync within one of them.
const putSpans = 7

// traced starts a member that exports to the collector.
func traced(t *testing.T, binary string, r *receiver, args ...string) *grpc.ClientConn {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
	args = append([]string{
		"--enable-distributed-tracing",
		"--distributed-tracing-address=" + r.address,
		"--distributed-tracing-service-name=stored",
		"--distributed-tracing-instance-id=one",
	}, args...)
	return connect(t, cluster.ForTest(t, cluster.Config{Binary: binary, Args: args}))
}

func connect(t *testing.T, c *cluster.Cluster) *grpc.ClientConn {
	t.Helper()
	address := strings.TrimPrefix(c.Endpoints()[0], "http://")
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// caller is the span of a client: the nth one of a test.
func caller(n int, sampled bool) (id []byte, span []byte, header string) {
	id, _ = hex.DecodeString(fmt.Sprintf("4bf92f3577b34da6a3ce929d%08x", n+1))
	span, _ = hex.DecodeString(fmt.Sprintf("00f067aa%08x", n+1))
	flags := map[bool]string{true: "01", false: "00"}[sampled]
	return id, span, fmt.Sprintf("00-%x-%x-%s", id, span, flags)
}

// call is a request, and the spans that it makes: that of the call, that of the operation, its phases.
type call struct {
	name   string
	do     func(ctx context.Context, c *grpc.ClientConn) error
	server string
	// operation is empty for calls that have no span of their own.
	operation string
	phases    []string
}

var (
	write = []string{"queue", "commit", "apply", "answer"}
	read  = []string{"queue", "agreement", "read"}
)

func kv(do func(context.Context, pb.KVClient) error) func(context.Context, *grpc.ClientConn) error {
	return func(ctx context.Context, c *grpc.ClientConn) error { return do(ctx, pb.NewKVClient(c)) }
}

func lease(do func(context.Context, pb.LeaseClient) error) func(context.Context, *grpc.ClientConn) error {
	return func(ctx context.Context, c *grpc.ClientConn) error { return do(ctx, pb.NewLeaseClient(c)) }
}

var calls = []call{
	{"put", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("secret")})
		return err
	}), "etcdserverpb.KV/Put", "put", write},
	{"get", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Range(ctx, &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("z"), Limit: 3, KeysOnly: true})
		return err
	}), "etcdserverpb.KV/Range", "range", read},
	{"serializable get", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Range(ctx, &pb.RangeRequest{Key: []byte("k"), Serializable: true, CountOnly: true})
		return err
	}), "etcdserverpb.KV/Range", "range", nil},
	{"delete", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("x"), RangeEnd: []byte("y")})
		return err
	}), "etcdserverpb.KV/DeleteRange", "delete_range", write},
	{"transaction", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte("c"), Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{}}},
			Success: []*pb.RequestOp{clientOp(clientv3.OpPut("s", "v")), clientOp(clientv3.OpGet("other"))},
			Failure: []*pb.RequestOp{clientOp(clientv3.OpGet("f"))},
		})
		return err
	}), "etcdserverpb.KV/Txn", "txn", write},
	{"transaction that reads", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{clientOp(clientv3.OpGet("s"))}})
		return err
	}), "etcdserverpb.KV/Txn", "txn", read},
	{"transaction that deletes", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{clientOp(clientv3.OpDelete("s"))}})
		return err
	}), "etcdserverpb.KV/Txn", "txn", write},
	{"transaction in a transaction", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
			clientOp(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("inner", "v")}, nil)),
		}})
		return err
	}), "etcdserverpb.KV/Txn", "txn", write},
	{"empty transaction", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Txn(ctx, &pb.TxnRequest{})
		return err
	}), "etcdserverpb.KV/Txn", "txn", read},
	{"compaction", kv(func(ctx context.Context, c pb.KVClient) error {
		_, err := c.Compact(ctx, &pb.CompactionRequest{Revision: 2})
		return err
	}), "etcdserverpb.KV/Compact", "compact", write},
	{"grant", lease(func(ctx context.Context, c pb.LeaseClient) error {
		_, err := c.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 1000, ID: 77})
		return err
	}), "etcdserverpb.Lease/LeaseGrant", "lease_grant", write},
	{"grant of any lease", lease(func(ctx context.Context, c pb.LeaseClient) error {
		_, err := c.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 1000})
		return err
	}), "etcdserverpb.Lease/LeaseGrant", "lease_grant", write},
	{"revoke", lease(func(ctx context.Context, c pb.LeaseClient) error {
		_, err := c.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 77})
		return err
	}), "etcdserverpb.Lease/LeaseRevoke", "lease_revoke", write},
	{"status", func(ctx context.Context, c *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(c).Status(ctx, &pb.StatusRequest{})
		return err
	}, "etcdserverpb.Maintenance/Status", "", nil},
	{"user with a password", func(ctx context.Context, c *grpc.ClientConn) error {
		_, err := pb.NewAuthClient(c).UserAdd(ctx, &pb.AuthUserAddRequest{Name: "ann", Password: "secret"})
		return err
	}, "etcdserverpb.Auth/UserAdd", "", write},
	{"failure", func(ctx context.Context, c *grpc.ClientConn) error {
		_, err := pb.NewAuthClient(c).UserDelete(ctx, &pb.AuthUserDeleteRequest{Name: "nemo"})
		if err == nil {
			return fmt.Errorf("a user that does not exist was deleted")
		}
		return nil
	}, "etcdserverpb.Auth/UserDelete", "", write},
}

// init adds the calls in which either side streams.
func init() { calls = append(calls, streams...) }

func clientOp(op clientv3.Op) *pb.RequestOp {
	switch {
	case op.IsPut():
		put := &pb.PutRequest{Key: op.KeyBytes(), Value: op.ValueBytes()}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
	case op.IsDelete():
		del := &pb.DeleteRangeRequest{Key: op.KeyBytes()}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: del}}
	case op.IsTxn():
		_, success, _ := op.Txn()
		txn := &pb.TxnRequest{}
		for _, inner := range success {
			txn.Success = append(txn.Success, clientOp(inner))
		}
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}
	}
	get := &pb.RangeRequest{Key: op.KeyBytes()}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: get}}
}

// spans makes each call within a trace of its own, and returns what came of it.
func spans(t *testing.T, c *grpc.ClientConn, r *receiver, complete func(call, []*trace.Span) bool) [][]*trace.Span {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n, call := range calls {
		_, _, header := caller(n, true)
		if err := call.do(metadata.AppendToOutgoingContext(ctx, "traceparent", header), c); err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
	}
	var all [][]*trace.Span
	for n, call := range calls {
		id, _, _ := caller(n, true)
		spans, err := r.until(ctx, id, func(spans []*trace.Span) bool { return complete(call, spans) })
		if err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		all = append(all, spans)
	}
	return all
}

// find returns the one span of this name.
func find(t *testing.T, of string, spans []*trace.Span, name string) *trace.Span {
	t.Helper()
	var found []*trace.Span
	for _, span := range spans {
		if span.Name == name {
			found = append(found, span)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d spans are named %s: %v", of, len(found), name, names(spans))
	}
	return found[0]
}

// TestEachCallHasItsSpans: names, parents, times and phases.
func TestEachCallHasItsSpans(t *testing.T) {
	r := collect(t)
	c := traced(t, *bin, r)
	all := spans(t, c, r, func(call call, spans []*trace.Span) bool {
		wanted := 1 + len(call.phases)
		if slices.Contains(call.phases, "commit") {
			wanted++
		}
		if call.operation != "" {
			wanted++
		}
		return len(spans) >= wanted
	})
	for n, call := range calls {
		_, parent, _ := caller(n, true)
		server := find(t, call.name, all[n], call.server)
		if string(server.ParentSpanId) != string(parent) || server.Kind != trace.Span_SPAN_KIND_SERVER {
			t.Errorf("%s: %v", call.name, server)
		}
		owner := server
		if call.operation != "" {
			owner = find(t, call.name, all[n], call.operation)
			if string(owner.ParentSpanId) != string(server.SpanId) {
				t.Errorf("%s: %v is not in %v", call.name, owner, server)
			}
		}
		at := server.StartTimeUnixNano
		for _, name := range call.phases {
			phase := find(t, call.name, all[n], name)
			if string(phase.ParentSpanId) != string(owner.SpanId) || phase.StartTimeUnixNano != at {
				t.Errorf("%s: %v is not in %v, or not at %d", call.name, phase, owner, at)
			}
			at = phase.EndTimeUnixNano
			if name == "commit" {
				// The sync of the member's own log is a part of it.
				sync := find(t, call.name, all[n], "sync")
				if string(sync.ParentSpanId) != string(phase.SpanId) || sync.StartTimeUnixNano < phase.StartTimeUnixNano ||
					sync.StartTimeUnixNano > sync.EndTimeUnixNano || sync.EndTimeUnixNano > phase.EndTimeUnixNano {
					t.Errorf("%s: %v is not within %v", call.name, sync, phase)
				}
			}
		}
		if len(call.phases) > 0 && at != server.EndTimeUnixNano {
			t.Errorf("%s: its phases end at %d, and it ends at %d", call.name, at, server.EndTimeUnixNano)
		}
		if strings.Contains(fmt.Sprint(all[n]), "secret") {
			t.Errorf("%s: a value or a password is in %v", call.name, all[n])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resource["service.name"] != `"stored"` || r.resource["service.instance.id"] != `"one"` {
		t.Errorf("the process is %v", r.resource)
	}
}

// put writes a key with these headers.
func put(ctx context.Context, c *grpc.ClientConn, headers ...string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, headers...)
	_, err := pb.NewKVClient(c).Put(ctx, &pb.PutRequest{Key: []byte("k")})
	return err
}

// TestOnlySampledCallsAreExported: without a rate a call is exported when its caller's span is; with one, a call whose
// client has no trace begins one.
func TestOnlySampledCallsAreExported(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	t.Run("by their callers", func(t *testing.T) {
		r := collect(t)
		c := traced(t, *bin, r)
		_, _, unsampled := caller(1, false)
		id, _, sampled := caller(2, true)
		for _, headers := range [][]string{nil, {"traceparent", unsampled}, {"traceparent", "00-bad"}, {"traceparent", sampled}} {
			if err := put(ctx, c, headers...); err != nil {
				t.Fatal(err)
			}
		}
		whole := func(spans []*trace.Span) bool { return len(spans) == putSpans }
		if _, err := r.until(ctx, id, whole); err != nil {
			t.Fatal(err)
		}
		if r.count() != putSpans {
			t.Errorf("calls that were not sampled were exported: %v", names(r.spans))
		}
	})
	t.Run("by the rate", func(t *testing.T) {
		r := collect(t)
		c := traced(t, *bin, r, "--distributed-tracing-sampling-rate=1000000")
		if err := put(ctx, c); err != nil {
			t.Fatal(err)
		}
		for {
			r.mu.Lock()
			at := slices.IndexFunc(r.spans, func(span *trace.Span) bool { return span.Name == "etcdserverpb.KV/Put" })
			if at >= 0 && len(r.spans[at].ParentSpanId) != 0 {
				t.Errorf("it has a parent: %v", r.spans[at])
			}
			changed := r.changed
			r.mu.Unlock()
			if at >= 0 {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatal("nothing was exported")
			}
		}
	})
	t.Run("not without the flag", func(t *testing.T) {
		r := collect(t)
		args := []string{"--distributed-tracing-address=" + r.address, "--distributed-tracing-sampling-rate=1000000"}
		all := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: args})
		_, _, sampled := caller(1, true)
		if err := put(ctx, connect(t, all), "traceparent", sampled); err != nil {
			t.Fatal(err)
		}
		// A member that ends exports what it has.
		if err := all.Members[0].Terminate(); err != nil {
			t.Fatal(err)
		}
		if r.count() != 0 {
			t.Errorf("%v", names(r.spans))
		}
	})
}

// TestAMemberThatEndsExportsWhatItHas, and one whose collector is away serves all the same.
func TestAMemberThatEndsExportsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := collect(t)
	args := []string{"--enable-distributed-tracing", "--distributed-tracing-address=" + r.address}
	all := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: args})
	id, _, sampled := caller(1, true)
	if err := put(ctx, connect(t, all), "traceparent", sampled); err != nil {
		t.Fatal(err)
	}
	exported := regexp.MustCompile(fmt.Sprintf("stele_spans_exported_total %d\n", putSpans))
	for cluster.IsStele(*bin) && !exported.MatchString(scrape(t, all.Endpoints()[0])) {
		if ctx.Err() != nil {
			t.Fatal("spans that were exported are not counted")
		}
		time.Sleep(50 * time.Millisecond)
	}
	// A second call, whose spans may still wait.
	_, _, other := caller(2, true)
	if err := put(ctx, connect(t, all), "traceparent", other); err != nil {
		t.Fatal(err)
	}
	if err := all.Members[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	if r.count() != 2*putSpans {
		t.Errorf("a member that ends has exported %d spans", r.count())
	}
	if spans, _ := r.of(id); len(spans) != putSpans {
		t.Errorf("%v", names(spans))
	}

	// Nothing listens at the port of a member that has ended.
	away := strings.TrimPrefix(all.Endpoints()[0], "http://")
	args = []string{"--enable-distributed-tracing", "--distributed-tracing-address=" + away}
	all = cluster.ForTest(t, cluster.Config{Binary: *bin, Args: args})
	if err := put(ctx, connect(t, all), "traceparent", sampled); err != nil {
		t.Fatal(err)
	}
	if !cluster.IsStele(*bin) {
		return
	}
	dropped := regexp.MustCompile(fmt.Sprintf(`stele_spans_dropped_total\{reason="not taken"\} %d\n`, putSpans))
	for !dropped.MatchString(scrape(t, all.Endpoints()[0])) {
		if ctx.Err() != nil {
			t.Fatal("spans that were lost are not counted")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if log, err := all.Members[0].RunLog(); err != nil || !strings.Contains(log, "the collector did not take spans") {
		t.Errorf("%v: nothing is said of spans that were lost", err)
	}
}
