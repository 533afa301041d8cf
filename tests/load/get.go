package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// get reads random keys, one a request.
func get(ctx context.Context, s *session, o options) error {
	s.drive(o, func(client *clientv3.Client, _ int) error {
		number := rand.IntN(o.keySpace)
		response, err := client.Get(ctx, key(number))
		if err == nil && len(response.Kvs) != 1 {
			err = fmt.Errorf("key %d is missing", number)
		}
		return err
	})
	return nil
}
