package main

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// generator makes the ops of one sequence. It knows nothing of the systems: the same seed is always the same
// sequence, and interesting states come from a small space of keys, leases and watchers in which ops meet often.
type generator struct {
	*rand.Rand
}

// choice is one thing a generator may do, and how often, relative to its neighbours.
type choice[T any] struct {
	weight int
	make   func() T
}

// generate returns the sequence of a seed. It begins with keys in the store, so that nothing is read in vain.
func generate(seed uint64, length int) []op {
	g := generator{newRand(seed)}
	ops := make([]op, length)
	for i := range ops {
		next := g.op
		if i == 0 {
			next = func() op { return unary(g.fill()) }
		}
		ops[i] = next()
		for nearSizeLimit(ops[i]) || mayKillEtcd(ops[i]) {
			ops[i] = next()
		}
	}
	return ops
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

// nearSizeLimit says whether it is open if a request is too large: an id that begins with the member's counts, too, in as
// many bytes as it takes; and symbols are longer than what they stand for.
func nearSizeLimit(o op) bool {
	const below, above = 50, 300
	switch o := o.(type) {
	case call:
		size := proto.Size(o.request)
		return size > maxRequestBytes-below && size < maxRequestBytes+above
	case burst:
		return slices.ContainsFunc(o, nearSizeLimit)
	case asUser:
		return nearSizeLimit(o.op)
	default:
		return false
	}
}

func (g generator) op() op {
	return pick(g, []choice[op]{
		{200, func() op { return unary(g.put()) }},
		{200, func() op { return ranged(g.rangeRequest()) }},
		{40, func() op { return rangeStream{g.streamRequest()} }},
		{60, func() op { return unary(g.fill()) }},
		{60, func() op { return unary(g.deleteRange()) }},
		{140, func() op { return unary(g.txn(2)) }},
		{20, func() op { return compaction{g.compaction()} }},
		{120, g.leaseOp},
		{130, g.watchOp},
		{60, g.maintenanceOp},
	})
}

// mayKillEtcd avoids transactions that delete up to the end and put with an ignore option: etcd does not see
// when they overlap, and panics. TestWhatKillsEtcdIsSurvived sends one.
func mayKillEtcd(o op) bool {
	switch o := o.(type) {
	case call:
		var deletes, ignores bool
		eachMessage(o.request.ProtoReflect(), func(m proto.Message) {
			switch m := m.(type) {
			case *pb.DeleteRangeRequest:
				deletes = deletes || bytes.Equal(m.RangeEnd, []byte{0})
			case *pb.PutRequest:
				ignores = ignores || m.IgnoreValue || m.IgnoreLease
			}
		})
		return deletes && ignores
	case burst:
		return slices.ContainsFunc(o, mayKillEtcd)
	case asUser:
		return mayKillEtcd(o.op)
	default:
		return false
	}
}

// pick takes one choice by weight.
func pick[T any](g generator, choices []choice[T]) T {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := g.IntN(total)
	for _, c := range choices {
		if n < c.weight {
			return c.make()
		}
		n -= c.weight
	}
	panic("weights are positive")
}

// one takes one of several values with equal chances.
func one[T any](g generator, values ...T) T { return values[g.IntN(len(values))] }

// chance is true once in n.
func (g generator) chance(n int) bool { return g.IntN(n) == 0 }
