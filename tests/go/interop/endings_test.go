package interop

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// must says whether an error has a code and a text, and if not, what it is.
func must(err error, code codes.Code, text string) error {
	got := status.Convert(err)
	if got.Code() != code || text != "" && got.Message() != text {
		return fmt.Errorf("%s %q instead of %s %q", got.Code(), got.Message(), code, text)
	}
	return nil
}

func watchOf(key string) *pb.WatchRequest {
	create := &pb.WatchCreateRequest{Key: []byte(key)}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
}

func cancelAfterBegin(ctx context.Context, conn *grpc.ClientConn) error {
	canceled, cancel := context.WithCancel(ctx)
	stream, err := pb.NewWatchClient(conn).Watch(canceled)
	cancel()
	if err == nil {
		_, err = stream.Recv()
	}
	return must(err, codes.Canceled, "")
}

func cancelAfterFirstResponse(ctx context.Context, conn *grpc.ClientConn) error {
	canceled, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(conn).Watch(canceled)
	if err != nil {
		return err
	}
	if err := stream.Send(watchOf("canceled")); err != nil {
		return err
	}
	if answer, err := stream.Recv(); err != nil || !answer.Created {
		return fmt.Errorf("%v, %w", answer, err)
	}
	cancel()
	_, err = stream.Recv()
	return must(err, codes.Canceled, "")
}

func timeoutOnSleepingServer(ctx context.Context, conn *grpc.ClientConn) error {
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	stream, err := pb.NewWatchClient(conn).Watch(short)
	if err == nil {
		_, err = stream.Recv()
	}
	return must(err, codes.DeadlineExceeded, "")
}

func customMetadata(ctx context.Context, conn *grpc.ClientConn) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "x-grpc-test-echo-initial", "test_initial_metadata_value",
		"x-grpc-test-echo-trailing-bin", "\x0a\x0b\x0a\x0b\x0a\x0b", "x-long", strings.Repeat("l", 6000), "hasleader", "true")
	return emptyUnary(ctx, conn)
}

func statusCodeAndMessage(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{})
	if err := must(err, codes.InvalidArgument, "etcdserver: key is not provided"); err != nil {
		return err
	}
	stream, err := pb.NewKVClient(conn).RangeStream(ctx, &pb.RangeRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	return must(err, codes.InvalidArgument, "etcdserver: key is not provided")
}

// specialStatusMessage has a message that needs every kind of encoding.
func specialStatusMessage(ctx context.Context, conn *grpc.ClientConn) error {
	const service = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈 100%\t\n"
	printable := strings.NewReplacer("\t", " ", "\r", " ", "\n", " ").Replace(service)
	err := conn.Invoke(ctx, "/"+printable+"/Method", &pb.StatusRequest{}, &pb.StatusResponse{})
	return must(err, codes.Unimplemented, "unknown service "+printable)
}

func unimplementedMethod(ctx context.Context, conn *grpc.ClientConn) error {
	err := conn.Invoke(ctx, "/etcdserverpb.KV/UnimplementedCall", &pb.StatusRequest{}, &pb.StatusResponse{})
	return must(err, codes.Unimplemented, "unknown method UnimplementedCall for service etcdserverpb.KV")
}

func unimplementedService(ctx context.Context, conn *grpc.ClientConn) error {
	err := conn.Invoke(ctx, "/grpc.testing.UnimplementedService/UnimplementedCall", &pb.StatusRequest{}, &pb.StatusResponse{})
	return must(err, codes.Unimplemented, "unknown service grpc.testing.UnimplementedService")
}

// manyCallsAtOnce has far more calls on one connection than clients usually make.
func manyCallsAtOnce(ctx context.Context, conn *grpc.ClientConn) error {
	var all sync.WaitGroup
	failed := make(chan error, 1000)
	for i := range cap(failed) {
		all.Go(func() {
			_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "many/%d", i), Value: make([]byte, 100)})
			failed <- err
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
