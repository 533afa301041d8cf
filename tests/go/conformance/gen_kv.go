package main

import (
	"math"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// keys share prefixes, so that ranges overlap, and hold the bytes at the ends of the order.
var keys = []string{
	"a", "a/", "a/1", "a/2", "a/b", "a/b/1", "a/b/2", "ab", "a\xff", "b", "b/1", "b\x00", "c", "z",
	"\x00", "\x00\x00", "\x01", "\xff", "\xff\xff", "é", strings.Repeat("k", 300),
	"n/0", "n/1", "n/2", "n/3", "n/4", "n/5", "n/6", "n/7", "n/8", "n/9",
}

// values repeat, so that sorts have ties and compares hit; the large ones add up to fragments and refusals.
var values = []string{"", "1", "2", "3", "x", "\x00", "\xff\xfe", strings.Repeat("L", 900), strings.Repeat("l", 900)}

// tooLarge is a value that no request may carry.
var tooLarge = strings.Repeat("!", maxRequestBytes+1_000)

func (g generator) key() []byte {
	if g.chance(60) {
		return nil
	}
	return []byte(one(g, keys...))
}

func (g generator) value() []byte {
	if g.chance(150) {
		return []byte(tooLarge)
	}
	return []byte(one(g, values...))
}

// interval is a key and a range end of every kind: none, a prefix, everything from the key on, up to another
// key, and ends that lie before the key.
func (g generator) interval() (key, end []byte) {
	return g.intervalFrom(g.key())
}

func (g generator) intervalFrom(key []byte) (from, end []byte) {
	none := func() []byte { return nil }
	end = pick(g, []choice[[]byte]{
		{25, none},
		{25, func() []byte { return prefixEnd(key) }},
		{15, func() []byte { return []byte{0} }},
		{20, func() []byte { return []byte(one(g, keys...)) }},
		{3, func() []byte { return key }},
		{20, func() []byte { key = []byte{0}; return []byte{0} }},
	})
	return key, end
}

// prefixEnd is the end of the range of all keys that start with a prefix.
func prefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			end := append([]byte{}, prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return []byte{0}
}

// revision is a revision to read at: mostly the newest, else past, compacted, future or nonsense.
func (g generator) revision() int64 {
	return pick(g, []choice[int64]{
		{50, func() int64 { return 0 }},
		{30, func() int64 { return nearCurrent(-g.Int64N(30)) }},
		{8, func() int64 { return nearCompacted(g.Int64N(4) - 1) }},
		{4, func() int64 { return nearCurrent(1 + g.Int64N(3)) }},
		{2, func() int64 { return one(g, -1, 1, 2, int64(math.MaxInt64), int64(math.MinInt64)) }},
	})
}

func (g generator) put() *pb.PutRequest {
	r := &pb.PutRequest{Key: g.key(), Value: g.value(), PrevKv: g.chance(2)}
	if g.chance(3) {
		r.Lease = g.leaseID()
	}
	if g.chance(8) {
		r.IgnoreValue = true
		if !g.chance(5) {
			r.Value = nil
		}
	}
	if g.chance(8) {
		r.IgnoreLease = true
		if !g.chance(5) {
			r.Lease = 0
		}
	}
	return r
}

// fill puts many keys in one revision: it keeps the store rich, and makes ties for sorts by revision.
func (g generator) fill() *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for _, i := range g.Perm(len(keys))[:1+g.IntN(maxTxnOps)] {
		put := &pb.PutRequest{Key: []byte(keys[i]), Value: []byte(one(g, values...))}
		r.Success = append(r.Success, requestOp(put))
	}
	return r
}

func (g generator) rangeRequest() *pb.RangeRequest {
	r := g.streamRequest()
	if g.chance(2) {
		r.SortTarget = pb.RangeRequest_SortTarget(g.IntN(5))
		r.SortOrder = pb.RangeRequest_SortOrder(g.IntN(3))
	}
	if g.chance(4) {
		for _, bound := range []*int64{
			&r.MinModRevision, &r.MaxModRevision, &r.MinCreateRevision, &r.MaxCreateRevision,
		} {
			if g.chance(3) {
				*bound = nearCurrent(-g.Int64N(30))
			}
		}
	}
	if g.chance(100) {
		r.SortTarget = one(g, pb.RangeRequest_SortTarget(9), -1)
	}
	if g.chance(100) {
		r.SortOrder = one(g, pb.RangeRequest_SortOrder(9), -1)
	}
	return r
}

// streamRequest has mostly the options that a range stream takes.
func (g generator) streamRequest() *pb.RangeRequest {
	key, end := g.interval()
	r := &pb.RangeRequest{
		Key: key, RangeEnd: end, Revision: g.revision(),
		Serializable: g.chance(3), KeysOnly: g.chance(5), CountOnly: g.chance(8),
	}
	if g.chance(2) {
		r.Limit = one(g, 1, 1, 2, 3, 5, 10, 11, 1_000, int64(math.MaxInt64), -1)
	}
	if g.chance(20) {
		// A target without an order sorts each of etcd's chunks by itself, and confuses where the next one begins.
		r.SortOrder = pb.RangeRequest_SortOrder(1 + g.IntN(2))
		r.SortTarget = pb.RangeRequest_SortTarget(g.IntN(5))
	}
	return r
}

func (g generator) deleteRange() *pb.DeleteRangeRequest {
	key, end := g.interval()
	if len(end) > 0 && !g.chance(6) {
		// Wide deletes empty the store: mostly keep them small, so that states stay rich.
		key, end = g.key(), nil
	}
	return &pb.DeleteRangeRequest{Key: key, RangeEnd: end, PrevKv: g.chance(2)}
}

func (g generator) compaction() *pb.CompactionRequest {
	revision := pick(g, []choice[int64]{
		{60, func() int64 { return nearCurrent(-g.Int64N(40)) }},
		{10, func() int64 { return nearCurrent(0) }},
		{10, func() int64 { return nearCompacted(g.Int64N(3) - 1) }},
		{5, func() int64 { return nearCurrent(1 + g.Int64N(3)) }},
		{3, func() int64 { return one(g, 0, -1, int64(math.MaxInt64)) }},
	})
	return &pb.CompactionRequest{Revision: revision, Physical: g.chance(2)}
}
