package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// onFull is how long puts are tried and refused until the disk counts as full.
	onFull = 5 * time.Second

	// answerLimit is how long one request on a full disk may take.
	answerLimit = 10 * time.Second

	// freeLimit is how long puts may be refused after the compaction.
	freeLimit = time.Minute

	// refusedPause is the time between two tries of a client whose put was refused.
	refusedPause = 20 * time.Millisecond

	// acceptedAgain is the number of puts in a row that show that space came back: more than a reserve holds.
	acceptedAgain = 5000
)

// fillDisk puts until the server has refused every put for a while, then asks for what it must still answer: reads, a
// delete of all keys, a compaction. It records how long after the compaction puts are accepted again.
func fillDisk(ctx context.Context, s *session, o options) error {
	client := s.conns[0]
	value := strings.Repeat("v", o.valueSize)
	put := func(client *clientv3.Client, number int) error {
		limited, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		_, err := client.Put(limited, key(number), value)
		return err
	}
	if err := s.putUntilRefused(ctx, o, put); err != nil {
		return err
	}
	if err := answeredOnFull(ctx, client); err != nil {
		return err
	}
	s.record.start()
	defer s.record.stop()
	var first time.Duration
	begin := time.Now()
	for row := 0; row < acceptedAgain; {
		err := put(client, row)
		took := time.Since(begin)
		switch {
		case err == nil && row == 0:
			first = took
			row++
		case err == nil:
			row++
		case took < freeLimit:
			row = 0
			sleep(ctx, refusedPause)
		default:
			s.record.add(took, err)
			return nil
		}
	}
	s.record.add(first, nil)
	return nil
}

// putUntilRefused puts o.total keys at most, o.clients at a time, until none was accepted for a while.
func (s *session) putUntilRefused(ctx context.Context, o options, put func(*clientv3.Client, int) error) error {
	var next, accepted atomic.Int64
	begin := time.Now()
	isFull := func() bool { return time.Since(begin)-time.Duration(accepted.Load()) > onFull }
	var done sync.WaitGroup
	for worker := range o.clients {
		client := s.conns[worker%len(s.conns)]
		done.Go(func() {
			for number := int(next.Add(1)) - 1; number < o.total && !isFull(); number = int(next.Add(1)) - 1 {
				if put(client, number) == nil {
					accepted.Store(int64(time.Since(begin)))
				} else {
					sleep(ctx, refusedPause)
				}
			}
		})
	}
	done.Wait()
	if !isFull() {
		return fmt.Errorf("%d puts did not fill the disk", o.total)
	}
	return nil
}

// answeredOnFull reads, deletes and compacts.
func answeredOnFull(ctx context.Context, client *clientv3.Client) error {
	from, opts := everything()
	requests := []struct {
		name string
		send func(ctx context.Context) error
	}{
		{"a get", func(ctx context.Context) error {
			response, err := client.Get(ctx, key(0))
			if err == nil && len(response.Kvs) != 1 {
				err = errors.New("the first key is missing")
			}
			return err
		}},
		{"a delete", func(ctx context.Context) error {
			_, err := client.Delete(ctx, from, opts...)
			return err
		}},
		{"a compaction", func(ctx context.Context) error { return compactToNewest(ctx, client) }},
	}
	for _, request := range requests {
		limited, cancel := context.WithTimeout(ctx, answerLimit)
		err := request.send(limited)
		cancel()
		if err != nil {
			return fmt.Errorf("%s on a full disk: %w", request.name, err)
		}
	}
	return nil
}
