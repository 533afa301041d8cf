package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// progressPoll is how long to wait for a progress answer before asking again: etcd answers none while a
// watcher of the stream is behind.
const progressPoll = 20 * time.Millisecond

// watchCreate creates a watcher on the stream of that number, opening it when needed, and takes the answer.
type watchCreate struct {
	stream  int
	request *pb.WatchCreateRequest
}

func (w watchCreate) String() string {
	return fmt.Sprintf("Watch create on stream %d %v", w.stream, describe(w.request))
}

func (w watchCreate) needsBarrier() bool { return false }

func (w watchCreate) run(ctx context.Context, s *side, known revisions) []answer {
	stream, err := s.stream(ctx, w.stream)
	if err != nil {
		return []answer{failed(err)}
	}
	request := resolved(w.request, known, s.memberID)
	endedBefore := stream.ended
	answers := stream.control1(ctx, s, createRequest(request))
	created, ok := answers[len(answers)-1].message.(*pb.WatchResponse)
	if ok && !created.Canceled && request.StartRevision > 0 && request.StartRevision < known.compacted {
		// The end of this watcher frees its id: without the wait, which id is given next would be left to chance.
		if err := stream.awaitEnded(ctx, endedBefore+1); err != nil {
			answers = append(answers, finding("watcher %d below the compaction continues: %v", created.WatchId, err))
		}
	}
	return answers
}

// awaitEnded reads until compactions have ended that many watchers, which also makes the judge cancel them.
func (w *watchStream) awaitEnded(ctx context.Context, watchers int) error {
	for w.ended < watchers {
		if err := w.receive(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stream returns an open stream with its sentinel watcher in place.
func (s *side) stream(ctx context.Context, number int) (*watchStream, error) {
	if open := s.streams[number]; open != nil {
		return open, nil
	}
	opened, err := openStream(s)
	if err != nil {
		return nil, err
	}
	s.streams[number] = opened
	sentinel := &pb.WatchCreateRequest{Key: []byte(barrierKey), WatchId: sentinelID}
	if created := opened.control1(ctx, s, createRequest(sentinel)); created[0].message == nil {
		return nil, fmt.Errorf("sentinel watcher: %v", created[0])
	}
	return opened, nil
}

// control1 sends a create request and waits for its answer; answers of cancels sent before come along.
func (w *watchStream) control1(ctx context.Context, s *side, request *pb.WatchRequest) []answer {
	if err := w.client.Send(request); err != nil {
		return []answer{failed(err)}
	}
	for {
		for i, r := range w.control {
			if r.Created {
				answers := make([]answer, 0, i+1)
				for _, r := range w.control[:i+1] {
					answers = append(answers, replied(s, nil, r, nil))
				}
				w.control = slices.Delete(w.control, 0, i+1)
				return answers
			}
		}
		if err := w.receive(ctx); err != nil {
			return []answer{failed(err)}
		}
	}
}

// watchCancel cancels a watcher, known or not. A cancel of an unknown one is not answered, so a create that
// must fail is sent after it: what came before its answer is the answer to the cancel.
type watchCancel struct {
	stream int
	id     int64
}

func (w watchCancel) String() string {
	return fmt.Sprintf("Watch cancel on stream %d id %d", w.stream, w.id)
}

// What a watcher received before its cancellation depends on how far it had caught up.
func (w watchCancel) needsBarrier() bool { return true }

func (w watchCancel) run(ctx context.Context, s *side, _ revisions) []answer {
	stream, err := s.stream(ctx, w.stream)
	if err != nil {
		return []answer{failed(err)}
	}
	if err := stream.client.Send(cancelRequest(w.id)); err != nil {
		return []answer{failed(err)}
	}
	fence := &pb.WatchCreateRequest{Key: []byte("b"), RangeEnd: []byte("a")}
	return stream.control1(ctx, s, createRequest(fence))
}

// watchClose ends a stream; the next op on its number opens a new one.
type watchClose struct{ stream int }

func (w watchClose) String() string { return fmt.Sprintf("Watch close stream %d", w.stream) }

func (w watchClose) needsBarrier() bool { return true }

func (w watchClose) run(_ context.Context, s *side, _ revisions) []answer {
	if open := s.streams[w.stream]; open != nil {
		open.close()
		delete(s.streams, w.stream)
	}
	return nil
}

// barrier waits until every stream has sent everything up to the current revision, and takes it.
type barrier struct{}

func (barrier) String() string { return "barrier: all watchers catch up" }

func (barrier) needsBarrier() bool { return true }

func (barrier) run(context.Context, *side, revisions) []answer { return nil }

// catchUp is the work of a barrier on one side. The judge has written just before, so that an answer to an
// earlier progress request, which may have been given before a watcher was created, cannot be confused with this one.
type catchUp struct{}

func (catchUp) String() string { return "barrier" }

func (catchUp) needsBarrier() bool { return false }

func (catchUp) run(ctx context.Context, s *side, known revisions) []answer {
	var answers []answer
	for _, number := range slices.Sorted(maps.Keys(s.streams)) {
		stream := s.streams[number]
		if err := stream.awaitProgress(ctx, known.current); err != nil {
			return append(answers, finding("stream %d has no progress to %d: %v", number, known.current, err))
		}
		answers = append(answers, stream.takeLogs()...)
	}
	return answers
}

// awaitProgress asks for progress until the answer is not older than the revision.
func (w *watchStream) awaitProgress(ctx context.Context, revision int64) error {
	for w.progress < revision {
		progress := &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}
		if err := w.client.Send(&pb.WatchRequest{RequestUnion: progress}); err != nil {
			return err
		}
		if err := w.receiveUntil(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}

func (w *watchStream) receiveUntil(ctx context.Context, revision int64) error {
	poll, cancel := context.WithTimeout(ctx, progressPoll)
	defer cancel()
	for w.progress < revision {
		err := w.receive(poll)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func createRequest(r *pb.WatchCreateRequest) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

func cancelRequest(id int64) *pb.WatchRequest {
	cancel := &pb.WatchCancelRequest{WatchId: id}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: cancel}}
}
