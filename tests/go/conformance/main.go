// Command conformance is the judge of whether two servers are the same to their clients.
//
// From a seed it generates a sequence of requests, sends each to real etcd and to the system under test, at the
// level of gRPC, and compares every answer field for field, error codes and texts included:
//
//	go run ./conformance -seed 1 -ops 400 -sut stele -for 10m
//	go run ./conformance -auth -seed 1 -ops 400 -for 10m      with users and roles that change
//
// Each seed is played on fresh members. On a difference it prints the seed, the op and both answers, looks for a
// shorter sequence that shows a difference, and exits with 1. How requests are made is in gen*.go; what is put
// aside in a comparison, and why, in canonical.go, ties.go and watch_stream.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"stele.test/cluster"
)

type options struct {
	seed   uint64
	ops    int
	length time.Duration
	shrink time.Duration
	sys    systems
}

func main() {
	o, err := parse()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse() (options, error) {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed")
	flag.IntVar(&o.ops, "ops", 400, "operations for each seed")
	flag.DurationVar(&o.length, "for", 0, "run the next seeds for this long; 0 runs one seed")
	flag.DurationVar(&o.shrink, "shrink", 2*time.Minute, "how long to look for a shorter failing sequence")
	sut := flag.String("sut", "stele", "the system under test: stele, or etcd to check the judge itself")
	stele := flag.String("sut-bin", cluster.StelePath(), "the stele binary")
	etcd := flag.String("etcd-bin", cluster.EtcdPath(), "the etcd binary")
	flag.BoolVar(&o.sys.hasUsers, "auth", false, "sequences with users and roles")
	counts := flag.Bool("tally", false, "print at the end how often the reference gave each kind of answer")
	flag.Parse()
	if *counts {
		o.sys.tally = tally{}
	}
	o.sys.reference = *etcd
	switch *sut {
	case "stele":
		o.sys.tested = *stele
	case "etcd":
		o.sys.tested = *etcd
	default:
		return o, fmt.Errorf("-sut is %q; it can be stele or etcd", *sut)
	}
	if o.ops < 1 {
		return o, fmt.Errorf("-ops is %d; it must be at least 1", o.ops)
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	start, sent := time.Now(), 0
	for seed := o.seed; ; seed++ {
		ops := o.sequence(seed)
		d, err := play(ctx, o.sys, ops)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if d != nil {
			return report(ctx, o, seed, ops, d)
		}
		sent += len(ops)
		fmt.Printf("seed %d: %d ops, no difference (%d ops in %s)\n",
			seed, len(ops), sent, time.Since(start).Round(time.Second))
		if time.Since(start) >= o.length {
			fmt.Print(o.sys.tally)
			return nil
		}
	}
}

func (o options) sequence(seed uint64) []op {
	if o.sys.hasUsers {
		return generateAuth(seed, o.ops)
	}
	return generate(seed, o.ops)
}

// report prints a difference at once, as found, and then the shortest sequence it can get.
func report(ctx context.Context, o options, seed uint64, ops []op, d *difference) error {
	fmt.Printf("seed %d, %d ops: the systems differ\n%s\nlooking for a shorter sequence, at most %s\n\n",
		seed, o.ops, d, o.shrink)
	shorter, last := shrink(ctx, o.sys, ops, d, o.shrink)
	fmt.Printf("%d ops are enough:\n", len(shorter))
	for i, step := range shorter {
		fmt.Printf("%4d %s\n", i, step)
	}
	fmt.Printf("\n%s\n", last)
	return fmt.Errorf("difference at seed %d", seed)
}
