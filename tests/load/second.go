package main

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// perResponse is how long the client of the stream takes for a response.
	perResponse = time.Millisecond

	// pauseBetween is the number of responses between two requests on the stream.
	pauseBetween = 3
)

// secondWatch starts a watch of all keys from the first revision on a stream of its own. While that watch catches up
// over o.total events, it creates and cancels a second one on the same stream, again and again, and records how long
// each create and each cancel takes to be answered.
func secondWatch(ctx context.Context, s *session, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(s.conns[0].ActiveConnection()).Watch(ctx)
	if err != nil {
		return err
	}
	from, _ := everything()
	first := &pb.WatchCreateRequest{Key: []byte(from), RangeEnd: []byte{0}, StartRevision: 1, WatchId: 1}
	if err := stream.Send(create(first)); err != nil {
		return err
	}
	second := secondWatcher{session: s, stream: stream}
	s.record.start()
	defer s.record.stop()
	for events, responses := 0, 0; events < o.total; responses++ {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		time.Sleep(perResponse)
		if response.WatchId == 1 {
			if response.Canceled {
				return errors.New("the first watch was canceled: " + response.CancelReason)
			}
			events += len(response.Events)
		} else if err := second.answered(response); err != nil {
			return err
		}
		if responses%pauseBetween == 0 && second.asked.IsZero() && events < o.total {
			if err := second.ask(); err != nil {
				return err
			}
		}
	}
	return second.lastAnswer()
}

// secondWatcher is the second watch: it is created and canceled in turn.
type secondWatcher struct {
	*session
	stream pb.Watch_WatchClient
	exists bool
	// asked is when the last request was sent; zero when it is answered.
	asked time.Time
}

// ask creates it, or cancels it if it exists.
func (w *secondWatcher) ask() error {
	w.asked = time.Now()
	if w.exists {
		request := &pb.WatchCancelRequest{WatchId: 2}
		return w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: request}})
	}
	return w.stream.Send(create(&pb.WatchCreateRequest{Key: []byte("second"), WatchId: 2}))
}

// answered takes a response of the second watch.
func (w *secondWatcher) answered(response *pb.WatchResponse) error {
	if w.asked.IsZero() || response.Created == w.exists || response.Canceled != w.exists {
		return errors.New("the second watch got a response that it did not ask for")
	}
	w.record.add(time.Since(w.asked), nil)
	w.exists = !w.exists
	w.asked = time.Time{}
	return nil
}

// lastAnswer waits for the request that is under way when the first watch has caught up.
func (w *secondWatcher) lastAnswer() error {
	for !w.asked.IsZero() {
		response, err := w.stream.Recv()
		if err != nil {
			return err
		}
		if response.WatchId != 2 {
			continue
		}
		if err := w.answered(response); err != nil {
			return err
		}
	}
	return nil
}

func create(request *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}}
}
