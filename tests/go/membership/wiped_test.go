package membership

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"stele.test/cluster"
)

// mustSayAndEnd starts a member that ends by itself and says why, and returns what it printed.
func (f *fleet) mustSayAndEnd(m *cluster.Member, text string) string {
	f.t.Helper()
	if err := m.Start(); err != nil {
		f.t.Fatal(err)
	}
	return f.mustEndSaying(m, text)
}

// A member that lost its directory has forgotten votes and entries: with a peer that lags it could elect a leader that
// lacks acknowledged writes.
func TestAMemberThatLostItsDirectoryDoesNotComeBack(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	if _, err := f.client.Put(t.Context(), "kept", "1"); err != nil {
		t.Fatal(err)
	}
	lost := f.cluster.Members[2]
	peers := map[string]string{}
	for _, m := range f.cluster.Members {
		peers[m.Name] = m.PeerURL
	}
	wipe := func() {
		t.Helper()
		lost.Kill()
		if err := os.RemoveAll(lost.DataDir); err != nil {
			t.Fatal(err)
		}
	}
	wipe()
	// As it was started first, with one of the others, and as one that joins.
	log := f.mustSayAndEnd(lost, "has already been bootstrapped")
	if *bin != cluster.EtcdPath() && !strings.Contains(log, "member remove, member add") {
		t.Errorf("it does not say what to do:\n%s", log)
	}
	wipe()
	f.cluster.Members[0].Kill()
	f.mustSayAndEnd(lost, "has already been bootstrapped")
	lost.Kill()
	if err := f.cluster.Members[0].Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lost.DataDir); *bin != cluster.EtcdPath() && !os.IsNotExist(err) {
		t.Errorf("it left a directory: %v", err)
	}

	// It begins when no other member answers, and is refused by the first who come.
	for _, m := range f.cluster.Members[:2] {
		m.Kill()
	}
	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	f.waitForLog(lost, "opened the member")
	for _, m := range f.cluster.Members[:2] {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	f.mustEndSaying(lost, "comes with another data directory than the one the cluster knows")
	wipe()
	for _, m := range f.cluster.Members[:2] {
		if err := m.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	lost.JoinExisting(peers)
	f.mustSayAndEnd(lost, "has been started before")
	lost.Kill()
	found, err := f.connect(f.cluster.Members[0]).Get(t.Context(), "kept")
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("an acknowledged write is lost: %v, %v", found, err)
	}

	// The way back.
	f.client = f.connect(f.cluster.Members[0], f.cluster.Members[1])
	f.remove(lost)
	f.join(true)
}

// Of the voters that a removed member knows, a quorum may be gone. It cannot tell that it was removed, for one host must
// not be able to end it, but serves nothing of what it has.
func TestARemovedMemberThatTooFewRefuseServesNothing(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	if _, err := f.client.Put(t.Context(), "stale", "1"); err != nil {
		t.Fatal(err)
	}
	stale := f.cluster.Members[2]
	if err := serializable(f, stale); err != nil {
		t.Fatal(err)
	}
	stale.Kill()
	f.remove(stale)
	f.remove(f.cluster.Members[1])
	if err := stale.Start(); err != nil {
		t.Fatal(err)
	}
	f.waitForLog(stale, "some peers refuse this member for good")
	if err := serializable(f, stale); !errors.Is(err, rpctypes.ErrStopped) {
		t.Errorf("it served what it has: %v", err)
	}
	response, err := http.Get(stale.ClientURL + "/readyz/serializable_read")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("it says that it is ready: %v", response.Status)
	}
}
