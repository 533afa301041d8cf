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

func (s *session) putInTurn(ctx context.Context, o options, begin time.Time) error {
	value := make([]byte, max(o.valueSize, 8))
	for number := range o.total {
		binary.BigEndian.PutUint64(value, uint64(time.Since(begin)))
		if _, err := s.conns[0].Put(ctx, watchKey(number%o.keys), string(value)); err != nil {
			return err
		}
	}
	return nil
}

func watchKey(number int) string { return fmt.Sprintf("watched/%06d", number) }
