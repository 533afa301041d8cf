package main

import (
	"context"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Single requests that touch so much that others may have to wait for them.

// deleteEverything deletes all keys with one request.
func deleteEverything(ctx context.Context, client *clientv3.Client) error {
	from, opts := everything()
	_, err := client.Delete(ctx, from, opts...)
	return err
}

// operations is the number of operations at each of the three levels of the nested transaction. The levels of a
// transaction together may have 128 (--max-txn-ops).
const operations = 42

// nestedRanges sends a transaction of transactions of transactions of ranges over all keys. The server may refuse it.
func nestedRanges(ctx context.Context, client *clientv3.Client) error {
	from, opts := everything()
	same := func(op clientv3.Op) []clientv3.Op {
		ops := make([]clientv3.Op, operations)
		for i := range ops {
			ops[i] = op
		}
		return ops
	}
	ranges := clientv3.OpTxn(nil, same(clientv3.OpGet(from, opts...)), nil)
	inner := clientv3.OpTxn(nil, same(ranges), nil)
	// A refusal is an answer; none within the limit is not.
	_, _ = client.Do(ctx, clientv3.OpTxn(nil, same(inner), nil))
	return ctx.Err()
}

// comparingTransactions is the number of transactions that compare at the same time.
const comparingTransactions = 1_000

// compareRanges sends many transactions at once, each of which compares the versions of all keys. All compares hold.
func compareRanges(ctx context.Context, client *clientv3.Client) error {
	from, _ := everything()
	exist := clientv3.Compare(clientv3.Version(from), ">", 0).WithRange("\x00")
	put := clientv3.OpPut("compared", "")
	var all sync.WaitGroup
	for range comparingTransactions {
		all.Go(func() {
			// A refusal is an answer; none within the limit is not.
			_, _ = client.Txn(ctx).If(exist).Then(put).Commit()
		})
	}
	all.Wait()
	return ctx.Err()
}

// putKeys puts every key that the puts will overwrite once.
func putKeys(ctx context.Context, s *session, o options) error {
	value := strings.Repeat("v", o.valueSize)
	return s.inParallel(o.keySpace, func(client *clientv3.Client, number int) error {
		_, err := client.Put(ctx, key(number), value)
		return err
	})
}
