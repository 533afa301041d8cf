package overload

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"stele.test/cluster"
)

const (
	requestRate = 20
	bytesRate   = 100_000
	openCalls   = 5
)

// oneOf is a client with an address of its own.
type oneOf struct {
	kv    pb.KVClient
	watch pb.WatchClient
}

func at(t *testing.T, m *cluster.Member, address string) oneOf {
	conn := connect(t, m, address)
	return oneOf{pb.NewKVClient(conn), pb.NewWatchClient(conn)}
}

// get asks for a key; the hint is 0 if it was answered.
func (o oneOf) get(ctx context.Context, t *testing.T) time.Duration {
	t.Helper()
	var trailer metadata.MD
	_, err := o.kv.Range(ctx, &pb.RangeRequest{Key: []byte("key")}, grpc.Trailer(&trailer))
	if err == nil {
		return 0
	}
	hint, err := refusal(err, trailer)
	if err != nil {
		t.Fatal(err)
	}
	return hint
}

// TestStreamsOfAConnectionAreLimited opens as many watches on one connection as it may have streams. The next call of the
// connection waits for its turn, another connection's does not.
func TestStreamsOfAConnectionAreLimited(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{fmt.Sprintf("--max-concurrent-streams=%d", openCalls)}})
	m := c.Members[0]
	full, other := at(t, m, ""), at(t, m, "")
	// A client knows the limit once it has been answered.
	if full.get(ctx, t) != 0 {
		t.Fatal("the first call was refused")
	}
	held, release := context.WithCancel(ctx)
	defer release()
	for range openCalls {
		stream, err := full.watch.Watch(held)
		if err == nil {
			err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
				CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")},
			}})
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	answered := make(chan error, 1)
	go func() {
		_, err := full.kv.Range(ctx, &pb.RangeRequest{Key: []byte("key")})
		answered <- err
	}()
	for range 100 {
		if other.get(ctx, t) != 0 {
			t.Fatal("a call of another connection was refused")
		}
	}
	select {
	case err := <-answered:
		t.Errorf("a call beyond the limit was answered: %v", err)
	default:
	}
	release()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("a call waits although streams have ended")
	}
	m.MustTakeAtMost(t, overloadMemory)
}

// TestEachClientHasItsLimits takes more than its share from one address each, and nothing from the others.
func TestEachClientHasItsLimits(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{
		fmt.Sprintf("--client-max-request-rate=%d", requestRate),
		fmt.Sprintf("--client-max-bytes-rate=%d", bytesRate),
		fmt.Sprintf("--client-max-streams=%d", openCalls),
	}})
	m := c.Members[0]
	quiet := at(t, m, "127.0.1.1")

	t.Run("requests", func(t *testing.T) {
		often := at(t, m, "127.0.1.2")
		answered := 0
		for often.get(ctx, t) == 0 {
			if answered++; answered > 100*requestRate {
				t.Fatal("nothing was refused")
			}
		}
		if answered < requestRate {
			t.Errorf("%d calls were answered, which is below the rate", answered)
		}
		if quiet.get(ctx, t) != 0 {
			t.Error("another client was refused")
		}
		until(ctx, t, "a call after the hint", func() bool { return often.get(ctx, t) == 0 })
	})
	t.Run("bytes", func(t *testing.T) {
		large := at(t, m, "127.0.1.3")
		put := &pb.PutRequest{Key: []byte("large"), Value: make([]byte, 3*bytesRate)}
		if _, err := large.kv.Put(ctx, put); err != nil {
			t.Fatalf("a client without a debt: %v", err)
		}
		// The debt of two seconds less what came while this process was held up; if that was too long, once more.
		hint := large.get(ctx, t)
		until(ctx, t, "a hint of most of the debt", func() bool {
			if hint < time.Second/2 {
				if _, err := large.kv.Put(ctx, put); err == nil {
					hint = large.get(ctx, t)
				}
			}
			return hint >= time.Second/2
		})
		if hint > 3*time.Second {
			t.Errorf("the hint is %v", hint)
		}
		if quiet.get(ctx, t) != 0 {
			t.Error("another client was refused")
		}
	})
	t.Run("streams", func(t *testing.T) {
		many := at(t, m, "127.0.1.4")
		held, release := context.WithCancel(ctx)
		for range openCalls {
			stream, err := many.watch.Watch(held)
			if err == nil {
				err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
					CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")},
				}})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if many.get(ctx, t) == 0 {
			t.Error("a call beside as many as may be open was answered")
		}
		if quiet.get(ctx, t) != 0 {
			t.Error("another client was refused")
		}
		release()
		until(ctx, t, "a call when the others have ended", func() bool { return many.get(ctx, t) == 0 })
	})
	for _, reason := range []string{"client_requests", "client_bytes", "client_streams"} {
		if values(ctx, t, m, fmt.Sprintf("stele_refused_requests_total{reason=%q}", reason))[0] == 0 {
			t.Errorf("no refusal for %s is counted", reason)
		}
	}
}

// TestTheGatewaySaysWhenToTryAgain is refused over HTTP.
func TestTheGatewaySaysWhenToTryAgain(t *testing.T) {
	t.Parallel()
	ctx := patiently(t)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--client-max-request-rate=1"}})
	until(ctx, t, "a refusal", func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Members[0].ClientURL+"/v3/kv/range",
			strings.NewReader(`{"key":"a2V5","serializable":true}`))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return false
		}
		after := response.Header.Get("Retry-After")
		if seconds, err := strconv.Atoi(after); response.StatusCode != http.StatusTooManyRequests || err != nil || seconds < 1 {
			t.Fatalf("%s, Retry-After %q", response.Status, after)
		}
		return true
	})
}
