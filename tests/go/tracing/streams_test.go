package tracing

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// streams are calls whose messages have spans of their own: single watches and renewals, and a streamed range.
var streams = []call{
	{"watch that is canceled", watch(&pb.WatchCreateRequest{
		Key: []byte("w"), RangeEnd: []byte("x"), StartRevision: 3, PrevKv: true, ProgressNotify: true,
	}, true), "etcdserverpb.Watch/Watch", "watch", nil},
	{"watch that ends with its stream", watch(&pb.WatchCreateRequest{RangeEnd: []byte{0}, Fragment: true}, false),
		"etcdserverpb.Watch/Watch", "watch", nil},
	{"renewal", func(ctx context.Context, c *grpc.ClientConn) error {
		stream, err := pb.NewLeaseClient(c).LeaseKeepAlive(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 99}); err != nil {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		return ended(func() error { _, err := stream.Recv(); return err })
	}, "etcdserverpb.Lease/LeaseKeepAlive", "lease_renew", nil},
	{"streamed range", kv(func(ctx context.Context, c pb.KVClient) error {
		stream, err := c.RangeStream(ctx, &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("z"), Limit: 3})
		if err != nil {
			return err
		}
		return ended(func() error { _, err := stream.Recv(); return err })
	}), "etcdserverpb.KV/RangeStream", "range_streaming", nil},
}

// ended receives until the server has ended the stream.
func ended(receive func() error) error {
	for {
		if err := receive(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// watch creates a watch, cancels it if asked to, and ends the stream.
func watch(request *pb.WatchCreateRequest, cancels bool) func(context.Context, *grpc.ClientConn) error {
	return func(ctx context.Context, c *grpc.ClientConn) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := pb.NewWatchClient(c).Watch(ctx)
		if err != nil {
			return err
		}
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}}
		if err := stream.Send(create); err != nil {
			return err
		}
		created, err := stream.Recv()
		if err != nil {
			return err
		}
		if !created.Created || created.Canceled {
			return fmt.Errorf("the watch was not created: %v", created)
		}
		if !cancels {
			return nil
		}
		end := &pb.WatchCancelRequest{WatchId: created.WatchId}
		if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: end}}); err != nil {
			return err
		}
		for {
			response, err := stream.Recv()
			if err != nil || response.Canceled {
				return err
			}
		}
	}
}
