package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"stele.test/cluster"
	"stele.test/netns"
)

// Duration of a fault, from less than an election to several elections, and of the pause after it.
const (
	minFault = 200 * time.Millisecond
	maxFault = 3 * time.Second
	maxCalm  = 1500 * time.Millisecond
	// maxFlap is the longest time that a flapping link stays up or down.
	maxFlap = 300 * time.Millisecond
)

// fault is one kind of fault. inject begins it and returns the function that ends it.
type fault struct {
	name   string
	inject func(n *nemesis) (undo func() error, err error)
}

// nemesis decides which fault occurs when.
type nemesis struct {
	network *netns.Network
	cluster *cluster.Cluster
	random  *rand.Rand
	counts  map[string]int
}

var faults = []fault{
	{"isolated member", func(n *nemesis) (func() error, error) {
		lone := n.member()
		return n.network.Restore, n.network.Drop(slices.Concat(n.network.From(lone), n.network.To(lone))...)
	}},
	{"all links cut", func(n *nemesis) (func() error, error) {
		return n.network.Restore, n.network.Drop(slices.Concat(n.network.From(0), n.network.From(1), n.network.From(2))...)
	}},
	{"bridge", func(n *nemesis) (func() error, error) {
		a, b := n.pair()
		return n.network.Restore, n.network.Drop(netns.Direction{From: a, To: b}, netns.Direction{From: b, To: a})
	}},
	{"one-way drop", func(n *nemesis) (func() error, error) {
		a, b := n.pair()
		return n.network.Restore, n.network.Drop(netns.Direction{From: a, To: b})
	}},
	{"ring of one-way drops", func(n *nemesis) (func() error, error) {
		return n.network.Restore, n.network.Drop(netns.Direction{From: 0, To: 1}, netns.Direction{From: 1, To: 2}, netns.Direction{From: 2, To: 0})
	}},
	{"deaf member", func(n *nemesis) (func() error, error) {
		return n.network.Restore, n.network.Drop(n.network.To(n.member())...)
	}},
	{"mute member", func(n *nemesis) (func() error, error) {
		return n.network.Restore, n.network.Drop(n.network.From(n.member())...)
	}},
	{"flapping link", (*nemesis).flap},
	{"unplugged member", func(n *nemesis) (func() error, error) {
		lone := n.member()
		return func() error { return n.network.Plug(lone, true) }, n.network.Plug(lone, false)
	}},
	{"slow link", func(n *nemesis) (func() error, error) {
		late := n.member()
		return func() error { return n.network.RestoreSpeed(late) }, n.network.Slow(late)
	}},
	{"kill -9", func(n *nemesis) (func() error, error) {
		m := n.cluster.Members[n.member()]
		m.Kill()
		return m.Start, nil
	}},
	{"kill -9 of two", func(n *nemesis) (func() error, error) {
		a, b := n.pair()
		n.cluster.Members[a].Kill()
		n.cluster.Members[b].Kill()
		return func() error {
			if err := n.cluster.Members[a].Start(); err != nil {
				return err
			}
			return n.cluster.Members[b].Start()
		}, nil
	}},
	{"frozen member", func(n *nemesis) (func() error, error) {
		m := n.cluster.Members[n.member()]
		return m.Thaw, m.Freeze()
	}},
	{"kill -9 behind a cut", func(n *nemesis) (func() error, error) {
		lone, victim := n.pair()
		n.cluster.Members[victim].Kill()
		return func() error {
			if err := n.cluster.Members[victim].Start(); err != nil {
				return err
			}
			return n.network.Restore()
		}, n.network.Drop(slices.Concat(n.network.From(lone), n.network.To(lone))...)
	}},
}

// flap cuts and restores one link several times before it returns.
func (n *nemesis) flap() (func() error, error) {
	a, b := n.pair()
	for range 2 + n.random.IntN(6) {
		if err := n.network.Drop(netns.Direction{From: a, To: b}, netns.Direction{From: b, To: a}); err != nil {
			return nil, err
		}
		time.Sleep(n.within(0, maxFlap))
		if err := n.network.Restore(); err != nil {
			return nil, err
		}
		time.Sleep(n.within(0, maxFlap))
	}
	return n.network.Restore, nil
}

// run injects one fault after the other until the context ends. Each kind occurs once before any occurs again.
func (n *nemesis) run(ctx context.Context) error {
	for {
		for _, at := range n.random.Perm(len(faults)) {
			if ctx.Err() != nil {
				return nil
			}
			f := faults[at]
			undo, err := f.inject(n)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			n.counts[f.name]++
			time.Sleep(n.within(minFault, maxFault))
			if err := undo(); err != nil {
				return fmt.Errorf("end of %s: %w", f.name, err)
			}
			time.Sleep(n.within(0, maxCalm))
		}
	}
}

func (n *nemesis) within(low, high time.Duration) time.Duration {
	return low + time.Duration(n.random.Int64N(int64(high-low)))
}

func (n *nemesis) member() int { return n.random.IntN(members) }

func (n *nemesis) pair() (int, int) {
	two := n.random.Perm(members)
	return two[0], two[1]
}

// summary lists how often each fault occurred.
func (n *nemesis) summary() string {
	var parts []string
	for _, f := range faults {
		parts = append(parts, fmt.Sprintf("%s %d", f.name, n.counts[f.name]))
	}
	return strings.Join(parts, ", ")
}
