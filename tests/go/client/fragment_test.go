package client_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestALongHistoryComesInFragments looks at the responses themselves, which clientv3 puts together again.
func TestALongHistoryComesInFragments(t *testing.T) {
	const (
		values    = 30
		valueSize = 100 << 10
		// etcd fragments what is larger than a request may be plus what it allows for framing.
		maxRequest = 128 << 10
		framing    = 512 << 10
	)
	c := start(t, 1, fmt.Sprintf("--max-request-bytes=%d", maxRequest))
	client := connect(t, c.Endpoints()...)
	ctx := patiently(t)
	for range values {
		putting(t)(client.Put(ctx, "k", strings.Repeat("v", valueSize)))
	}
	stream := must[pb.Watch_WatchClient](t)(pb.NewWatchClient(client.ActiveConnection()).Watch(ctx))
	create := &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 1, Fragment: true}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		t.Fatal(err)
	}
	events, fragments := 0, 0
	for events < values {
		response := must[*pb.WatchResponse](t)(stream.Recv())
		if size := proto.Size(response); size > maxRequest+framing {
			t.Fatalf("a response of %d events has %d bytes", len(response.Events), size)
		}
		for _, event := range response.Events {
			events++
			if event.Kv.Version != int64(events) || len(event.Kv.Value) != valueSize {
				t.Fatalf("event %d is version %d with %d bytes", events, event.Kv.Version, len(event.Kv.Value))
			}
		}
		if response.Fragment {
			fragments++
		}
	}
	if fragments == 0 {
		t.Fatal("megabytes came without a fragment")
	}
}
