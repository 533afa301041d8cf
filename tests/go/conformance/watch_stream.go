package main

import (
	"context"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// barrierKey is written only to move the store past the start of watchers that wait in the future.
	barrierKey = "~barrier"
	// sentinelID is a watcher on every stream: etcd answers a progress request only where there is a watcher.
	sentinelID = 1_000_000
	// progressID is the watch id of answers that concern a whole stream.
	progressID = -1
	// responsesAhead lets the reader of a stream run ahead of the judge; what does not fit waits in gRPC.
	responsesAhead = 1_024
)

// watchStream is one gRPC watch stream of one side, and what came on it since the last barrier.
//
// Only the order within one watcher is promised, and how events are packed into responses depends on timing:
// so answers to control requests are read as they are asked for, and events are collected by watcher and
// compared, flattened, at a barrier.
type watchStream struct {
	client    pb.Watch_WatchClient
	cancel    context.CancelFunc
	responses chan received
	// control holds answers to create and cancel requests, in the order they came.
	control []*pb.WatchResponse
	// logs are the events of each watcher since the last barrier, each log one endless response.
	logs map[int64]*watchLog
	// progress is the revision up to which the whole stream is known to have sent.
	progress int64
	// compacted are the watchers that a compaction ended and that were cancelled by the judge since.
	compacted map[int64]bool
	// ended is how many watchers compactions have ended since the stream was opened.
	ended int
}

type received struct {
	response *pb.WatchResponse
	err      error
}

// watchLog is what one watcher received since the last barrier.
type watchLog struct {
	all      *pb.WatchResponse
	findings []answer
	// open is set while the last response was a fragment, so that its revision may continue in the next.
	open bool
}

func openStream(s *side) (*watchStream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client, err := pb.NewWatchClient(s.conn).Watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watchStream{
		client: client, cancel: cancel, responses: make(chan received, responsesAhead),
		logs: map[int64]*watchLog{}, compacted: map[int64]bool{},
	}
	go w.read(ctx)
	return w, nil
}

func (w *watchStream) close() { w.cancel() }

func (w *watchStream) read(ctx context.Context) {
	for {
		response, err := w.client.Recv()
		select {
		case w.responses <- received{response, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// receive takes one response from the stream and files it.
func (w *watchStream) receive(ctx context.Context) error {
	select {
	case r := <-w.responses:
		if r.err != nil {
			return r.err
		}
		w.file(r.response)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *watchStream) file(r *pb.WatchResponse) {
	switch {
	case r.Canceled && r.CompactRevision != 0:
		w.log(r.WatchId).endByCompaction(r)
		w.compacted[r.WatchId] = true
		w.ended++
		// etcd answers no progress request on a stream while such a watcher is not cancelled.
		_ = w.client.Send(cancelRequest(r.WatchId))
	case r.Canceled && !r.Created && w.compacted[r.WatchId]:
		delete(w.compacted, r.WatchId)
	case r.Created || r.Canceled:
		w.control = append(w.control, r)
	case len(r.Events) == 0:
		if r.WatchId == progressID {
			w.progress = max(w.progress, r.GetHeader().GetRevision())
		}
	default:
		w.log(r.WatchId).add(r)
	}
}

func (w *watchStream) log(id int64) *watchLog {
	if w.logs[id] == nil {
		w.logs[id] = &watchLog{all: &pb.WatchResponse{WatchId: id}}
	}
	return w.logs[id]
}

// takeLogs returns and clears what all watchers received, in the order of their ids.
func (w *watchStream) takeLogs() []answer {
	var answers []answer
	for _, id := range slices.Sorted(maps.Keys(w.logs)) {
		answers = append(answers, answer{message: w.logs[id].all})
		answers = append(answers, w.logs[id].findings...)
	}
	clear(w.logs)
	return answers
}

// add appends a response's events and checks what holds for any system: revisions rise, one revision comes
// whole unless it was fragmented, and the header is not behind the events.
func (l *watchLog) add(r *pb.WatchResponse) {
	if last := l.lastRevision(); last != 0 {
		first := r.Events[0].Kv.ModRevision
		if first < last || (first == last && !l.open) {
			l.findings = append(l.findings, finding("watcher %d: revision %d after %d", r.WatchId, first, last))
		}
	}
	l.all.Events = append(l.all.Events, r.Events...)
	l.open = r.Fragment
	if ahead := l.lastRevision(); r.GetHeader().GetRevision() < ahead {
		l.findings = append(l.findings, finding("watcher %d: header behind revision %d", r.WatchId, ahead))
	}
	if !slices.IsSortedFunc(r.Events, func(a, b *mvccpb.Event) int {
		return int(a.Kv.ModRevision - b.Kv.ModRevision)
	}) {
		l.findings = append(l.findings, finding("watcher %d: a response is not in revision order", r.WatchId))
	}
}

func (l *watchLog) endByCompaction(r *pb.WatchResponse) {
	l.all.Canceled, l.all.CompactRevision, l.all.CancelReason = true, r.CompactRevision, r.CancelReason
}

func (l *watchLog) lastRevision() int64 {
	if len(l.all.Events) == 0 {
		return 0
	}
	return l.all.Events[len(l.all.Events)-1].Kv.ModRevision
}
