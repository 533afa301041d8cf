package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"stele.test/cluster"
)

// Times of a fault: from shorter than an election to several of them, and of the calm after it.
const (
	shortest = 200 * time.Millisecond
	longest  = 3 * time.Second
	calmMax  = 1500 * time.Millisecond
	// flapMax is how long a flapping link stays as it is.
	flapMax = 300 * time.Millisecond
)

// fault is one thing that goes wrong and is put right again.
type fault struct {
	name   string
	strike func(n *nemesis) (heal func() error, err error)
}

// nemesis decides what goes wrong when.
type nemesis struct {
	network *network
	cluster *cluster.Cluster
	random  *rand.Rand
	counts  map[string]int
}

var faults = []fault{
	{"isolated member", func(n *nemesis) (func() error, error) {
		lone := n.member()
		return n.network.mend, n.network.drop(slices.Concat(from(lone), to(lone))...)
	}},
	{"all links cut", func(n *nemesis) (func() error, error) {
		return n.network.mend, n.network.drop(slices.Concat(from(0), from(1), from(2))...)
	}},
	{"bridge", func(n *nemesis) (func() error, error) {
		a, b := n.pair()
		return n.network.mend, n.network.drop(direction{a, b}, direction{b, a})
	}},
	{"one-way drop", func(n *nemesis) (func() error, error) {
		a, b := n.pair()
		return n.network.mend, n.network.drop(direction{a, b})
	}},
	{"ring of one-way drops", func(n *nemesis) (func() error, error) {
		return n.network.mend, n.network.drop(direction{0, 1}, direction{1, 2}, direction{2, 0})
	}},
	{"deaf member", func(n *nemesis) (func() error, error) {
		return n.network.mend, n.network.drop(to(n.member())...)
	}},
	{"mute member", func(n *nemesis) (func() error, error) {
		return n.network.mend, n.network.drop(from(n.member())...)
	}},
	{"flapping link", (*nemesis).flap},
	{"unplugged member", func(n *nemesis) (func() error, error) {
		lone := n.member()
		return func() error { return n.network.plug(lone, true) }, n.network.plug(lone, false)
	}},
	{"slow link", func(n *nemesis) (func() error, error) {
		late := n.member()
		return func() error { return n.network.unslow(late) }, n.network.slow(late)
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
			return n.network.mend()
		}, n.network.drop(slices.Concat(from(lone), to(lone))...)
	}},
}

// flap cuts one link and mends it, again and again, before it returns.
func (n *nemesis) flap() (func() error, error) {
	a, b := n.pair()
	for range 2 + n.random.IntN(6) {
		if err := n.network.drop(direction{a, b}, direction{b, a}); err != nil {
			return nil, err
		}
		time.Sleep(n.within(0, flapMax))
		if err := n.network.mend(); err != nil {
			return nil, err
		}
		time.Sleep(n.within(0, flapMax))
	}
	return n.network.mend, nil
}

// run lets faults strike, one after the other, until the context ends. Every kind comes once before any comes again.
func (n *nemesis) run(ctx context.Context) error {
	for {
		for _, at := range n.random.Perm(len(faults)) {
			if ctx.Err() != nil {
				return nil
			}
			f := faults[at]
			heal, err := f.strike(n)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			n.counts[f.name]++
			time.Sleep(n.within(shortest, longest))
			if err := heal(); err != nil {
				return fmt.Errorf("healing of %s: %w", f.name, err)
			}
			time.Sleep(n.within(0, calmMax))
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

// struck lists the faults by how often they struck.
func (n *nemesis) struck() string {
	var parts []string
	for _, f := range faults {
		parts = append(parts, fmt.Sprintf("%s %d", f.name, n.counts[f.name]))
	}
	return strings.Join(parts, ", ")
}

func from(member int) []direction {
	a, b := (member+1)%members, (member+2)%members
	return []direction{{member, a}, {member, b}}
}

func to(member int) []direction {
	a, b := (member+1)%members, (member+2)%members
	return []direction{{a, member}, {b, member}}
}
