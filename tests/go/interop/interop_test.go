package interop

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// patience bounds every case.
const patience = 60 * time.Second

// interopCase is a case; its name is that of gRPC's list where there is one.
type interopCase struct {
	name string
	run  func(context.Context, *grpc.ClientConn) error
}

var cases = []interopCase{
	{"empty_unary", emptyUnary}, {"large_unary", largeUnary}, {"client_compressed_unary", compressed},
	{"server_streaming", serverStreaming}, {"ping_pong", pingPong}, {"empty_stream", emptyStream},
	{"cancel_after_begin", cancelAfterBegin}, {"cancel_after_first_response", cancelAfterFirstResponse},
	{"timeout_on_sleeping_server", timeoutOnSleepingServer}, {"custom_metadata", customMetadata},
	{"status_code_and_message", statusCodeAndMessage}, {"special_status_message", specialStatusMessage},
	{"unimplemented_method", unimplementedMethod}, {"unimplemented_service", unimplementedService},
	{"many_calls_at_once", manyCallsAtOnce},
}

func TestGo(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--log-level=error"}})
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			target := "passthrough:///" + strings.TrimPrefix(c.Members[0].ClientURL, "http://")
			// The answer of large_unary is larger than what clients take by default.
			large := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16 << 20))
			conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), large)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := one.run(ctx, conn); err != nil {
				t.Fatal(err)
			}
			// Whatever a case did to its connection, the next call is served on it.
			if err := emptyUnary(ctx, conn); err != nil {
				t.Fatalf("afterwards: %v", err)
			}
		})
	}
}

func emptyUnary(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	return err
}

// putAndGet puts a value and gets it.
func putAndGet(ctx context.Context, conn *grpc.ClientConn, key string, size int, options ...grpc.CallOption) error {
	value := bytes.Repeat([]byte("v"), size)
	kv := pb.NewKVClient(conn)
	if _, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: value}, options...); err != nil {
		return err
	}
	got, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(key)}, options...)
	if err != nil {
		return err
	}
	if len(got.Kvs) != 1 || !bytes.Equal(got.Kvs[0].Value, value) {
		return fmt.Errorf("got %d values, or another", len(got.Kvs))
	}
	return nil
}

func largeUnary(ctx context.Context, conn *grpc.ClientConn) error {
	return putAndGet(ctx, conn, "large", 1<<20)
}

func compressed(ctx context.Context, conn *grpc.ClientConn) error {
	return putAndGet(ctx, conn, "compressed", 1<<20, grpc.UseCompressor(gzip.Name))
}

func serverStreaming(ctx context.Context, conn *grpc.ClientConn) error {
	kv := pb.NewKVClient(conn)
	const keys, size = 8, 400_000
	for i := range keys {
		put := &pb.PutRequest{Key: fmt.Appendf(nil, "stream/%d", i), Value: make([]byte, size)}
		if _, err := kv.Put(ctx, put); err != nil {
			return err
		}
	}
	stream, err := kv.RangeStream(ctx, &pb.RangeRequest{Key: []byte("stream/"), RangeEnd: []byte("stream0")})
	if err != nil {
		return err
	}
	found, messages := 0, 0
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		messages++
		found += len(answer.GetRangeResponse().GetKvs())
	}
	if found != keys {
		return fmt.Errorf("%d keys in %d messages", found, messages)
	}
	return nil
}

func pingPong(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	for i := range int64(100) {
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: i + 1}); err != nil {
			return err
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		if answer.ID != i+1 || answer.TTL != 0 {
			return fmt.Errorf("ping %d, pong %v", i+1, answer)
		}
	}
	return ends(stream)
}

// ends closes the client's side and expects the server to end without error.
func ends(stream pb.Lease_LeaseKeepAliveClient) error {
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the end is %v", err)
	}
	return nil
}

func emptyStream(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	return ends(stream)
}
