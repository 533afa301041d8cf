package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// asIs is a codec that sends bytes as they are, be they a message or not.
type asIs struct{}

func (asIs) Name() string                        { return "proto" }
func (asIs) Marshal(v any) ([]byte, error)       { return v.([]byte), nil }
func (asIs) Unmarshal(data []byte, v any) error  { *v.(*[]byte) = bytes.Clone(data); return nil }
func raw(body []byte, method string) protocolUse { return rawCall{method, body}.run }

type rawCall struct {
	method string
	body   []byte
}

func (c rawCall) run(ctx context.Context, conn *grpc.ClientConn) string {
	var response []byte
	return ending(conn.Invoke(ctx, c.method, c.body, &response, grpc.ForceCodec(asIs{})))
}

// protocolUse uses a connection in an unusual way and says what came of it.
type protocolUse func(ctx context.Context, conn *grpc.ClientConn) string

// ending is the status of an error. What a library says of bytes that it cannot decode is its own business.
func ending(err error) string {
	st := status.Convert(err)
	text, _, _ := strings.Cut(st.Message(), "grpc: error unmarshalling request")
	return fmt.Sprintf("%s %s", st.Code(), text)
}

// largestMessage is what etcd allows beyond the limit of requests, for the envelope.
const largestMessage = maxRequestBytes + 512*1024

// TestTheProtocolIsTheSame looks at what lies below requests: paths, frames, and who ends a stream.
func TestTheProtocolIsTheSame(t *testing.T) {
	uses := map[string]protocolUse{
		"an unknown method":           raw(nil, "/etcdserverpb.KV/Nothing"),
		"an unknown service":          raw(nil, "/unknown.Service/This"),
		"a path with more parts":      raw(nil, "/etcdserverpb.KV/Put/More"),
		"a path without a method":     raw(nil, "/etcdserverpb.KV"),
		"no message of that kind":     raw([]byte{0xff, 0xff}, "/etcdserverpb.KV/Put"),
		"a message just small enough": raw(make([]byte, largestMessage), "/etcdserverpb.KV/Put"),
		"a message that is too large": raw(make([]byte, largestMessage+1), "/etcdserverpb.KV/Put"),
		"a large read-only txn":       largeReadTxn,
		"too large on a stream":       tooLargeOnAStream,
		"a watcher that only listens": onlyListens,
		"a probe of the server":       probe(""),
		"a probe of a service":        probe("etcdserverpb.KV"),
		"a watching probe":            watchingProbe(""),
		"a watching probe of no use":  watchingProbe("unknown"),
		"all that can be probed":      probeAll,
		"keep-alives that end":        keepAlivesEnd,
	}
	sides := map[string]*side{}
	for name, binary := range map[string]string{"reference": cluster.EtcdPath(), "tested": *bin} {
		s, err := newSide(t.Context(), name, binary)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		sides[name] = s
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			reference, tested := use(ctx, sides["reference"].conn), use(ctx, sides["tested"].conn)
			if reference != tested {
				t.Errorf("reference: %s\ntested:    %s", reference, tested)
			}
		})
	}
}

func probe(service string) protocolUse {
	return func(ctx context.Context, conn *grpc.ClientConn) string {
		answer, err := health.NewHealthClient(conn).Check(ctx, &health.HealthCheckRequest{Service: service})
		return answer.GetStatus().String() + ending(err)
	}
}

func watchingProbe(service string) protocolUse {
	return func(ctx context.Context, conn *grpc.ClientConn) string {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := health.NewHealthClient(conn).Watch(ctx, &health.HealthCheckRequest{Service: service})
		if err != nil {
			return ending(err)
		}
		answer, err := stream.Recv()
		return answer.GetStatus().String() + ending(err)
	}
}

func probeAll(ctx context.Context, conn *grpc.ClientConn) string {
	answer, err := health.NewHealthClient(conn).List(ctx, &health.HealthListRequest{})
	return fmt.Sprint(len(answer.GetStatuses()), answer.GetStatuses()[""].GetStatus()) + ending(err)
}

// largeReadTxn is larger than the limit of requests, which is about what goes through the log.
func largeReadTxn(ctx context.Context, conn *grpc.ClientConn) string {
	get := requestOp(&pb.RangeRequest{Key: bytes.Repeat([]byte("k"), maxRequestBytes+1)})
	answer, err := pb.NewKVClient(conn).Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{get}})
	return fmt.Sprint(len(answer.GetResponses()), ending(err))
}

func tooLargeOnAStream(ctx context.Context, conn *grpc.ClientConn) string {
	stream, err := pb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		return ending(err)
	}
	create := &pb.WatchCreateRequest{Key: make([]byte, largestMessage+1)}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	if err == nil {
		_, err = stream.Recv()
	}
	// The lengths of the two differ with nothing but their keys.
	return ending(err)
}

// onlyListens creates a watcher, closes its sending side, and still receives a write.
func onlyListens(ctx context.Context, conn *grpc.ClientConn) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(conn).Watch(ctx)
	if err != nil {
		return ending(err)
	}
	create := &pb.WatchCreateRequest{Key: []byte("listened")}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	if err = errors.Join(err, stream.CloseSend()); err != nil {
		return err.Error()
	}
	if _, err := stream.Recv(); err != nil {
		return "created: " + ending(err)
	}
	if _, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("listened")}); err != nil {
		return "put: " + ending(err)
	}
	told, err := stream.Recv()
	return fmt.Sprint(len(told.GetEvents()), ending(err))
}

func keepAlivesEnd(ctx context.Context, conn *grpc.ClientConn) string {
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
	if err != nil {
		return ending(err)
	}
	err = errors.Join(stream.Send(&pb.LeaseKeepAliveRequest{ID: 404}), stream.CloseSend())
	if err != nil {
		return err.Error()
	}
	first, err := stream.Recv()
	if err != nil {
		return ending(err)
	}
	_, err = stream.Recv()
	return fmt.Sprint(first.TTL, errors.Is(err, io.EOF))
}
