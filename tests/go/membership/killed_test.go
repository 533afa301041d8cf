package membership

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"stele.test/cluster"
)

var (
	rounds = flag.Int("rounds", 1, "rounds in which members are killed while members come and go")
	seed   = flag.Uint64("seed", 1, "what victims and times are drawn from")
)

// maxKillDelay is how long after the beginning of a change a member is killed at the latest.
const maxKillDelay = 60 * time.Millisecond

// killing draws victims, and kills them while something else goes on.
type killing struct {
	f      *fleet
	random *rand.Rand
}

// during kills one of the members with SIGKILL at some moment of a change and starts it again at once, because a change
// waits for a quorum. It returns when both are through.
func (k *killing) during(victims []*cluster.Member, change func()) {
	k.f.t.Helper()
	victim := victims[k.random.IntN(len(victims))]
	delay := time.Duration(k.random.Int64N(int64(maxKillDelay)))
	started := make(chan error, 1)
	go func() {
		time.Sleep(delay)
		victim.Kill()
		started <- victim.Start()
	}()
	change()
	if err := <-started; err != nil {
		k.f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(k.f.t.Context(), patience)
	defer cancel()
	if err := victim.WaitReady(ctx); err != nil {
		k.f.t.Fatalf("%s after it was killed: %v", victim.Name, err)
	}
}

// until repeats a change until it has taken effect, also if the answer to an attempt was lost.
func (f *fleet) until(what string, change func(context.Context) (bool, error)) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		call, end := context.WithTimeout(ctx, 5*time.Second)
		done, err := change(call)
		end()
		if done {
			return
		}
		if ctx.Err() != nil {
			f.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// add adds a member as a learner and returns its id.
func (f *fleet) add(m *cluster.Member) uint64 {
	f.t.Helper()
	var id uint64
	f.until("add "+m.Name, func(ctx context.Context) (bool, error) {
		response, err := f.client.MemberAddAsLearner(ctx, []string{m.PeerURL})
		if err == nil {
			id = response.Member.ID
			return true, nil
		}
		members, listErr := f.client.MemberList(ctx)
		if listErr != nil {
			return false, err
		}
		for _, listed := range members.Members {
			if slices.Contains(listed.PeerURLs, m.PeerURL) {
				id = listed.ID
			}
		}
		return id != 0, err
	})
	return id
}

func (f *fleet) idOf(m *cluster.Member) uint64 {
	f.t.Helper()
	for _, listed := range f.listed() {
		if listed.peerURL == m.PeerURL {
			return listed.id
		}
	}
	f.t.Fatalf("%s is no member", m.Name)
	return 0
}

// Each round adds a learner, kills it while it joins, promotes it, and removes another member. One of the members is
// killed during each of these changes.
func TestMembersAreKilledWhileOthersComeAndGo(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	l := startLoad(f)
	k := &killing{f: f, random: rand.New(rand.NewPCG(*seed, 0))}
	for range *rounds {
		before := f.running()
		joiner, err := f.cluster.Layout(*bin, quick...)
		if err != nil {
			t.Fatal(err)
		}
		var id uint64
		k.during(before, func() { id = f.add(joiner) })
		peers := map[string]string{joiner.Name: joiner.PeerURL}
		for _, m := range before {
			peers[m.Name] = m.PeerURL
		}
		joiner.JoinExisting(peers)
		if err := joiner.Start(); err != nil {
			t.Fatal(err)
		}
		// It may have made its directory, and nothing in it.
		k.during([]*cluster.Member{joiner}, func() {})
		k.during(before, func() {
			f.until("promote "+joiner.Name, func(ctx context.Context) (bool, error) {
				_, err := f.client.MemberPromote(ctx, id)
				return err == nil || errors.Is(err, rpctypes.ErrMemberNotLearner), err
			})
		})
		removed := before[k.random.IntN(len(before))]
		removedID := f.idOf(removed)
		others := slices.DeleteFunc(f.running(), func(m *cluster.Member) bool { return m == removed })
		k.during(others, func() {
			f.until("remove "+removed.Name, func(ctx context.Context) (bool, error) {
				_, err := f.client.MemberRemove(ctx, removedID)
				return err == nil || errors.Is(err, rpctypes.ErrMemberNotFound), err
			})
		})
		f.mustEndRemoved(removed)
		removed.Kill()
		f.follow()
	}
	// Four in each round, and a member that is removed while the leader may be killed.
	l.verify(f, 5**rounds)
	// All agree on who is left.
	for _, m := range f.running() {
		members, err := f.connect(m).MemberList(t.Context())
		if err != nil || len(members.Members) != 3 {
			t.Errorf("%s lists %v, %v", m.Name, members, err)
		}
	}
}
