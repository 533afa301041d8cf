package membership

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// statusWhen asks a member for its status until it is as wanted.
func (f *fleet) statusWhen(m *cluster.Member, what string, isSo func(*clientv3.StatusResponse) bool) *clientv3.StatusResponse {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		status, err := f.client.Status(ctx, m.ClientURL)
		if err != nil {
			f.t.Fatalf("%s: %s: %v", m.Name, what, err)
		}
		if isSo(status) {
			return status
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("%s: %s: not so in time: %v", m.Name, what, status)
		case <-time.After(20 * time.Millisecond):
		}
	}
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
	leader, learner := f.leader(), f.addLearner()
	leaderID, term := f.idOf(leader), uint64(0)
	const puts = 20
	before := f.statusWhen(leader, "it leads", func(s *clientv3.StatusResponse) bool { return s.Leader == leaderID })
	for range puts {
		if _, err := f.client.Put(t.Context(), "key", "a value of the tests"); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range f.running() {
		status := f.statusWhen(m, "it has applied the puts", func(s *clientv3.StatusResponse) bool {
			return s.RaftAppliedIndex >= before.RaftAppliedIndex+puts && s.Leader == leaderID
		})
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
		term = max(term, status.RaftTerm)
	}
	next := f.cluster.Members[0]
	if next == leader {
		next = f.cluster.Members[1]
	}
	nextID := f.idOf(next)
	if _, err := f.connect(leader).MoveLeader(t.Context(), nextID); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.running() {
		f.statusWhen(m, "another one leads in a later term", func(s *clientv3.StatusResponse) bool {
			return s.Leader == nextID && s.RaftTerm > term
		})
	}
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
