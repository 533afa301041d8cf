package main

import (
	"math/rand/v2"
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

// generate returns the sequence of a seed.
func generate(seed uint64, length int) []op {
	g := generator{rand.New(rand.NewPCG(seed, seed))}
	ops := make([]op, length)
	for i := range ops {
		ops[i] = g.op()
	}
	return ops
}

func (g generator) op() op {
	return pick(g, []choice[op]{
		{200, func() op { return unary(g.put()) }},
		{200, func() op { return unary(g.rangeRequest()) }},
		{40, func() op { return rangeStream{g.streamRequest()} }},
		{40, func() op { return unary(g.fill()) }},
		{60, func() op { return unary(g.deleteRange()) }},
		{140, func() op { return unary(g.txn(2)) }},
		{20, func() op { return unary(g.compaction()) }},
		{120, g.leaseOp},
		{130, g.watchOp},
		{60, g.maintenanceOp},
	})
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
