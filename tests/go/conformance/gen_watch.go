package main

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func (g generator) watchOp() op {
	stream := g.IntN(3)
	return pick(g, []choice[op]{
		{50, func() op { return watchCreate{stream, g.watchRequest()} }},
		{20, func() op { return watchCancel{stream, g.watchID()} }},
		{25, func() op { return barrier{} }},
		{4, func() op { return watchClose{stream} }},
	})
}

// watchID is one of those the server gives or a request chooses, and now and then one that is never in use.
func (g generator) watchID() int64 { return one[int64](g, 0, 1, 2, 3, 5, 6, 7, 77) }

func (g generator) watchRequest() *pb.WatchCreateRequest {
	key, end := g.interval()
	r := &pb.WatchCreateRequest{
		Key: key, RangeEnd: end, StartRevision: g.watchStart(),
		PrevKv: g.chance(2), Fragment: g.chance(3), ProgressNotify: g.chance(4),
	}
	if g.chance(4) {
		r.Filters = append(r.Filters, pb.WatchCreateRequest_FilterType(g.IntN(2)))
	}
	if g.chance(12) {
		r.Filters = append(r.Filters, pb.WatchCreateRequest_FilterType(g.IntN(2)))
	}
	if g.chance(4) {
		r.WatchId = g.watchID()
	}
	return r
}

// watchStart lies ahead by little only: the barrier writes until every watcher has started.
func (g generator) watchStart() int64 {
	return pick(g, []choice[int64]{
		{40, func() int64 { return 0 }},
		{30, func() int64 { return nearCurrent(-g.Int64N(30)) }},
		{10, func() int64 { return nearCurrent(1 + g.Int64N(4)) }},
		{10, func() int64 { return nearCompacted(g.Int64N(4) - 2) }},
		{2, func() int64 { return one[int64](g, 1, -1) }},
	})
}
