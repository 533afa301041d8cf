package tls

import (
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

func TestTheCommonNameOfACertificateIsTheNameOfItsUser(t *testing.T) {
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
