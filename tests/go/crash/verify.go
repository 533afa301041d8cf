package crash

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// totals is what a run proves.
type totals struct{ acknowledged, unknown int }

// verify reads every key, linearizably, and holds it against what its writer knows: the last acknowledged
// number or a later one that was sent, written at the acknowledged revision or a later one.
func verify(ctx context.Context, client *clientv3.Client, all []*history) (totals, error) {
	var sum totals
	for _, h := range all {
		response, err := client.Get(ctx, h.key)
		if err != nil {
			return sum, err
		}
		if err := h.check(response); err != nil {
			return sum, err
		}
		sum.acknowledged += h.writes
		sum.unknown += h.unknown
	}
	return sum, nil
}

func (h *history) check(response *clientv3.GetResponse) error {
	if len(response.Kvs) == 0 {
		if h.acknowledged > 0 {
			return fmt.Errorf("%s: acknowledged %d is lost, the key is gone", h.key, h.acknowledged)
		}
		return nil
	}
	kv := response.Kvs[0]
	value, err := strconv.Atoi(string(kv.Value))
	if err != nil {
		return fmt.Errorf("%s: %q was never written: %w", h.key, kv.Value, err)
	}
	switch {
	case value > h.attempted:
		return fmt.Errorf("%s: %d was never written, the last was %d", h.key, value, h.attempted)
	case kv.ModRevision < h.revision:
		return fmt.Errorf("%s: %d at revision %d, but %d was acknowledged at %d", h.key, value, kv.ModRevision, h.acknowledged, h.revision)
	case kv.ModRevision == h.revision && value != h.acknowledged:
		return fmt.Errorf("%s: %d at revision %d, where %d was acknowledged", h.key, value, kv.ModRevision, h.acknowledged)
	case kv.ModRevision > h.revision && value == h.acknowledged:
		return fmt.Errorf("%s: %d took effect again at revision %d after %d", h.key, value, kv.ModRevision, h.revision)
	case kv.Version < int64(h.writes) || kv.Version > int64(h.attempted):
		return fmt.Errorf("%s: version %d, with %d of %d writes acknowledged", h.key, kv.Version, h.writes, h.attempted)
	}
	return nil
}

// equalMembers asks each member for its hash at one revision that all of them have reached.
func equalMembers(ctx context.Context, client *clientv3.Client, endpoints []string) error {
	newest, err := client.Get(ctx, "writer")
	if err != nil {
		return err
	}
	revision := newest.Header.Revision
	hashes := map[string]*clientv3.HashKVResponse{}
	for _, endpoint := range endpoints {
		if err := reach(ctx, endpoint, revision); err != nil {
			return err
		}
		hash, err := client.HashKV(ctx, endpoint, revision)
		if err != nil {
			return fmt.Errorf("hash of %s at %d: %w", endpoint, revision, err)
		}
		hashes[endpoint] = hash
		first := hashes[endpoints[0]]
		if hash.Hash != first.Hash || hash.CompactRevision != first.CompactRevision {
			return fmt.Errorf("members differ at revision %d: %v", revision, hashes)
		}
	}
	return nil
}

// reach makes one member read linearizably: after that it has applied everything up to the revision.
func reach(ctx context.Context, endpoint string, revision int64) error {
	client, err := clientv3.New(config(endpoint))
	if err != nil {
		return err
	}
	defer client.Close()
	response, err := client.Get(ctx, "writer")
	if err != nil {
		return fmt.Errorf("read from %s: %w", endpoint, err)
	}
	if response.Header.Revision < revision {
		return fmt.Errorf("%s reads linearizably at revision %d, after %d", endpoint, response.Header.Revision, revision)
	}
	return nil
}
