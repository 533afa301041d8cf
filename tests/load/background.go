package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// catchingUp is the number of watchers that start from history at a time.
const catchingUp = 1000

// compactPause is the time between two compactions, short enough for several in any measurement.
const compactPause = time.Second

// background starts a program that runs only while the processor is idle: the background client stands for another
// machine and must not slow down the clients whose latency is measured.
var background = []string{"chrt", "--idle", "0"}

// backgrounds are the loads that can run while keys are put. Each runs until its context ends.
var backgrounds = map[string]func(context.Context, *clientv3.Client) error{
	"list":     readRanges,
	"catch-up": catchUpWatchers,
	"compact":  compactHistory,
}

func backgroundNames() string {
	all := make([]string, 0, len(backgrounds))
	for name := range backgrounds {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

// runBackground runs one background load until SIGTERM.
func runBackground(ctx context.Context, s *session, o options) error {
	again := backgrounds[o.while]
	if again == nil {
		return fmt.Errorf("--while %q: choose one of %s", o.while, backgroundNames())
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	return again(ctx, s.conns[0])
}

// startBackground runs this program once more, with a background load. The returned function stops it and returns its
// error.
func startBackground(ctx context.Context, o options) (func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	endpoints := strings.Join(o.endpoints, ",")
	line := append(slices.Clone(background), self, "meanwhile", "--while", o.while, "--endpoints", endpoints)
	other := exec.CommandContext(ctx, line[0], line[1:]...)
	other.Stderr = os.Stderr
	if err := other.Start(); err != nil {
		return nil, err
	}
	return func() error {
		// If it has ended already, Wait returns its error.
		_ = other.Process.Signal(syscall.SIGTERM)
		if err := other.Wait(); err != nil {
			return fmt.Errorf("%s meanwhile: %w", o.while, err)
		}
		return nil
	}, nil
}

// readRanges lists all keys again and again.
func readRanges(ctx context.Context, client *clientv3.Client) error {
	from, opts := everything()
	for ctx.Err() == nil {
		if _, err := client.Get(ctx, from, opts...); err != nil && ctx.Err() == nil {
			return fmt.Errorf("list meanwhile: %w", err)
		}
	}
	return nil
}

// catchUpWatchers starts watchers from the first revision there is, waits until each has got something, and
// starts again.
func catchUpWatchers(ctx context.Context, client *clientv3.Client) error {
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

// compactHistory compacts to the newest revision and defragments every member in turn, again and again.
func compactHistory(ctx context.Context, client *clientv3.Client) error {
	for ctx.Err() == nil {
		err := compactOnce(ctx, client)
		// A server that is behind says so; the next turn comes soon.
		if err != nil && ctx.Err() == nil && !errors.Is(err, rpctypes.ErrTooManyRequests) {
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
	members, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, member := range members.Members {
		if _, err := client.Defragment(ctx, member.ClientURLs[0]); err != nil {
			return err
		}
	}
	return nil
}
