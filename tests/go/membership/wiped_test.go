package membership

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

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
	// The others refuse it by what they have applied.
	for _, m := range f.cluster.Members[:2] {
		f.mustKnow(m, lost)
	}
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
	f.mustStart(f.cluster.Members[0])
	for _, m := range f.cluster.Members[:2] {
		f.mustServe(m)
		f.mustKnow(m, lost)
		f.keep(m)
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

// slow are timeouts with which a member publishes itself some hundred milliseconds after it has started.
var slow = []string{"--heartbeat-interval=300", "--election-timeout=3000"}

// founders lays out members of one cluster that are started one by one.
func (f *fleet) founders(count int) []*cluster.Member {
	f.t.Helper()
	var all []*cluster.Member
	peers := map[string]string{}
	for range count {
		m, err := f.cluster.Layout(*bin, slow...)
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, m)
		peers[m.Name] = m.PeerURL
	}
	for _, m := range all {
		m.JoinExisting(peers)
		m.RemoveFlag("--initial-cluster-state=existing")
	}
	return all
}

// knows waits until the peer URL of a member answers, and returns whether it knows another one as started.
func (f *fleet) knows(m, other *cluster.Member) bool {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		body, err := listedBy(m)
		if err == nil {
			return strings.Contains(body, `"name":"`+other.Name+`"`)
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s does not list its members: %v", m.Name, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// mustKnow waits until a member knows another one as started. A member serves before its name is applied everywhere.
func (f *fleet) mustKnow(m, other *cluster.Member) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); !f.knows(m, other); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s never lists %s as started", m.Name, other.Name)
		}
	}
}

// keep makes a member apply at its next start, before it hears of others, what it has applied now. A new commit index
// is written with the next entry, so that takes two, each of which must be on the member's disk when it is acknowledged:
// so many others must be down that no quorum is without it.
func (f *fleet) keep(m *cluster.Member) {
	f.t.Helper()
	client := f.connect(m)
	for range 2 {
		if err := cluster.PutUntilAnswered(f.t.Context(), client, "kept", "1"); err != nil {
			f.t.Fatalf("%s acknowledges no put: %v", m.Name, err)
		}
	}
}

// listedBy is what the peer URL of a member lists.
func listedBy(m *cluster.Member) (string, error) {
	response, err := http.Get(m.PeerURL + "/members")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

func (f *fleet) mustStart(m *cluster.Member) {
	f.t.Helper()
	if err := m.Start(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) mustServe(m *cluster.Member) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), cluster.StartTimeout)
	defer cancel()
	if err := m.WaitReady(ctx); err != nil {
		f.t.Fatalf("%s: %v", m.Name, err)
	}
}

// lagging starts three members of one cluster: the second knows that the first was started, and has been killed before
// it applied that the third was; the others have acknowledged a write, and know each other. Only the second runs.
func (f *fleet) lagging() (first, lags, last *cluster.Member) {
	f.t.Helper()
	// The third publishes itself so late that the second is killed in time, unless this process was held up.
	const attempts = 10
	for range attempts {
		all := f.founders(3)
		first, lags, last = all[0], all[1], all[2]
		f.mustStart(first)
		f.mustStart(lags)
		f.mustServe(first)
		f.mustServe(lags)
		f.mustKnow(lags, first)
		f.mustKnow(lags, lags)
		f.keep(lags)
		// It asks both whether it may begin.
		f.mustStart(last)
		f.waitForLog(last, "opened the member")
		lags.Kill()
		f.mustServe(last)
		f.mustKnow(first, last)
		f.mustKnow(last, last)
		f.keep(first)
		first.Kill()
		last.Kill()
		f.mustStart(lags)
		if !f.knows(lags, first) {
			f.t.Fatalf("%s has forgotten what it had applied before its last two entries", lags.Name)
		}
		if !f.knows(lags, last) {
			return first, lags, last
		}
		lags.Kill()
	}
	f.t.Fatalf("in %d attempts no member lagged", attempts)
	return nil, nil, nil
}

// undecided is what a member says that has asked too few others to know whether its directory is lost.
const undecided = "runs already, and 1 of the members that it names answer"

// Member 2 knows that the cluster has begun, and not that member 3 has been started: both together could elect a leader
// that lacks what 1 and 3 have acknowledged. So 3 must not begin by the word of 2 alone (RFC 0038).
func TestAMemberThatLostItsDirectoryDoesNotBeginWithAPeerThatLags(t *testing.T) {
	t.Parallel()
	if *bin == cluster.EtcdPath() {
		t.Skip("etcd's members begin")
	}
	f := begin(t, 1, *bin)
	first, lags, lost := f.lagging()
	if err := os.RemoveAll(lost.DataDir); err != nil {
		t.Fatal(err)
	}
	f.mustStart(lost)
	f.waitForLog(lost, undecided)
	if _, err := os.Stat(lost.DataDir); !os.IsNotExist(err) {
		t.Errorf("it made a directory: %v", err)
	}
	// It asks again; one of the peers that know of it is certain.
	f.mustStart(first)
	f.mustKnow(first, lost)
	if log := f.mustEndSaying(lost, undecided); !strings.Contains(log, "has already been bootstrapped") {
		// It asks for ten seconds only, and the other took longer to open its files.
		lost.Kill()
		f.mustStart(lost)
	}
	f.mustEndSaying(lost, "has already been bootstrapped")
	f.mustServe(first)
	f.mustServe(lags)
	found, err := f.connect(lags).Get(t.Context(), "kept")
	if err != nil || len(found.Kvs) != 1 {
		t.Errorf("an acknowledged write is lost: %v, %v", found, err)
	}
	for _, m := range []*cluster.Member{first, lags, lost} {
		m.Kill()
	}
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
	const refused = "peers refuse this member; reads are disabled"
	f.cluster.AllowErrors(refused)
	f.waitForLog(stale, refused)
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
