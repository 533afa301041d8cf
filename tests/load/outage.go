package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// outageCallTimeout bounds one put: longer than any election.
const outageCallTimeout = 10 * time.Second

// longestOutage puts o.rate keys a second for o.hold, each as soon as its turn has come, through one client that knows all
// servers. It records one figure, the longest time in which no put was acknowledged, and counts the puts that failed.
func longestOutage(ctx context.Context, s *session, o options) error {
	if o.rate == 0 {
		return fmt.Errorf("outage needs --rate")
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	var mu sync.Mutex
	var calls sync.WaitGroup
	var outage time.Duration
	value := strings.Repeat("v", o.valueSize)
	s.record.start()
	last := time.Now()
	begin, interval := last, time.Second/time.Duration(o.rate)
	for number := range int(o.hold / interval) {
		time.Sleep(time.Until(begin.Add(time.Duration(number) * interval)))
		calls.Go(func() {
			call, cancel := context.WithTimeout(ctx, outageCallTimeout)
			defer cancel()
			_, err := client.Put(call, key(number%o.keySpace), value)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.record.add(0, err)
				return
			}
			now := time.Now()
			outage, last = max(outage, now.Sub(last)), now
		})
	}
	calls.Wait()
	s.record.stop()
	s.record.add(outage, nil)
	return nil
}
