package ctl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// TestMembersAsEtcdctl runs the commands over members through both programs, in all forms, against one cluster of three. What
// one program changes it changes back, so that the other one finds the same.
func TestMembersAsEtcdctl(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
	client := cluster.ClientOf(t, patience, c.Members...)
	endpoints := strings.ReplaceAll(strings.Join(c.Endpoints(), ","), "http://", "")
	reference, tested := &program{path: etcdctl(t), endpoint: endpoints}, &program{path: named(t, "etcdctl"), endpoint: endpoints}
	reference.do(t, "put a b")
	until(t, "members are added", func() bool {
		// Members that have only met do not count as healthy.
		added, err := client.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"})
		if err == nil {
			_, err = client.MemberRemove(t.Context(), added.Member.ID)
		}
		return err == nil
	})
	alike := func(text string) {
		t.Helper()
		want, got := sorted(reference.run(t, l(text))), sorted(tested.run(t, l(text)))
		if want != got {
			t.Errorf("%s\netcdctl: %+v\nstele:   %+v", text, want, got)
		}
	}
	for i, form := range []string{"simple", "table", "json", "fields"} {
		for _, text := range []string{"member list", "endpoint status --cluster", "endpoint health --cluster", "endpoint hashkv --cluster"} {
			alike(text + " -w " + form)
		}
		want, got := changed(t, client, reference, form, 10+4*i), changed(t, client, tested, form, 12+4*i)
		for n := range want {
			if spread(want[n]) != spread(got[n]) {
				t.Errorf("change %d, as %s\netcdctl: %+v\nstele:   %+v", n, form, want[n], got[n])
			}
		}
	}
	alike("member list -w json --hex")
}

// changed adds a learner, changes and promotes it, which fails as it never runs, and removes it: the results.
// The ports are of its own, as an id comes of the address and the second, and is never used again.
func changed(t *testing.T, client *clientv3.Client, p *program, form string, port int) (results []result) {
	t.Helper()
	do := func(text string) { results = append(results, p.run(t, l(text+" -w "+form))) }
	do(fmt.Sprint("member add late --learner --peer-urls=http://127.0.0.1:", port))
	list, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var id uint64
	for _, m := range list.Members {
		if m.IsLearner {
			id = m.ID
		}
	}
	do(fmt.Sprintf("member update %x --peer-urls=http://127.0.0.1:%d", id, port+1))
	do(fmt.Sprintf("member promote %x", id))
	do(fmt.Sprintf("member remove %x", id))
	do(fmt.Sprintf("member remove %x", id))
	return results
}

// spread has its members on lines of their own, in order: where a new one stands in a list depends on its id.
func spread(r result) result {
	r.out = strings.NewReplacer("[{", "[\n{", "},{", "},\n{", "}]", "},\n]").Replace(r.out)
	return sorted(r)
}

// until asks again and again, until the answer is yes.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not yet: %s", what)
		}
	}
}
