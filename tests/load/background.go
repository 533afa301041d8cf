package main

import (
	"bytes"
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

// requestLimit bounds what must end by itself.
const requestLimit = 2 * time.Minute

// background starts a program that runs only while the processor is idle: the background client stands for another
// machine and must not slow down the clients whose latency is measured.
var background = []string{"chrt", "--idle", "0"}

// meanwhile is what runs while keys are put.
type meanwhile struct {
	run func(context.Context, *clientv3.Client) error
	// endless says that it runs until its context ends. Otherwise it ends by itself, and the puts wait for that.
	endless bool
}

var backgrounds = map[string]meanwhile{
	"list":     {readRanges, true},
	"catch-up": {catchUpWatchers, true},
	"compact":  {compactHistory, true},
	"snapshot": {snapshotAgain, true},
	"delete":   {deleteEverything, false},
	"txn":      {nestedRanges, false},
	"compares": {compareRanges, false},
	"expire":   {awaitExpiry, false},
}

// preparations run before the first put.
var preparations = map[string]func(context.Context, *session, options) error{
	"txn":      putKeys,
	"compares": putKeys,
	"expire":   grantTogether,
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
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	load := backgrounds[o.while]
	if !load.endless {
		limited, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		ctx = limited
	}
	return load.run(ctx, s.conns[0])
}

// other is this program run once more, with a background load.
type other struct {
	process *exec.Cmd
	endless bool
	// said is its standard error, complete when it has ended.
	said bytes.Buffer
	// err is set before ended is closed.
	err   error
	ended chan struct{}
}

func startBackground(ctx context.Context, o options) (*other, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	endpoints := strings.Join(o.endpoints, ",")
	line := append(slices.Clone(background), self, "meanwhile", "--while", o.while, "--endpoints", endpoints)
	process := exec.CommandContext(ctx, line[0], line[1:]...)
	started := &other{process: process, endless: backgrounds[o.while].endless, ended: make(chan struct{})}
	process.Stderr = &started.said
	if err := process.Start(); err != nil {
		return nil, err
	}
	go func() {
		started.err = process.Wait()
		close(started.ended)
	}()
	return started, nil
}

// hasEnded reports whether no put need wait for it any longer.
func (b *other) hasEnded() bool {
	if b.endless {
		return true
	}
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// stop ends it and returns its error.
func (b *other) stop() error {
	if b.endless {
		// If it has ended already, its error is returned.
		_ = b.process.Process.Signal(syscall.SIGTERM)
	}
	<-b.ended
	if b.err != nil {
		return fmt.Errorf("%s meanwhile: %w", strings.TrimSpace(b.said.String()), b.err)
	}
	return nil
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
	if err := compactToNewest(ctx, client); err != nil {
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

func compactToNewest(ctx context.Context, client *clientv3.Client) error {
	now, err := client.Get(ctx, key(0), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, now.Header.Revision)
	// A revision that is compacted already is the newest one still.
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// startCompacting compacts to the newest revision every so often, in this process: it must not be late when the
// processor is busy. The returned function compacts a last time and returns the first error.
func startCompacting(ctx context.Context, client *clientv3.Client, every time.Duration) func() error {
	ending := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ending:
				ended <- compactToNewest(ctx, client)
				return
			case <-ticker.C:
			}
			if err := compactToNewest(ctx, client); err != nil {
				ended <- fmt.Errorf("compact meanwhile: %w", err)
				return
			}
		}
	}()
	return func() error {
		close(ending)
		return <-ended
	}
}
