package client_test

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestKeyValues(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	for i := range 20 {
		putting(t)(client.Put(ctx, fmt.Sprintf("k/%02d", i), fmt.Sprint(i)))
	}
	page := getting(t)(client.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithLimit(7)))
	if page.Count != 20 || len(page.Kvs) != 7 || !page.More {
		t.Fatalf("page: count %d, %d key-values, more %t", page.Count, len(page.Kvs), page.More)
	}
	last := getting(t)(client.Get(ctx, "k/", clientv3.WithLastKey()...))
	if string(last.Kvs[0].Key) != "k/19" {
		t.Fatalf("last key is %q", last.Kvs[0].Key)
	}
	deleted := deleting(t)(client.Delete(ctx, "k/", clientv3.WithPrefix(), clientv3.WithPrevKV()))
	if deleted.Deleted != 20 || len(deleted.PrevKvs) != 20 {
		t.Fatalf("deleted %d, %d previous", deleted.Deleted, len(deleted.PrevKvs))
	}
	before := getting(t)(client.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithRev(page.Header.Revision)))
	if before.Count != 20 {
		t.Fatalf("at the revision before the delete there are %d keys", before.Count)
	}
}

func TestTransactionsTakeOneBranch(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	create := func(value string) *clientv3.TxnResponse {
		return must[*clientv3.TxnResponse](t)(client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision("key"), "=", 0)).
			Then(clientv3.OpPut("key", value)).
			Else(clientv3.OpGet("key")).
			Commit())
	}
	if !create("first").Succeeded {
		t.Fatal("the key was there already")
	}
	second := create("second")
	if second.Succeeded || string(second.Responses[0].GetResponseRange().Kvs[0].Value) != "first" {
		t.Fatalf("second create: %v", second)
	}
}

func TestCompactedRevisionsAreRefused(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	first := putting(t)(client.Put(ctx, "key", "1"))
	second := putting(t)(client.Put(ctx, "key", "2"))
	compact := func() error {
		_, err := client.Compact(ctx, second.Header.Revision, clientv3.WithCompactPhysical())
		return err
	}
	if err := compact(); err != nil {
		t.Fatal(err)
	}
	if err := compact(); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatalf("second compaction: %v", err)
	}
	if _, err := client.Get(ctx, "key", clientv3.WithRev(first.Header.Revision)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatalf("read below the compaction: %v", err)
	}
	if at := getting(t)(client.Get(ctx, "key", clientv3.WithRev(second.Header.Revision))); at.Count != 1 {
		t.Fatal("the compacted revision itself can be read")
	}
}
