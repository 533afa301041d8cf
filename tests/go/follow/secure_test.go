package follow

import (
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

// startSecured starts one with the user root, and one that may read everything, and one that may read a part.
func startSecured(t *testing.T, binary, name string, size int) *secured {
	t.Helper()
	a := newAuthority(t, name)
	a.issue("server", 2)
	// Its name is that of a user only for clients that give no password.
	a.issue("client", 3)
	s := &secured{authority: a, password: "of " + name}
	s.cluster = cluster.ForTest(t, cluster.Config{Binary: binary, Size: size, Args: a.serverFlags("server"), TLS: a.client("client")})
	open := s.connect(t, "")
	for _, user := range []struct{ name, role, begin, end string }{
		{"root", "root", "", ""}, {"reader", "all", "\x00", "\x00"}, {"guest", "some", "key", "key1"},
	} {
		_, err := open.UserAdd(patiently(t), user.name, s.password)
		check(t, err)
		if user.role != "root" {
			_, err = open.RoleAdd(patiently(t), user.role)
			check(t, err)
			_, err = open.RoleGrantPermission(patiently(t), user.role, user.begin, user.end, clientv3.PermissionType(clientv3.PermRead))
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
		{"no certificate for the destination", "certificate",
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
