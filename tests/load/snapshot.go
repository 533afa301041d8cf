package main

import (
	"context"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// takeSnapshots takes o.total snapshots and keeps none; the latency of a request is the time until its last byte.
func takeSnapshots(ctx context.Context, s *session, o options) error {
	s.drive(o, func(client *clientv3.Client, _ int) error { return takeSnapshot(ctx, client) })
	return nil
}

// snapshotAgain takes one snapshot after the other.
func snapshotAgain(ctx context.Context, client *clientv3.Client) error {
	for ctx.Err() == nil {
		if err := takeSnapshot(ctx, client); err != nil && ctx.Err() == nil {
			return fmt.Errorf("snapshot meanwhile: %w", err)
		}
	}
	return nil
}

func takeSnapshot(ctx context.Context, client *clientv3.Client) error {
	taken, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	defer taken.Snapshot.Close()
	_, err = io.Copy(io.Discard, taken.Snapshot)
	return err
}
