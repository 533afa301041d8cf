package crash

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// totals counts the writes of a run by outcome.
type totals struct{ acknowledged, unknown int }

// verify compares the content of every member with what the writers know, and the members with each other: the newest
// values, those at the compacted revision, and the hash over all revisions between.
func verify(ctx context.Context, c *cluster.Cluster, l *load) (totals, error) {
	clients, err := cluster.ConnectAll(oneEach(c.Endpoints()))
	if err != nil {
		return totals{}, err
	}
	defer cluster.CloseAll(clients)
	revision, err := newest(ctx, clients)
	if err != nil {
		return totals{}, err
	}
	compacted, err := equalHashes(ctx, clients, c.Endpoints(), revision)
	if err != nil {
		return totals{}, err
	}
	var sum totals
	for writer, keys := range l.keys {
		if err := verifyOwned(ctx, clients, c.Members, ownedBy(writer), keys, max(compacted, 1)); err != nil {
			return sum, err
		}
		for _, h := range keys {
			sum.acknowledged += h.writes
			sum.unknown += h.unknown
		}
	}
	return sum, nil
}

// oneEach returns one client configuration per endpoint, which uses that endpoint only.
func oneEach(endpoints []string) []clientv3.Config {
	var configs []clientv3.Config
	for _, endpoint := range endpoints {
		configs = append(configs, config(endpoint))
	}
	return configs
}

// newest reads linearizably from every member, after which each has applied everything up to the revision.
func newest(ctx context.Context, clients []*clientv3.Client) (int64, error) {
	var revision int64
	for i, client := range clients {
		response, err := client.Get(ctx, ownedBy(0))
		if err != nil {
			return 0, fmt.Errorf("read from %s: %w", client.Endpoints(), err)
		}
		if i == 0 {
			revision = response.Header.Revision
		}
		if response.Header.Revision < revision {
			return 0, fmt.Errorf("%s reads linearizably at revision %d, after %d", client.Endpoints(), response.Header.Revision, revision)
		}
	}
	return revision, nil
}

// equalHashes compares the members' hashes at one revision and returns the revision they have compacted to.
func equalHashes(ctx context.Context, clients []*clientv3.Client, endpoints []string, revision int64) (int64, error) {
	var first *clientv3.HashKVResponse
	for i, client := range clients {
		hash, err := client.HashKV(ctx, endpoints[i], revision)
		if err != nil {
			return 0, fmt.Errorf("hash of %s at %d: %w", endpoints[i], revision, err)
		}
		if first == nil {
			first = hash
		}
		if hash.Hash != first.Hash || hash.CompactRevision != first.CompactRevision {
			return 0, fmt.Errorf("members differ at revision %d: %v at %s, %v at %s", revision, first, endpoints[0], hash, endpoints[i])
		}
	}
	return first.CompactRevision, nil
}

// verifyOwned reads a writer's keys from each member, as they are and as they were at the compacted revision.
func verifyOwned(ctx context.Context, clients []*clientv3.Client, members []*cluster.Member, prefix string, keys []*history, compacted int64) error {
	var first []*mvccpb.KeyValue
	for i, client := range clients {
		for _, h := range keys {
			response, err := client.Get(ctx, h.key, clientv3.WithSerializable())
			if err == nil {
				err = h.check(response)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", members[i].Name, err)
			}
		}
		past, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(compacted), clientv3.WithSerializable())
		if err != nil {
			return fmt.Errorf("%s at revision %d: %w", members[i].Name, compacted, err)
		}
		if i == 0 {
			first = past.Kvs
		}
		if err := samePast(first, past.Kvs); err != nil {
			return fmt.Errorf("%s at revision %d: %w", members[i].Name, compacted, err)
		}
	}
	return nil
}

// samePast compares the history of two members; each value must be one that was written.
func samePast(first, other []*mvccpb.KeyValue) error {
	same := func(a, b *mvccpb.KeyValue) bool {
		return string(a.Key) == string(b.Key) && string(a.Value) == string(b.Value) &&
			a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version
	}
	if !slices.EqualFunc(first, other, same) {
		return fmt.Errorf("%d keys are not the same as another member's %d", len(other), len(first))
	}
	for _, kv := range other {
		if _, err := number(string(kv.Key), string(kv.Value)); err != nil {
			return err
		}
	}
	return nil
}

// number returns the number of the write that put this value, if the value is intact.
func number(key, found string) (int, error) {
	text, _, _ := strings.Cut(found, " ")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: a value of %d bytes that begins with %.20q was never written: %w", key, len(found), found, err)
	}
	if wanted := value(key, n); found != wanted {
		return 0, fmt.Errorf("%s: %d was written with %d bytes, and these %d differ", key, n, len(wanted), len(found))
	}
	return n, nil
}

// check compares what was read with what the writer knows: it must be the last acknowledged number or a later one that
// was sent, at the acknowledged revision or a later one.
func (h *history) check(response *clientv3.GetResponse) error {
	if len(response.Kvs) == 0 {
		if h.acknowledged > 0 {
			return fmt.Errorf("%s: acknowledged %d is lost, the key is gone", h.key, h.acknowledged)
		}
		return nil
	}
	kv := response.Kvs[0]
	n, err := number(h.key, string(kv.Value))
	if err != nil {
		return err
	}
	switch {
	case n > h.attempted:
		return fmt.Errorf("%s: %d was never written, the last was %d", h.key, n, h.attempted)
	case kv.ModRevision < h.revision:
		return fmt.Errorf("%s: %d at revision %d, but %d was acknowledged at %d", h.key, n, kv.ModRevision, h.acknowledged, h.revision)
	case kv.ModRevision == h.revision && n != h.acknowledged:
		return fmt.Errorf("%s: %d at revision %d, where %d was acknowledged", h.key, n, kv.ModRevision, h.acknowledged)
	case kv.ModRevision > h.revision && n == h.acknowledged:
		return fmt.Errorf("%s: %d took effect again at revision %d after %d", h.key, n, kv.ModRevision, h.revision)
	case kv.Version < int64(h.writes) || kv.Version > int64(h.attempted):
		return fmt.Errorf("%s: version %d, with %d of %d writes acknowledged", h.key, kv.Version, h.writes, h.attempted)
	}
	return nil
}
