package membership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"stele.test/cluster"
)

// stray lays out a member beside those of the cluster.
func (f *fleet) stray() *cluster.Member {
	f.t.Helper()
	m, err := f.cluster.Layout(*bin, quick...)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// peerURLs are the peer URLs of the members that run, and of others, by name.
func (f *fleet) peerURLs(others ...*cluster.Member) map[string]string {
	urls := map[string]string{}
	for _, m := range append(f.running(), others...) {
		urls[m.Name] = m.PeerURL
	}
	return urls
}

func TestJoinersThatDoNotFitSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := begin(t, 1, *bin)
	first := f.cluster.Members[0]

	// Its name is that of another member.
	namesake := f.stray()
	if _, err := f.client.MemberAddAsLearner(t.Context(), []string{namesake.PeerURL}); err != nil {
		t.Fatal(err)
	}
	name := namesake.Name
	namesake.Name = first.Name
	namesake.JoinExisting(map[string]string{first.Name: first.PeerURL + "," + first.Name + "=" + namesake.PeerURL})
	f.mustSayAndEnd(namesake, "names no other member; each needs a name of its own")
	namesake.Name = name
	namesake.Kill()

	// It is to begin a cluster of its own, in which the first one is a member.
	other := f.stray()
	other.JoinExisting(f.peerURLs(other))
	other.RemoveFlag("--initial-cluster-state=existing")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	f.waitForLog(other, "was met, expected")
	f.waitForLog(other, "needs an empty data directory")
	other.Kill()

	// It holds the data of another cluster, which goes on with its own members alone.
	foreign := begin(t, 1, *bin)
	holder := foreign.cluster.Members[0]
	if _, err := foreign.client.Put(t.Context(), "whose", "foreign"); err != nil {
		t.Fatal(err)
	}
	holder.Kill()
	namesake.DataDir = holder.DataDir
	namesake.JoinExisting(f.peerURLs(namesake))
	if err := namesake.Start(); err != nil {
		t.Fatal(err)
	}
	f.waitForLog(first, "was met, expected")
	for _, text := range []string{"was met, expected", "needs an empty data directory and the flags of `member add`"} {
		f.waitForLog(namesake, text)
	}
	namesake.Kill()
	found, err := f.client.Get(t.Context(), "whose")
	if err != nil || len(found.Kvs) != 0 {
		t.Errorf("the data of another cluster has come: %v, %v", found, err)
	}
}

func TestTwoMembersJoinAtOnce(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	joiners := []*cluster.Member{f.stray(), f.stray()}
	peers := f.peerURLs(joiners...)
	for _, m := range joiners {
		f.retry("add "+m.Name, func(ctx context.Context) error {
			_, err := f.client.MemberAdd(ctx, []string{m.PeerURL})
			return err
		})
	}
	// Of six voters three would run.
	_, err := f.client.MemberAdd(t.Context(), []string{"http://127.0.0.1:1"})
	if !errors.Is(err, rpctypes.ErrMemberNotEnoughStarted) {
		t.Errorf("a third one: %v", err)
	}
	for _, m := range joiners {
		m.JoinExisting(peers)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range joiners {
		if err := m.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.client.Put(t.Context(), "by five", "1"); err != nil {
		t.Fatal(err)
	}
	for _, m := range joiners {
		found, err := f.connect(m).Get(t.Context(), "by five")
		if err != nil || len(found.Kvs) != 1 {
			t.Errorf("%s: %v, %v", m.Name, found, err)
		}
	}
}

func TestNoMemberIsAddedWhileTheQuorumIsUnhealthy(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	down := f.cluster.Members[0]
	down.Kill()
	for _, m := range f.running() {
		f.waitForLog(m, "peer became inactive")
	}
	others := f.connect(f.running()...)
	if _, err := others.MemberAdd(t.Context(), []string{"http://127.0.0.1:1"}); !errors.Is(err, rpctypes.ErrUnhealthy) {
		t.Errorf("a fourth voter: %v", err)
	}
	alive := f.idOf(f.cluster.Members[1])
	if _, err := others.MemberRemove(t.Context(), alive); !errors.Is(err, rpctypes.ErrUnhealthy) {
		t.Errorf("one of the two that run is removed: %v", err)
	}
	if _, err := others.MemberRemove(t.Context(), f.idOf(down)); err != nil {
		t.Errorf("the one that is down is not removed: %v", err)
	}
}

func TestTheFlagsForChangesTakeEffect(t *testing.T) {
	t.Parallel()
	args := append([]string{"--strict-reconfig-check=false", "--max-learners=2"}, quick...)
	f := &fleet{t: t, cluster: cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: args})}
	down := f.cluster.Members[0]
	down.Kill()
	for _, m := range f.running() {
		f.waitForLog(m, "peer became inactive")
	}
	others := f.connect(f.running()...)
	for number, expected := range []error{nil, nil, rpctypes.ErrTooManyLearners} {
		url := fmt.Sprintf("http://127.0.0.1:%d", number+1)
		if _, err := others.MemberAddAsLearner(t.Context(), []string{url}); !errors.Is(err, expected) {
			t.Errorf("learner %d while a voter is down: %v, expected %v", number+1, err, expected)
		}
	}
}

func TestRequestsThatDoNotFitGetTheErrorsOfEtcd(t *testing.T) {
	f := begin(t, 1, *bin)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own := f.cluster.Members[0].PeerURL
	expect := func(what string, got error, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, expected %v", what, got, want)
		}
	}
	_, err := f.client.MemberAdd(ctx, []string{own})
	expect("a URL in use", err, rpctypes.ErrPeerURLExist)
	_, err = f.client.MemberRemove(ctx, 77)
	expect("no such member", err, rpctypes.ErrMemberNotFound)
	_, err = f.client.MemberPromote(ctx, 77)
	expect("no such learner", err, rpctypes.ErrMemberNotFound)
	first := f.listed()[0].id
	_, err = f.client.MemberPromote(ctx, first)
	expect("a voter is promoted", err, rpctypes.ErrMemberNotLearner)
	_, err = f.client.MemberRemove(ctx, first)
	expect("the last voter", err, rpctypes.ErrMemberNotEnoughStarted)
	learner, err := f.client.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.client.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:2"})
	expect("a second learner", err, rpctypes.ErrTooManyLearners)
	_, err = f.client.MemberPromote(ctx, learner.Member.ID)
	expect("a learner that never ran", err, rpctypes.ErrMemberLearnerNotReady)
	_, err = f.client.MemberUpdate(ctx, learner.Member.ID, []string{"http://127.0.0.1:3"})
	expect("moved", err, nil)
	moved := false
	for _, listed := range f.listed() {
		moved = moved || listed.learner && listed.peerURL == "http://127.0.0.1:3"
	}
	if !moved {
		t.Error("the learner has not moved")
	}

	const unfit = "no match found for existing member"
	f.cluster.AllowErrors(unfit)
	// A joiner whose flags do not fit says so and leaves no directory behind.
	stray, err := f.cluster.Layout(*bin, quick...)
	if err != nil {
		t.Fatal(err)
	}
	stray.JoinExisting(map[string]string{f.cluster.Members[0].Name: own, stray.Name: stray.PeerURL})
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	if !stray.Ended(ctx) {
		t.Fatal("a member that was not added runs")
	}
	if log, _ := stray.RunLog(); !strings.Contains(log, unfit) {
		t.Errorf("it does not say what does not fit:\n%s", log)
	}
	if _, err := os.Stat(stray.DataDir); !os.IsNotExist(err) {
		t.Errorf("it left a directory: %v", err)
	}
	stray.Kill()
}
