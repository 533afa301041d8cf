package main

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// readAll requests all keys, or the first ones up to a limit, repeatedly.
func readAll(ctx context.Context, s *session, o options) error {
	opts := []clientv3.OpOption{clientv3.WithLimit(o.limit)}
	if o.keysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	from, opts := everything(opts...)
	s.drive(o, func(client *clientv3.Client, _ int) error {
		if o.stream {
			return readStream(ctx, client, from, opts)
		}
		_, err := client.Get(ctx, from, opts...)
		return err
	})
	return nil
}

// readStream reads a streamed response and keeps none of its parts.
func readStream(ctx context.Context, client *clientv3.Client, from string, opts []clientv3.OpOption) error {
	parts, err := client.GetStream(ctx, from, opts...)
	if err != nil {
		return err
	}
	count := 0
	for part := range parts {
		if err := part.Err(); err != nil {
			return err
		}
		if part.RangeResponse != nil {
			count += len(part.RangeResponse.Kvs)
		}
	}
	if count == 0 {
		return errors.New("the stream held no keys")
	}
	return nil
}
