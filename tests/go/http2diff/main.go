// Command http2diff sends the same bytes to two servers over raw connections, and compares what comes of them: below
// gRPC's libraries, where a client may break every rule of HTTP/2, of HPACK and of gRPC's framing.
//
//	go run ./http2diff -seed 1 -cases 1000000 -workers 8
//
// A script is a sequence of ops on one connection: calls with unusual headers, bodies and frames, and frames that belong
// to no call (op.go, gen*.go). It follows from a seed and its number. After each op both servers have to have read it and
// answered, so that an outcome does not depend on who is faster; then the outcomes are compared: of each stream the
// headers, the status, the flags of messages and the reset code, and of the connection whether it goes on, and what its
// GOAWAY says (answer.go). Differences that are meant to be are in known.go. When a connection has ended, the script goes
// on with a new one. A difference has to show again when its script is played again; then the script is shortened and
// printed.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"stele.test/cluster"
)

type options struct {
	seed           uint64
	first          uint64
	cases, workers int
	// most is how many different differences are reported before the run stops.
	most int
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "the seed of all scripts")
	flag.Uint64Var(&o.first, "first", 0, "the number of the first script")
	flag.IntVar(&o.cases, "cases", 100_000, "ops to play, all scripts together")
	flag.IntVar(&o.workers, "workers", 8, "scripts to play at once")
	flag.IntVar(&o.most, "most", 1, "differences to look for before the run stops")
	reference := flag.String("reference", cluster.EtcdPath(), "the binary to compare with")
	tested := flag.String("bin", cluster.StelePath(), "the binary to test")
	outcomes := flag.Bool("tally", false, "print how often the reference came to each outcome")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *reference, *tested, *outcomes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, reference, tested string, outcomes bool) error {
	p, err := newPair(ctx, reference, tested)
	if err != nil {
		return err
	}
	defer p.close()
	start := time.Now()
	result := campaign(ctx, p, o)
	took := time.Since(start)
	for _, d := range result.differences {
		fmt.Println(d)
	}
	fmt.Printf("seed %d: %d cases on %d connections in %s, %.0f a second; %d unsteady differences\n", o.seed, result.ops,
		result.connections, took.Round(time.Second), float64(result.ops)/took.Seconds(), result.unsteady)
	printCounts("known difference", result.tally.differ)
	if outcomes {
		printCounts("outcome", result.tally.outcomes)
	}
	if result.err != nil {
		return result.err
	}
	if len(result.differences) > 0 {
		return fmt.Errorf("%d differences that are not known", len(result.differences))
	}
	return nil
}

func printCounts(what string, counts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%s %7d %s\n", what, counts[name], name)
	}
}

func newPair(ctx context.Context, reference, tested string) (pair, error) {
	var p pair
	var err error
	if p.reference, err = newSide(ctx, "reference", reference); err != nil {
		return p, err
	}
	if p.tested, err = newSide(ctx, "tested", tested); err != nil {
		_ = p.reference.cluster.Close()
	}
	return p, err
}

func (p pair) close() {
	_ = p.reference.cluster.Close()
	_ = p.tested.cluster.Close()
}

// result is what a campaign found.
type result struct {
	ops, connections, unsteady int
	differences                []string
	tally                      tally
	err                        error
}

// campaign plays scripts, several at once, until there were enough ops or differences.
func campaign(ctx context.Context, p pair, o options) result {
	total := result{tally: newTally()}
	var lock sync.Mutex
	var workers sync.WaitGroup
	var number atomic.Uint64
	number.Store(o.first)
	seen := map[string]bool{}
	for worker := range o.workers {
		workers.Go(func() {
			// Ports of closed connections are not free at once, so each worker has some of its own.
			w := player{pair: p, from: net.IPv4(127, 0, 1, byte(1+worker)), tally: newTally()}
			for {
				lock.Lock()
				enough := total.ops+w.ops >= o.cases || len(total.differences) >= o.most || total.err != nil
				total.ops, total.connections = total.ops+w.ops, total.connections+w.connections
				w.ops, w.connections = 0, 0
				lock.Unlock()
				if enough || ctx.Err() != nil {
					break
				}
				n := number.Add(1) - 1
				text, kind, err := w.find(o.seed, n)
				lock.Lock()
				switch {
				case err != nil:
					total.err = fmt.Errorf("script %d: %w\n%s", n, err, p.tested.cluster.LogTails())
				case kind == unsteady:
					total.unsteady++
				case text != "" && !seen[kind]:
					seen[kind] = true
					total.differences = append(total.differences, text)
				}
				lock.Unlock()
			}
			lock.Lock()
			defer lock.Unlock()
			total.tally.add(w.tally)
		})
	}
	workers.Wait()
	return total
}

// unsteady is the kind of a difference that did not show again.
const unsteady = "unsteady"

// find plays a script. A difference that shows again is shortened and printed; its kind is what the servers did.
func (p *player) find(seed, number uint64) (text, kind string, err error) {
	ops := script(seed, number)
	d, err := p.play(ops)
	if d == nil || err != nil {
		return "", "", err
	}
	again, err := p.play(ops)
	if err != nil {
		return "", "", err
	}
	if again == nil || again.at != d.at {
		return "", unsteady, nil
	}
	fewer, last := p.shrink(ops, again)
	text = fmt.Sprintf("seed %d, script %d:\n", seed, number)
	client := newSender()
	for i, o := range fewer {
		bytes := o.sent(client).bytes
		text += fmt.Sprintf("  %d %s\n    %x\n", i, o, bytes[:min(len(bytes), 600)])
	}
	return text + last.String() + "\n", last.reference + " <> " + last.tested, nil
}
