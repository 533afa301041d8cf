package tls

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"stele.test/cluster"
)

// controlPlane is etcd as kubeadm runs it: certificates of RSA with the usages that kubeadm asks for, and the flags of
// its static pods. Each node has an address of its own; connections between them come from 127.0.0.1, which kubeadm's
// certificates are for, too.
type controlPlane struct {
	t  *testing.T
	ca *authority
}

func newControlPlane(t *testing.T) controlPlane {
	p := controlPlane{t, newAuthorityWithKey(t, "etcd-ca", must(rsa.GenerateKey(rand.Reader, 2048)))}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for serial, name := range []string{"kube-apiserver-etcd-client", "kube-etcd-healthcheck-client"} {
		p.ca.issue(subject{name: name, rsa: true, serial: int64(10 + serial), usages: client})
	}
	return p
}

func nodeAddress(node int) string { return fmt.Sprintf("127.2.3.%d", node) }

// metricsURL is where a node's probes ask. Its port is this test's on every loopback address.
func metricsURL(node int, port string) string { return fmt.Sprintf("http://127.9.9.%d:%s", node, port) }

// flags are those of the static pod of a node, but for its name, its directory, its peer URLs and the first cluster.
func (p controlPlane) flags(node int, port string) []string {
	for serial, name := range []string{"server", "peer"} {
		p.ca.issue(subject{
			name: fmt.Sprint("node", node), file: fmt.Sprint(name, node), rsa: true, serial: int64(100*node + serial),
			hosts: []string{fmt.Sprint("node", node), "localhost", nodeAddress(node), "127.0.0.1", "::1"},
		})
	}
	file := func(flag, format string) string { return flag + "=" + p.ca.file(fmt.Sprintf(format, node)) }
	ca := p.ca.file("ca.pem")
	return []string{
		"--feature-gates=InitialCorruptCheck=true", "--snapshot-count=10000", "--watch-progress-notify-interval=5s",
		fmt.Sprintf("--listen-client-urls=https://127.0.0.1:%[1]s,https://%[2]s:%[1]s", port, nodeAddress(node)),
		"--listen-metrics-urls=" + metricsURL(node, port), "--client-cert-auth=true", "--peer-client-cert-auth=true",
		file("--cert-file", "server%d.pem"), file("--key-file", "server%d.key"), "--trusted-ca-file=" + ca,
		file("--peer-cert-file", "peer%d.pem"), file("--peer-key-file", "peer%d.key"), "--peer-trusted-ca-file=" + ca,
	}
}

// client is made as kube-apiserver makes it of --etcd-cafile, --etcd-certfile and --etcd-keyfile.
func (p controlPlane) client(name string, endpoints ...string) *clientv3.Client {
	p.t.Helper()
	files := transport.TLSInfo{
		CertFile: p.ca.file(name + ".pem"), KeyFile: p.ca.file(name + ".key"), TrustedCAFile: p.ca.file("ca.pem"),
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: must(files.ClientConfig()), DialTimeout: 20 * time.Second,
		DialKeepAliveTime: 30 * time.Second, DialKeepAliveTimeout: 10 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithBlock()}, MaxUnaryRetries: 1,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { client.Close() })
	return client
}

// join adds a node as `kubeadm join` does: as a learner, which is promoted once it has caught up.
func (p controlPlane) join(c *cluster.Cluster, node int) {
	p.t.Helper()
	m := must(c.Layout(*bin))
	port := must(url.Parse(m.ClientURL)).Port()
	m.ClientURL = strings.Replace(m.ClientURL, "127.0.0.1", nodeAddress(node), 1)
	m.PeerURL = strings.Replace(m.PeerURL, "127.0.0.1", nodeAddress(node), 1)
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*patience)
	defer cancel()
	admin := p.client("kube-etcd-healthcheck-client", c.Members[0].ClientURL)
	var added *clientv3.MemberAddResponse
	p.retried(ctx, func() (err error) {
		added, err = admin.MemberAddAsLearner(ctx, []string{m.PeerURL})
		return err
	})
	peers := map[string]string{m.Name: m.PeerURL}
	for _, other := range c.Members {
		peers[other.Name] = other.PeerURL
	}
	m.JoinExisting(peers)
	for _, flag := range append(p.flags(node, port), quick...) {
		m.AddFlag(flag)
	}
	if err := m.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.retried(ctx, func() error {
		_, err := admin.MemberPromote(ctx, added.Member.ID)
		return err
	})
	if err := m.WaitReady(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// retried repeats what etcd refuses for a moment: a change while members are not all connected, or a learner that lags.
func (p controlPlane) retried(ctx context.Context, call func() error) {
	p.t.Helper()
	for {
		err := call()
		if err == nil {
			return
		}
		later := errors.Is(err, rpctypes.ErrUnhealthy) || errors.Is(err, rpctypes.ErrMemberLearnerNotReady)
		if !later || ctx.Err() != nil {
			p.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// probe asks what the kubelet asks, without a certificate.
func probe(t *testing.T, base string) {
	t.Helper()
	for _, path := range []string{"/livez", "/readyz", "/health?exclude=NOSPACE&serializable=true", "/health?serializable=false", "/metrics"} {
		response, err := http.Get(base + path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		body := must(io.ReadAll(response.Body))
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", path, response.Status, body)
		}
	}
}

func TestKubeadmsStaticPodsServeTheAPIServer(t *testing.T) {
	t.Parallel()
	p := newControlPlane(t)
	var port string
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: quick, TLS: p.ca.client(p.ca.load("kube-etcd-healthcheck-client")), SecurePeers: true,
		Hosts: []cluster.Host{{Address: nodeAddress(1)}},
		Prepare: func(m *cluster.Member, _, _ string) error {
			port = must(url.Parse(m.ClientURL)).Port()
			for _, flag := range p.flags(1, port) {
				m.AddFlag(flag)
			}
			return nil
		},
	})
	p.join(c, 2)
	p.join(c, 3)
	for i, m := range c.Members {
		probe(t, metricsURL(i+1, must(url.Parse(m.ClientURL)).Port()))
	}
	asAPIServer(t, p.client("kube-apiserver-etcd-client", "https://127.0.0.1:"+port))
	all := p.client("kube-apiserver-etcd-client", c.Endpoints()...)
	c.Members[0].Kill()
	if err := cluster.PutUntilAnswered(t.Context(), all, "/registry/after", "v"); err != nil {
		t.Errorf("without the first node: %v", err)
	}
	if err := handshake(c.Members[1].ClientURL, p.ca.client()); err == nil {
		t.Error("a client without a certificate was served")
	}
}

// asAPIServer makes the calls that kube-apiserver's storage makes.
func asAPIServer(t *testing.T, client *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(client.Get(ctx, "/registry/health"))
	const prefix = "/registry/configmaps/"
	begin := must(client.Get(ctx, prefix, clientv3.WithPrefix())).Header.Revision
	watch := client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(begin+1),
		clientv3.WithPrevKV(), clientv3.WithProgressNotify())
	key := prefix + "default/one"
	swap := func(revision int64, value string) *clientv3.TxnResponse {
		unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
		return must(client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(key, value)).Else(clientv3.OpGet(key)).Commit())
	}
	created := swap(0, "first")
	if !created.Succeeded || swap(0, "twice").Succeeded || !swap(created.Header.Revision, "second").Succeeded {
		t.Error("creation and updates do not compare revisions")
	}
	must(client.Put(ctx, prefix+"default/two", "v"))
	page := must(client.Get(ctx, prefix, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(1)))
	if len(page.Kvs) != 1 || !page.More || page.Count != 2 {
		t.Errorf("a page: %v", page)
	}
	var values []string
	for len(values) < 3 {
		response, ok := <-watch
		if err := response.Err(); !ok || err != nil {
			t.Fatalf("the watch ended: %v", err)
		}
		for _, event := range response.Events {
			values = append(values, string(event.Kv.Value))
		}
	}
	if got := strings.Join(values, " "); got != "first second v" {
		t.Errorf("the watch saw %q", got)
	}
}
