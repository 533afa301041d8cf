// Package checks uses a server through whatever version of etcd's Go client it is built with.
package checks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// patience bounds every check.
const patience = 60 * time.Second

// Main runs all checks against the endpoints of the command line, and ends the process with 1 if one fails.
func Main() {
	endpoints := flag.String("endpoints", "127.0.0.1:2379", "addresses of one cluster, with commas between")
	watches := flag.Int("watches", 20_000, "watches to create at once")
	flag.Parse()
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(*endpoints, ","), DialTimeout: patience})
	if err != nil {
		fail("connect", err)
	}
	defer client.Close()
	checks := []struct {
		name string
		run  func(context.Context, *clientv3.Client) error
	}{
		{"put, get, delete", keyValues}, {"transaction", transaction}, {"watch", watch}, {"lease", lease},
		{"lock and election", locks}, {"members and status", members},
		{"watches at once", func(ctx context.Context, c *clientv3.Client) error { return watchesAtOnce(ctx, c, *watches) }},
	}
	for _, check := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := check.run(ctx, client); err != nil {
			fail(check.name, err)
		}
		cancel()
		fmt.Println("ok:", check.name)
	}
}

func fail(name string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(1)
}

func keyValues(ctx context.Context, c *clientv3.Client) error {
	if _, err := c.Put(ctx, "older/key", strings.Repeat("v", 100_000)); err != nil {
		return err
	}
	got, err := c.Get(ctx, "older/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	if len(got.Kvs) != 1 || len(got.Kvs[0].Value) != 100_000 {
		return fmt.Errorf("got %d keys", len(got.Kvs))
	}
	deleted, err := c.Delete(ctx, "older/key")
	if err == nil && deleted.Deleted != 1 {
		return fmt.Errorf("deleted %d keys", deleted.Deleted)
	}
	return err
}

func transaction(ctx context.Context, c *clientv3.Client) error {
	isNew := clientv3.Compare(clientv3.Version("txn"), "=", 0)
	if _, err := c.Delete(ctx, "txn"); err != nil {
		return err
	}
	txn := c.Txn(ctx).If(isNew).Then(clientv3.OpPut("txn", "1")).Else(clientv3.OpGet("txn"))
	answer, err := txn.Commit()
	if err != nil {
		return err
	}
	if !answer.Succeeded || len(answer.Responses) != 1 {
		return fmt.Errorf("succeeded %t, %d responses", answer.Succeeded, len(answer.Responses))
	}
	return nil
}

func watch(ctx context.Context, c *clientv3.Client) error {
	events := c.Watch(clientv3.WithRequireLeader(ctx), "watched", clientv3.WithCreatedNotify())
	if created := <-events; !created.Created {
		return fmt.Errorf("not created: %v", created.Err())
	}
	if _, err := c.Put(ctx, "watched", "value"); err != nil {
		return err
	}
	if got := <-events; len(got.Events) != 1 || string(got.Events[0].Kv.Value) != "value" {
		return fmt.Errorf("got %v", got)
	}
	return nil
}

func lease(ctx context.Context, c *clientv3.Client) error {
	granted, err := c.Grant(ctx, 60)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive, err := c.KeepAlive(ctx, granted.ID)
	if err != nil {
		return err
	}
	if renewed := <-alive; renewed == nil || renewed.TTL != 60 {
		return fmt.Errorf("renewed %v", renewed)
	}
	_, err = c.Revoke(ctx, granted.ID)
	return err
}

func locks(ctx context.Context, c *clientv3.Client) error {
	session, err := concurrency.NewSession(c, concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	defer session.Close()
	lock := concurrency.NewMutex(session, "lock")
	if err := errors.Join(lock.Lock(ctx), lock.Unlock(ctx)); err != nil {
		return err
	}
	election := concurrency.NewElection(session, "election")
	return errors.Join(election.Campaign(ctx, "me"), election.Resign(ctx))
}

func members(ctx context.Context, c *clientv3.Client) error {
	list, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	if len(list.Members) == 0 {
		return errors.New("no members")
	}
	_, err = c.Status(ctx, c.Endpoints()[0])
	return err
}

// watchesAtOnce creates watches on one stream without waiting for the answers, which have to come for all.
func watchesAtOnce(ctx context.Context, c *clientv3.Client, count int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	created := make(chan error, count)
	for i := range count {
		go func() {
			events := c.Watch(ctx, fmt.Sprint("many/", i), clientv3.WithCreatedNotify())
			answer, open := <-events
			switch {
			case !open:
				created <- errors.New("the channel of a watch is closed")
			case !answer.Created:
				created <- fmt.Errorf("not created: %v", answer.Err())
			default:
				created <- nil
			}
		}()
	}
	for i := range count {
		select {
		case err := <-created:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d watches were created", i, count)
		}
	}
	return nil
}
