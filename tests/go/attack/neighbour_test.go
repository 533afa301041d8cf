package attack

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// interval is the time between two calls of the neighbour: 200 a second.
	interval = 5 * time.Millisecond
	// quiet is how long it calls before the attack, to compare with.
	quiet = 5 * time.Second
	// atLeast is the time for which an attack is measured, with repetitions if it is shorter.
	atLeast = 5 * time.Second
	// slower is how many times slower the slowest hundredth of its calls may become; below the floor it does not count.
	slower = 2
	floor  = 2 * time.Millisecond
)

// during runs an attack, with -long while calls are measured unless -latency=false.
func (n *neighbour) during(attack func()) {
	if !*long || !*latency {
		attack()
		return
	}
	before := n.measure(func() { time.Sleep(quiet) })
	meanwhile := n.measure(func() {
		for began := time.Now(); time.Since(began) < atLeast; {
			attack()
		}
	})
	n.t.Logf("another client's calls: p50 %s, p99 %s before; p50 %s, p99 %s during %d calls", part(before, 50), part(before, 99),
		part(meanwhile, 50), part(meanwhile, 99), len(meanwhile))
	if was, is := part(before, 99), part(meanwhile, 99); is > slower*was && is > floor {
		n.t.Errorf("the slowest hundredth of another client's calls went from %s to %s", was, is)
	}
}

// measure calls 200 times a second while something runs, and returns how long each call took since it was due.
func (n *neighbour) measure(while func()) []time.Duration {
	stop, done := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); <-done })
	// What runs may end the test: no call may fail it after that.
	defer end()
	var took []time.Duration
	go func() {
		defer close(done)
		due := time.Now()
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Until(due)):
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			if _, err := n.client.Get(ctx, "key"); err != nil {
				n.t.Errorf("another client's get: %v", err)
			}
			cancel()
			took = append(took, time.Since(due))
			due = due.Add(interval)
		}
	}()
	while()
	end()
	slices.Sort(took)
	return took
}

// part is the duration that so many of a hundred do not exceed.
func part(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
