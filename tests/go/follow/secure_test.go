package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// secured is a cluster whose clients need certificates of an authority of its own, and users.
type secured struct {
	*authority
	cluster  *cluster.Cluster
	password string
	// root is a client that may do everything.
	root *clientv3.Client
}

// startSecured starts one with the user root, and one that may read everything, one that may also write it, and one that
// may read a part.
func startSecured(t *testing.T, binary, name string, size int) *secured {
	t.Helper()
	a := newAuthority(t, name)
	a.issue("server", 2)
	// Its name is that of a user only for clients that give no password.
	a.issue("client", 3)
	s := &secured{authority: a, password: "of " + name}
	// The least cost, so that hashing takes no time.
	args := append(a.serverFlags("server"), "--bcrypt-cost=4")
	s.cluster = cluster.ForTest(t, cluster.Config{Binary: binary, Size: size, Args: args, TLS: a.client("client")})
	open := s.connect(t, "")
	const read, write = clientv3.PermissionType(clientv3.PermRead), clientv3.PermissionType(clientv3.PermReadWrite)
	for _, user := range []struct {
		name, role, begin, end string
		may                    clientv3.PermissionType
	}{
		{"root", "root", "", "", write}, {"reader", "all", "\x00", "\x00", read}, {"writer", "write", "\x00", "\x00", write},
		{"guest", "some", "key", "key1", read},
	} {
		_, err := open.UserAdd(patiently(t), user.name, s.password)
		check(t, err)
		if user.role != "root" {
			_, err = open.RoleAdd(patiently(t), user.role)
			check(t, err)
			_, err = open.RoleGrantPermission(patiently(t), user.role, user.begin, user.end, user.may)
			check(t, err)
		}
		_, err = open.UserGrantRole(patiently(t), user.name, user.role)
		check(t, err)
	}
	_, err := open.AuthEnable(patiently(t))
	check(t, err)
	s.root = s.connect(t, "root")
	return s
}

// connect makes a client with the certificate and a user; without one if the name is empty.
func (s *secured) connect(t *testing.T, user string) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: s.cluster.Endpoints(), DialTimeout: patience, TLS: s.client("client"), Username: user}
	if user != "" {
		config.Password = s.password
	}
	client, err := clientv3.New(config)
	check(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// as are the flags of a user with the certificate, with a prefix for the destination's.
func (s *secured) as(prefix, user string) []string {
	return append(s.flags(prefix, "client"), "--"+prefix+"user="+user, "--"+prefix+"password="+s.password)
}

// TestBothSidesAreSecured copies between clusters that trust different authorities and have users with different
// passwords, under load.
func TestBothSidesAreSecured(t *testing.T) {
	t.Parallel()
	for _, d := range directions() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := startSecured(t, d.source, "source", 1)
			destination := startSecured(t, d.destination, "destination", 3)
			preload(t, source.root)
			stop := load(t, source.root)
			flags := slices.Concat(source.as("", "reader"), destination.as("dest-", "root"))
			f := start(t, source.cluster, destination.cluster, flags...)
			f.says(t, "caught up with revision")
			killLeader(t, destination.cluster, destination.root)
			arrives(t, source.root, destination.root)
			// Tokens end, and so do connections: both are made again.
			stop()
			f.interrupted(t)
			out := mustEnd(t, start(t, source.cluster, destination.cluster, append(flags, "--until-caught-up", "--verify", "--finish")...))
			if !strings.Contains(out, "verified: ") {
				t.Errorf("the end says %s", out)
			}
			compare(t, source.root, destination.root, false)
		})
	}
}

// TestWhoMayNotCopyIsRefused tries it without what each side demands: the destination stays empty.
func TestWhoMayNotCopyIsRefused(t *testing.T) {
	t.Parallel()
	source := startSecured(t, cluster.EtcdPath(), "source", 1)
	destination := startSecured(t, cluster.StelePath(), "destination", 1)
	_, err := source.root.Put(patiently(t), "key0", "x")
	check(t, err)
	_, err = source.root.Put(patiently(t), "other", "x")
	check(t, err)
	from, to := source.as("", "reader"), destination.as("dest-", "root")
	for _, refused := range []struct {
		name, why string
		flags     []string
	}{
		{"a source whose authority is not known", "certificate", slices.Concat(destination.as("", "reader"), to)},
		{"a destination whose authority is not known", "certificate", slices.Concat(from, source.as("dest-", "root"))},
		// How the server ends the connection, and whether its reason arrives, is its own affair.
		{"no certificate for the destination", "the destination, https://",
			append(slices.Clone(from), "--dest-cacert="+destination.file("ca.pem"), "--dest-user=root", "--dest-password="+destination.password)},
		{"half a certificate for the destination", "KeyFile and CertFile must both be present",
			append(slices.Clone(from), "--dest-cert="+destination.file("client.pem"))},
		{"another password of the destination", "invalid user ID or password", append(slices.Concat(from, to), "--dest-password=x")},
		{"another password of the source", "invalid user ID or password", append(slices.Concat(from, to), "--password=x")},
		{"a certificate that names no user of the source", "permission denied", slices.Concat(source.flags("", "client"), to)},
		{"a user that may read a part", "permission denied", slices.Concat(source.as("", "guest"), to)},
		{"a user that may not write", "permission denied", slices.Concat(from, destination.as("dest-", "reader"))},
	} {
		t.Run(refused.name, func(t *testing.T) {
			flags := append(refused.flags, "--until-caught-up", "--dial-timeout=2s", "--command-timeout=5s")
			code, out := start(t, source.cluster, destination.cluster, flags...).ends(t)
			if code == 0 || !strings.Contains(strings.ToLower(out), strings.ToLower(refused.why)) {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
	if got := keys(t, destination.root); got != "" {
		t.Errorf("the destination has %s", got)
	}
}

// TestRevisionsAreKeptByAUserThatMayNotCompact copies a compacted source as a user that may write all keys, but has not
// the role root.
func TestRevisionsAreKeptByAUserThatMayNotCompact(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	destination := startSecured(t, cluster.StelePath(), "destination", 1)
	from := connect(t, source)
	for n := range 5 {
		_, err := from.Put(patiently(t), "key", fmt.Sprint(n))
		check(t, err)
	}
	compactAll(t, from)
	_, err := from.Put(patiently(t), "key", "last")
	check(t, err)
	f := start(t, source, destination.cluster, append(destination.as("dest-", "writer"), "--keep-revisions", "--until-caught-up", "--verify")...)
	if out := mustEnd(t, f); strings.Count(out, "the destination is not compacted, because its user has not the role root") != 1 {
		t.Errorf("the copy says %s", out)
	}
	compare(t, from, destination.root, true)
}
