package client_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func session(t *testing.T, client *clientv3.Client) *concurrency.Session {
	t.Helper()
	s := must[*concurrency.Session](t)(concurrency.NewSession(client, concurrency.WithTTL(10)))
	t.Cleanup(func() { s.Close() })
	return s
}

// TestMutexExcludes counts with a read and a write that only the lock keeps together.
func TestMutexExcludes(t *testing.T) {
	c := start(t, 3)
	const holders, rounds = 5, 8
	ctx := patiently(t)
	first := connect(t, c.Endpoints()...)
	putting(t)(first.Put(ctx, "counter", "0"))
	var wait sync.WaitGroup
	errs := make(chan error, holders)
	for i := range holders {
		client := connect(t, c.Endpoints()[i%3])
		mutex := concurrency.NewMutex(session(t, client), "lock")
		wait.Go(func() { errs <- countUnderLock(ctx, client, mutex, rounds) })
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := getting(t)(first.Get(ctx, "counter")); string(got.Kvs[0].Value) != fmt.Sprint(holders*rounds) {
		t.Fatalf("counted to %s, not %d", got.Kvs[0].Value, holders*rounds)
	}
}

func countUnderLock(ctx context.Context, client *clientv3.Client, mutex *concurrency.Mutex, rounds int) error {
	for range rounds {
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		got, err := client.Get(ctx, "counter")
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(got.Kvs[0].Value))
		if err != nil {
			return err
		}
		if _, err := client.Put(ctx, "counter", strconv.Itoa(n+1)); err != nil {
			return err
		}
		if err := mutex.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func TestALockOfADeadSessionIsFree(t *testing.T) {
	t.Parallel()
	c, client := single(t)
	ctx := patiently(t)
	dying := must[*concurrency.Session](t)(concurrency.NewSession(client, concurrency.WithTTL(shortTTL)))
	if err := concurrency.NewMutex(dying, "lock").Lock(ctx); err != nil {
		t.Fatal(err)
	}
	next := concurrency.NewMutex(session(t, connect(t, c.Endpoints()...)), "lock")
	if err := next.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		t.Fatalf("lock held by another: %v", err)
	}
	// No more keep-alives, and no unlock: only the end of the lease can free it.
	dying.Orphan()
	if err := next.Lock(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestElection(t *testing.T) {
	c := start(t, 3)
	ctx := patiently(t)
	first := concurrency.NewElection(session(t, connect(t, c.Endpoints()[0])), "election")
	second := concurrency.NewElection(session(t, connect(t, c.Endpoints()[1])), "election")
	observer := concurrency.NewElection(session(t, connect(t, c.Endpoints()[2])), "election")
	if err := first.Campaign(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	observed := observer.Observe(ctx)
	expectLeader(t, observed, "first")
	won := make(chan error, 1)
	go func() { won <- second.Campaign(ctx, "second") }()
	if err := first.Proclaim(ctx, "first again"); err != nil {
		t.Fatal(err)
	}
	expectLeader(t, observed, "first again")
	if err := first.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-won; err != nil {
		t.Fatal(err)
	}
	expectLeader(t, observed, "second")
}

func expectLeader(t *testing.T, observed <-chan *clientv3.GetResponse, want string) {
	t.Helper()
	ctx := patiently(t)
	select {
	case leader, ok := <-observed:
		if !ok || string(leader.Kvs[0].Value) != want {
			t.Fatalf("observed %v, not %q", leader.Kvs, want)
		}
	case <-ctx.Done():
		t.Fatalf("%q was not observed", want)
	}
}

// TestTransfersKeepTheSum moves money between accounts from many sides at once; STM repeats what conflicts.
func TestTransfersKeepTheSum(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	const accounts, clients, transfers, initial = 5, 4, 25, 100
	account := func(i int) string { return fmt.Sprintf("account/%d", i%accounts) }
	for i := range accounts {
		putting(t)(client.Put(ctx, account(i), strconv.Itoa(initial)))
	}
	var wait sync.WaitGroup
	errs := make(chan error, clients*transfers)
	for number := range clients {
		wait.Go(func() {
			for i := range transfers {
				errs <- transfer(ctx, client, account(number+i), account(number+2*i+1))
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for _, kv := range getting(t)(client.Get(ctx, "account/", clientv3.WithPrefix())).Kvs {
		sum += must[int](t)(strconv.Atoi(string(kv.Value)))
	}
	if sum != accounts*initial {
		t.Fatalf("the sum is %d, not %d", sum, accounts*initial)
	}
}

func transfer(ctx context.Context, client *clientv3.Client, from, to string) error {
	if from == to {
		return nil
	}
	_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
		giver, err := strconv.Atoi(stm.Get(from))
		if err != nil {
			return err
		}
		taker, err := strconv.Atoi(stm.Get(to))
		if err != nil {
			return err
		}
		stm.Put(from, strconv.Itoa(giver-1))
		stm.Put(to, strconv.Itoa(taker+1))
		return nil
	}, concurrency.WithIsolation(concurrency.Serializable), concurrency.WithAbortContext(ctx))
	return err
}
