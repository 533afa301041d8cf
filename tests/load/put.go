package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// catchingUp is how many watchers start from the past at a time.
const catchingUp = 1000

// compactPause is the time between two compactions, short enough that several fall into any measurement.
const compactPause = time.Second

// backgrounds are what may go on while keys are put. Each runs until its context ends, on a connection of its
// own.
var backgrounds = map[string]func(context.Context, *clientv3.Client) error{
	"list":     listAgain,
	"catch-up": catchUpAgain,
	"compact":  compactAgain,
}

func backgroundNames() string {
	all := make([]string, 0, len(backgrounds))
	for name := range backgrounds {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

// put puts keys, while something else goes on when that was asked for.
func put(ctx context.Context, s *session, o options) error {
	background := backgrounds[o.while]
	if background == nil && o.while != "" {
		return fmt.Errorf("--while %q: choose one of %s", o.while, backgroundNames())
	}
	other, err := connect(options{endpoints: o.endpoints, conns: 1})
	if err != nil {
		return err
	}
	defer other.close()
	during, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	var failed error
	if background != nil {
		done.Go(func() { failed = background(during, other.conns[0]) })
	}
	value := strings.Repeat("v", o.valueSize)
	s.drive(o, func(client *clientv3.Client, _ int) error {
		_, err := client.Put(ctx, key(rand.IntN(o.keySpace)), value)
		return err
	})
	cancel()
	done.Wait()
	return failed
}

// listAgain lists all keys again and again.
func listAgain(ctx context.Context, client *clientv3.Client) error {
	from, opts := everything()
	for ctx.Err() == nil {
		if _, err := client.Get(ctx, from, opts...); err != nil && ctx.Err() == nil {
			return fmt.Errorf("list meanwhile: %w", err)
		}
	}
	return nil
}

// catchUpAgain starts watchers from the first revision there is, waits until each has got something, and
// begins anew.
func catchUpAgain(ctx context.Context, client *clientv3.Client) error {
	for ctx.Err() == nil {
		round, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		for number := range catchingUp {
			channel := client.Watch(round, key(number), clientv3.WithRev(1))
			done.Go(func() { <-channel })
		}
		done.Wait()
		cancel()
	}
	return nil
}

// compactAgain compacts to the newest revision and defragments one member, again and again.
func compactAgain(ctx context.Context, client *clientv3.Client) error {
	for ctx.Err() == nil {
		if err := compactOnce(ctx, client); err != nil && ctx.Err() == nil {
			return fmt.Errorf("compact meanwhile: %w", err)
		}
		sleep(ctx, compactPause)
	}
	return nil
}

func compactOnce(ctx context.Context, client *clientv3.Client) error {
	now, err := client.Get(ctx, key(0), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if _, err := client.Compact(ctx, now.Header.Revision); err != nil {
		return err
	}
	_, err = client.Defragment(ctx, client.Endpoints()[0])
	return err
}
