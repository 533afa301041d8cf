// Package client_test uses a server as Go programs do: through clientv3, with its retries, balancing, watch
// resumption and recipes. What the server must do for those is promised nowhere but in that client.
package client_test

import (
	"context"
	"flag"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// patience bounds every wait for something that must happen; no test depends on how soon it does.
const patience = 60 * time.Second

func start(t *testing.T, size int, args ...string) *cluster.Cluster {
	t.Helper()
	return cluster.ForTest(t, cluster.Config{Binary: *bin, Size: size, Args: args})
}

func connect(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop(),
		// Notice soon that a frozen member is gone.
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// single is one member and a client of it.
func single(t *testing.T) (*cluster.Cluster, *clientv3.Client) {
	t.Helper()
	c := start(t, 1)
	return c, connect(t, c.Endpoints()...)
}

func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test when a call fails: putting(t)(client.Put(ctx, "k", "v")).
func must[T any](t *testing.T) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

var (
	putting  = must[*clientv3.PutResponse]
	getting  = must[*clientv3.GetResponse]
	deleting = must[*clientv3.DeleteResponse]
	granting = must[*clientv3.LeaseGrantResponse]
	revoking = must[*clientv3.LeaseRevokeResponse]
)

// put repeats a write until it is acknowledged: while there is no leader, some are not.
func put(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	if err := cluster.PutUntilAnswered(t.Context(), client, key, value); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}
