package main

import (
	"context"
	"slices"
	"time"
)

// shrink looks for a shorter sequence that still makes a difference, by leaving out ever smaller runs of ops
// and playing the rest on fresh systems, until nothing can be left out or the time is over. Any difference
// counts, not only the first one found: the shortest way to some bug is what helps.
func shrink(ctx context.Context, sys systems, ops []op, found *difference, limit time.Duration) ([]op, *difference) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ops = ops[:min(found.index+1, len(ops))]
	for size := (len(ops) + 1) / 2; size > 0; {
		shorter, d := withoutSome(ctx, sys, ops, size)
		switch {
		case ctx.Err() != nil:
			return ops, found
		case d != nil:
			ops, found = shorter[:min(d.index+1, len(shorter))], d
			size = min(size, (len(ops)+1)/2)
		case size == 1:
			return ops, found
		default:
			size = (size + 1) / 2
		}
	}
	return ops, found
}

// withoutSome tries each way to leave out a run of that size, and returns the first that still differs.
func withoutSome(ctx context.Context, sys systems, ops []op, size int) ([]op, *difference) {
	// From the end: what comes late depends on what came early more often than the other way around.
	for end := len(ops); end > 0; end -= size {
		shorter := slices.Concat(ops[:max(0, end-size)], ops[end:])
		d, err := play(ctx, sys, shorter)
		if err != nil {
			return nil, nil
		}
		if d != nil {
			return shorter, d
		}
	}
	return nil, nil
}
