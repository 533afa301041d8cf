package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// everything reads all keys but the state key.
func everything(t *testing.T, client *clientv3.Client) *clientv3.GetResponse {
	t.Helper()
	answer, err := client.Get(patiently(t), "", clientv3.WithPrefix())
	check(t, err)
	for i, kv := range answer.Kvs {
		if string(kv.Key) == stateKey {
			answer.Kvs = slices.Delete(answer.Kvs, i, i+1)
			break
		}
	}
	return answer
}

// keys are all keys with their values.
func keys(t *testing.T, client *clientv3.Client) string {
	t.Helper()
	var pairs []string
	for _, kv := range everything(t, client).Kvs {
		pairs = append(pairs, fmt.Sprintf("%s=%s", kv.Key, kv.Value))
	}
	return strings.Join(pairs, " ")
}

// compare compares keys, values and leases, and if they are kept, revisions.
func compare(t *testing.T, from, to *clientv3.Client, kept bool) {
	t.Helper()
	left, right := everything(t, from), everything(t, to)
	if len(left.Kvs) != len(right.Kvs) || kept && left.Header.Revision != right.Header.Revision {
		t.Fatalf("%d keys at revision %d became %d at %d",
			len(left.Kvs), left.Header.Revision, len(right.Kvs), right.Header.Revision)
	}
	for i, source := range left.Kvs {
		there := right.Kvs[i]
		same := string(source.Key) == string(there.Key) && string(source.Value) == string(there.Value) && source.Lease == there.Lease
		if !same || kept && source.ModRevision != there.ModRevision {
			t.Errorf("%v became %v", source, there)
		}
	}
	leases, err := from.Leases(patiently(t))
	check(t, err)
	for _, lease := range leases.Leases {
		source, err := from.TimeToLive(patiently(t), lease.ID)
		check(t, err)
		there, err := to.TimeToLive(patiently(t), lease.ID)
		check(t, err)
		if there.TTL < source.TTL-1 || there.TTL > source.TTL+30 || there.GrantedTTL != source.GrantedTTL {
			t.Errorf("lease %x has %d s of %d left, and %d of %d at the destination",
				lease.ID, source.TTL, source.GrantedTTL, there.TTL, there.GrantedTTL)
		}
	}
}

// compareHistory compares all changes from a revision on.
func compareHistory(t *testing.T, from, to *clientv3.Client, revision int64) {
	t.Helper()
	last := everything(t, from).Header.Revision
	history := func(client *clientv3.Client) []string {
		var events []string
		ctx := patiently(t)
		watch := client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(revision), clientv3.WithProgressNotify())
		for at := revision - 1; at < last; {
			check(t, client.RequestProgress(ctx))
			response, open := <-watch
			if !open || response.Err() != nil {
				t.Fatalf("the watch from %d ended at %d: %v", revision, at, response.Err())
			}
			for _, event := range response.Events {
				at = max(at, event.Kv.ModRevision)
				if string(event.Kv.Key) != stateKey {
					kv := event.Kv
					events = append(events, fmt.Sprintf("%d %s %s=%s", kv.ModRevision, event.Type, kv.Key, kv.Value))
				}
			}
			if response.IsProgressNotify() {
				at = max(at, response.Header.Revision)
			}
		}
		// Deletes of one transaction come in the order of its operations on both sides.
		return events
	}
	left, right := history(from), history(to)
	if !slices.Equal(left, right) {
		for i := range min(len(left), len(right)) {
			if left[i] != right[i] {
				t.Fatalf("change %d: %s became %s", i, left[i], right[i])
			}
		}
		t.Fatalf("%d changes became %d", len(left), len(right))
	}
	if len(left) == 0 {
		t.Error("there was no change to compare")
	}
}

// watchPairs watches the keys that the load puts in pairs: they must change together, and their numbers must rise.
func watchPairs(t *testing.T, client *clientv3.Client) func(t *testing.T, source *clientv3.Client) {
	watch := client.Watch(t.Context(), "pair/", clientv3.WithPrefix(), clientv3.WithRev(1))
	return func(t *testing.T, source *clientv3.Client) {
		t.Helper()
		answer, err := source.Get(patiently(t), "pair/a")
		check(t, err)
		last := -1
		for deadline := time.After(patience); fmt.Sprint(last) != string(answer.Kvs[0].Value); {
			select {
			case <-deadline:
				t.Fatalf("the watch stays at %d, the source has %s", last, answer.Kvs[0].Value)
			case response, open := <-watch:
				if !open || response.Err() != nil {
					t.Fatalf("the watch of pairs ended: %v", response.Err())
				}
				for i := 0; i < len(response.Events); i += 2 {
					last = risen(t, response.Events[i:], last)
				}
			}
		}
	}
}

// risen checks a pair of events, and returns their number.
func risen(t *testing.T, events []*clientv3.Event, last int) int {
	t.Helper()
	if len(events) < 2 || events[0].Kv.ModRevision != events[1].Kv.ModRevision {
		t.Fatalf("%v came without the other", events[0].Kv)
	}
	var left, right int
	_, err := fmt.Sscan(string(events[0].Kv.Value)+" "+string(events[1].Kv.Value), &left, &right)
	check(t, err)
	if left != right || left <= last {
		t.Fatalf("%d came after %d, and %d beside it", left, last, right)
	}
	return left
}
