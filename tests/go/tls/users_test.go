package tls

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

func TestTheCommonNameOfACertificateIsTheNameOfItsUser(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	root := a.issue(subject{name: "root", serial: 3})
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: a.clientFlags("server"), TLS: a.client(root)})
	endpoint := c.Members[0].ClientURL
	admin, ctx := connect(t, a.client(root), endpoint), t.Context()
	noPassword := &clientv3.UserAddOptions{NoPassword: true}
	for _, name := range []string{"root", "alice"} {
		must(admin.UserAddWithOptions(ctx, name, "", noPassword))
	}
	for user, role := range map[string]string{"root": "root", "alice": "app"} {
		must(admin.RoleAdd(ctx, role))
		must(admin.UserGrantRole(ctx, user, role))
	}
	end := clientv3.GetPrefixRangeEnd("/app/")
	must(admin.RoleGrantPermission(ctx, "app", "/app/", end, clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.AuthEnable(ctx))

	alice := connect(t, a.client(a.issue(subject{name: "alice", serial: 4})), endpoint)
	if err := put(ctx, alice, "/app/key"); err != nil {
		t.Errorf("alice, where she may: %v", err)
	}
	if err := put(ctx, alice, "/other"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("alice, where she may not: %v", err)
	}
	bob := connect(t, a.client(a.issue(subject{name: "bob", serial: 5})), endpoint)
	if err := put(ctx, bob, "/app/key"); err == nil {
		t.Error("bob, who is no user, has put a key")
	}
	if err := put(ctx, admin, "/other"); err != nil {
		t.Errorf("root: %v", err)
	}
}

// Who holds a certificate of no user, or of one that is deleted, hears of each call that any user may make what etcd says.
func TestTheCertificateOfNoUserHasTheAnswersOfEtcd(t *testing.T) {
	t.Parallel()
	var answers []string
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		a := newAuthority(t, "ours")
		a.issue(subject{name: "server", hosts: hosts, serial: 2})
		root := a.issue(subject{name: "root", serial: 3})
		c := cluster.ForTest(t, cluster.Config{Binary: binary, Args: a.clientFlags("server"), TLS: a.client(root)})
		endpoint := c.Members[0].ClientURL
		admin, ctx := connect(t, a.client(root), endpoint), t.Context()
		noPassword := &clientv3.UserAddOptions{NoPassword: true}
		for _, name := range []string{"root", "alice"} {
			must(admin.UserAddWithOptions(ctx, name, "", noPassword))
		}
		must(admin.RoleAdd(ctx, "root"))
		must(admin.UserGrantRole(ctx, "root", "root"))
		must(admin.AuthEnable(ctx))
		var found strings.Builder
		ask := func(name string) {
			client := connect(t, a.client(a.issue(subject{name: name, serial: 4})), endpoint)
			_, err := client.Status(ctx, endpoint)
			fmt.Fprintf(&found, "%s: status %v\n", name, err)
			_, err = client.MemberList(ctx)
			fmt.Fprintf(&found, "%s: members %v\n", name, err)
			_, err = client.AlarmList(ctx)
			fmt.Fprintf(&found, "%s: alarms %v\n", name, err)
		}
		ask("alice")
		ask("bob")
		must(admin.UserDelete(ctx, "alice"))
		ask("alice")
		answers = append(answers, found.String())
	}
	if answers[0] != answers[1] {
		t.Errorf("etcd:\n%sStele:\n%s", answers[0], answers[1])
	}
}

// TestLimitsCountByTheNameOfACertificate has two clients on one address, without users: what one takes is not the other's.
func TestLimitsCountByTheNameOfACertificate(t *testing.T) {
	t.Parallel()
	const rate = 20
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	ready := a.issue(subject{name: "ready", serial: 3})
	args := append(a.clientFlags("server"), fmt.Sprintf("--client-max-request-rate=%d", rate))
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: args, TLS: a.client(ready)})
	kv := func(name string, serial int64) pb.KVClient {
		client := connect(t, a.client(a.issue(subject{name: name, serial: serial})), c.Members[0].ClientURL)
		return pb.NewKVClient(client.ActiveConnection())
	}
	alice, bob := kv("alice", 4), kv("bob", 5)
	ask := func(client pb.KVClient) error {
		_, err := client.Range(t.Context(), &pb.RangeRequest{Key: []byte("key")})
		return err
	}
	var err error
	for calls := 0; err == nil; calls++ {
		if calls > 100*rate {
			t.Fatal("alice was not refused")
		}
		err = ask(alice)
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("alice: %v", err)
	}
	if err := ask(bob); err != nil {
		t.Errorf("bob, who has taken nothing: %v", err)
	}
}
