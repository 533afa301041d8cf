package membership

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// agreed are the statuses of all members that run, once they name the same leader in the same term and have applied an entry.
func (f *fleet) agreed(applied uint64) map[*cluster.Member]*clientv3.StatusResponse {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		all, isSo := map[*cluster.Member]*clientv3.StatusResponse{}, true
		for _, m := range f.running() {
			status, err := f.client.Status(ctx, m.ClientURL)
			if err != nil {
				f.t.Fatalf("%s: %v", m.Name, err)
			}
			for _, other := range all {
				isSo = isSo && status.Leader == other.Leader && status.RaftTerm == other.RaftTerm
			}
			isSo = isSo && status.Leader != 0 && status.RaftAppliedIndex >= applied
			all[m] = status
		}
		if isSo {
			return all
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("the members do not agree: %v", all)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// movedFrom has the leader hand over until all members name the one that it named, in a term after this one. On a busy
// machine another election may come between: then it is tried again.
func (f *fleet) movedFrom(term uint64) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		leader := f.leader()
		next := f.cluster.Members[0]
		if next == leader {
			next = f.cluster.Members[1]
		}
		nextID := f.idOf(next)
		_, err := f.connect(leader).MoveLeader(f.t.Context(), nextID)
		if err != nil && !errors.Is(err, rpctypes.ErrNotLeader) && !isRetriable(err) {
			f.t.Fatal(err)
		}
		all := f.agreed(0)
		if err == nil && all[next].Leader == nextID && all[next].RaftTerm > term {
			return
		}
	}
	f.t.Fatal("no member that was named leads in a later term")
}

// versionOf is what a member says at /version.
func (f *fleet) versionOf(m *cluster.Member) (version string) {
	f.t.Helper()
	response, err := http.Get(m.ClientURL + "/version")
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	said := map[string]string{}
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil || said["etcdserver"] == "" {
		f.t.Fatalf("/version says %v, %v", said, err)
	}
	return said["etcdserver"]
}

// Each field of Status is true at each of three voters and a learner.
func TestEachFieldOfTheStatusIsTrue(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	learner := f.addLearner()
	const puts = 20
	before := f.agreed(0)[learner]
	for range puts {
		if _, err := f.client.Put(t.Context(), "key", "a value of the tests"); err != nil {
			t.Fatal(err)
		}
	}
	var term uint64
	for m, status := range f.agreed(before.RaftAppliedIndex + puts) {
		if status.RaftAppliedIndex > status.RaftIndex {
			t.Errorf("%s has applied entry %d, and %d are committed", m.Name, status.RaftAppliedIndex, status.RaftIndex)
		}
		if status.RaftTerm < 1 || status.Header.RaftTerm != status.RaftTerm || status.Header.MemberId != f.idOf(m) {
			t.Errorf("%s: term %d, header %v", m.Name, status.RaftTerm, status.Header)
		}
		if status.DbSizeInUse <= 0 || status.DbSizeInUse > status.DbSize {
			t.Errorf("%s: %d bytes of %d are in use", m.Name, status.DbSizeInUse, status.DbSize)
		}
		if status.IsLearner != (m == learner) {
			t.Errorf("%s: learner %v", m.Name, status.IsLearner)
		}
		if version := f.versionOf(m); status.Version != version || status.StorageVersion != "3.7.0" {
			t.Errorf("%s: version %q and %q instead of %q", m.Name, status.Version, status.StorageVersion, version)
		}
		if len(status.Errors) > 0 || status.DowngradeInfo.GetEnabled() || status.DbSizeQuota <= 0 {
			t.Errorf("%s: %v", m.Name, status)
		}
		term = status.RaftTerm
	}
	f.movedFrom(term)
}

// addLearner adds a learner, and waits until it serves.
func (f *fleet) addLearner() *cluster.Member {
	f.t.Helper()
	m := f.stray()
	f.retry("add "+m.Name, func(ctx context.Context) error {
		_, err := f.client.MemberAddAsLearner(ctx, []string{m.PeerURL})
		return err
	})
	m.JoinExisting(f.peerURLs(m))
	if err := m.Restart(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return m
}
