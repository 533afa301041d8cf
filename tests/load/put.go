package main

import (
	"context"
	"math/rand/v2"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// put puts keys, with a background load if requested.
func put(ctx context.Context, s *session, o options) error {
	value := strings.Repeat("v", o.valueSize)
	drive := func() {
		s.drive(o, func(client *clientv3.Client, _ int) error {
			_, err := client.Put(ctx, key(rand.IntN(o.keySpace)), value)
			return err
		})
	}
	if o.while == "" {
		drive()
		return nil
	}
	stop, err := startBackground(ctx, o)
	if err != nil {
		return err
	}
	drive()
	return stop()
}
