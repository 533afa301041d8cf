package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch spreads watchers over keys and connections (the client gives all watchers of a connection one
// stream), puts to these keys in turn, and records for every event how long after the beginning of its put it
// arrived. The puts carry that time; it is the clock of this process at both ends.
func watch(ctx context.Context, s *session, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	perKey := make([]int, o.keys)
	var created, delivered sync.WaitGroup
	channels := make([]clientv3.WatchChan, o.watchers)
	for i := range o.watchers {
		perKey[i%o.keys]++
		client := s.conns[(i/o.keys)%len(s.conns)]
		created.Go(func() {
			channel := client.Watch(ctx, watchKey(i%o.keys), clientv3.WithCreatedNotify())
			<-channel
			channels[i] = channel
		})
	}
	created.Wait()
	events := 0
	for number := range o.total {
		events += perKey[number%o.keys]
	}
	expected := make([]int, o.keys)
	for number := range o.total {
		expected[number%o.keys]++
	}
	s.record.start()
	for i, channel := range channels {
		delivered.Go(func() { s.receive(channel, expected[i%o.keys], begin) })
	}
	if err := s.putInTurn(ctx, o, begin); err != nil {
		return err
	}
	delivered.Wait()
	s.record.stop()
	if got := len(s.record.latencies); got != events {
		return fmt.Errorf("%d events of %d arrived: %s", got, events, s.record.firstErr)
	}
	return nil
}

// receive reads events until so many have come.
func (s *session) receive(channel clientv3.WatchChan, count int, begin time.Time) {
	for count > 0 {
		response, ok := <-channel
		if !ok || response.Err() != nil {
			s.record.add(0, fmt.Errorf("the watch ended: %w", response.Err()))
			return
		}
		now := time.Since(begin)
		for _, event := range response.Events {
			sent := time.Duration(binary.BigEndian.Uint64(event.Kv.Value))
			s.record.add(now-sent, nil)
			count--
		}
	}
}

// putInTurn puts to the keys in turn. Without a rate each put waits for the one before it; with a rate each is made when
// it is due, whatever became of those before, and its events count from then.
func (s *session) putInTurn(ctx context.Context, o options, begin time.Time) error {
	var puts sync.WaitGroup
	failed := make(chan error, o.total)
	put := func(number int, due time.Time) {
		value := make([]byte, max(o.valueSize, 8))
		binary.BigEndian.PutUint64(value, uint64(due.Sub(begin)))
		if _, err := s.conns[0].Put(ctx, watchKey(number%o.keys), string(value)); err != nil {
			failed <- err
		}
	}
	for number := 0; number < o.total && len(failed) == 0; number++ {
		due := s.due(o, number)
		if o.rate == 0 {
			put(number, due)
		} else {
			puts.Go(func() { put(number, due) })
		}
	}
	puts.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func watchKey(number int) string { return fmt.Sprintf("watched/%06d", number) }
