package cluster

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Patience is how long PutUntilAnswered tries: longer than any election, also on a loaded machine.
const Patience = 60 * time.Second

// PutUntilAnswered repeats a put until it is acknowledged. The first one after a member has ended may be lost: it was
// written to the old connection, which the client does not repeat, or a follower had sent it on to the leader that ended.
func PutUntilAnswered(ctx context.Context, client *clientv3.Client, key, value string) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := client.Put(attempt, key, value)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// ClientOf is a client of some members, until the test ends.
func ClientOf(t testing.TB, dialTimeout time.Duration, members ...*Member) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.ClientURL)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: dialTimeout, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// ConnectAll makes a client of each configuration, or none.
func ConnectAll(configs []clientv3.Config) ([]*clientv3.Client, error) {
	var clients []*clientv3.Client
	for _, config := range configs {
		client, err := clientv3.New(config)
		if err != nil {
			CloseAll(clients)
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// CloseAll closes clients and ignores their errors.
func CloseAll(clients []*clientv3.Client) {
	for _, client := range clients {
		client.Close()
	}
}
