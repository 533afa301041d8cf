package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// granting is the number of grants that a connection has in flight.
const granting = 1000

// holdLeases grants o.total leases, then keeps all of them alive for o.hold, those of a connection on one stream as
// etcd's client does, and records for each whether it still exists and the client believes so. A lost lease is an error.
func holdLeases(ctx context.Context, s *session, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ids := make([]clientv3.LeaseID, o.total)
	begin := time.Now()
	err := s.inParallel(o.total, func(client *clientv3.Client, number int) error {
		grant, err := client.Grant(ctx, int64(o.ttl/time.Second))
		if err == nil {
			ids[number] = grant.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	if took := time.Since(begin); took > o.ttl/2 {
		return fmt.Errorf("granting took %v, too long for leases of %v", took, o.ttl)
	}
	givenUp := make([]atomic.Bool, o.total)
	for number, id := range ids {
		answers, err := s.conns[number%len(s.conns)].KeepAlive(ctx, id)
		if err != nil {
			return err
		}
		go func() {
			for range answers {
			}
			givenUp[number].Store(true)
		}()
	}
	s.record.start()
	sleep(ctx, o.hold)
	s.record.stop()
	left, err := s.conns[0].Leases(ctx)
	if err != nil {
		return err
	}
	exists := make(map[clientv3.LeaseID]bool, len(left.Leases))
	for _, lease := range left.Leases {
		exists[lease.ID] = true
	}
	for number, id := range ids {
		var lost error
		switch {
		case !exists[id]:
			lost = errors.New("a lease expired at the server")
		case givenUp[number].Load():
			lost = errors.New("the client had no answer in time and gave a lease up")
		}
		s.record.add(0, lost)
	}
	return nil
}

// inParallel makes total requests, spread over the connections, and returns the first error.
func (s *session) inParallel(total int, request func(client *clientv3.Client, number int) error) error {
	var next atomic.Int64
	var done sync.WaitGroup
	errs := make(chan error, granting*len(s.conns))
	for worker := range granting * len(s.conns) {
		client := s.conns[worker%len(s.conns)]
		done.Go(func() {
			for number := int(next.Add(1)) - 1; number < total; number = int(next.Add(1)) - 1 {
				if err := request(client, number); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	done.Wait()
	close(errs)
	return <-errs
}

// leased begins the keys of leases that expire together.
const leased = "leased/"

// grantTogether grants o.keySpace leases with a key each. A lease granted later lives for fewer seconds, so that all
// expire within one second, o.ttl after the beginning.
func grantTogether(ctx context.Context, s *session, o options) error {
	expiry := time.Now().Add(o.ttl)
	return s.inParallel(o.keySpace, func(client *clientv3.Client, number int) error {
		left := time.Until(expiry)
		if left < shortestTTL {
			return fmt.Errorf("only %d of %d leases are granted near their expiry: ask for a longer --ttl", number, o.keySpace)
		}
		grant, err := client.Grant(ctx, int64(left/time.Second))
		if err != nil {
			return err
		}
		_, err = client.Put(ctx, fmt.Sprintf("%s%08d", leased, number), "v", clientv3.WithLease(grant.ID))
		return err
	})
}

// shortestTTL is more than the least time to live that servers grant, which depends on their election timeout.
const shortestTTL = 5 * time.Second

// awaitExpiry waits until the keys of all leases are gone.
func awaitExpiry(ctx context.Context, client *clientv3.Client) error {
	for ctx.Err() == nil {
		keys, err := client.Get(ctx, leased, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		if keys.Count == 0 {
			return nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}
