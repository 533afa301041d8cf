package membership

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

var old = flag.String("old", "", "an older release of the server, for the test that mixes the two")

// recorded is what a member logs when the cluster begins to use a newer set of commands.
const recorded = "all members can apply a newer set of commands"

func TestReleasesMixMemberByMemberAndBack(t *testing.T) {
	if *old == "" {
		t.Skip("no older release was given: -old PATH")
	}
	f := begin(t, 3, *old)
	l := startLoad(f)
	f.run(*bin, 0, 1)
	f.mustRefuseMembershipChanges()
	f.run(*old, 1, 0)
	f.run(*bin, 2)
	f.run(*old, 2)
	f.run(*bin, 0, 1, 2)
	f.waitForLog(f.cluster.Members[0], recorded)
	f.join(true)

	// There is no way back any more, and the old release says why.
	first := f.cluster.Members[0]
	_ = first.Terminate()
	first.UseBinary(*old)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !first.Ended(ctx) {
		t.Error("a release that does not know the commands of the cluster runs")
	}
	log, err := first.RunLog()
	if err != nil || !strings.Contains(log, "version 3") && !strings.Contains(log, "run a release that knows it") {
		t.Errorf("it does not say why it ended (%v):\n%s", err, log)
	}
	first.Kill()
	f.run(*bin, 0)
	// Each run of a member, and one more that ends.
	l.verify(f, 9)
}

// run restarts members, by their index, with a release, one after the other.
func (f *fleet) run(binary string, members ...int) {
	f.t.Helper()
	for _, index := range members {
		m := f.cluster.Members[index]
		_ = m.Terminate()
		m.UseBinary(binary)
		if err := m.Restart(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// mustRefuseMembershipChanges asks a member of the new release for what one of the old release would not understand.
func (f *fleet) mustRefuseMembershipChanges() {
	f.t.Helper()
	client := f.connect(f.cluster.Members[0])
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if _, err := client.MemberAdd(ctx, []string{"http://127.0.0.1:1"}); !errors.Is(err, rpctypes.ErrNotCapable) {
		f.t.Errorf("a member can be added: %v", err)
	}
}
