package membership

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"stele.test/cluster"
)

// domain is where the records of a test are. It is reserved for tests.
const domain = "stele.test"

// nameServer answers questions for the records of one domain: hosts are addresses of this machine.
type nameServer struct {
	conn net.PacketConn

	mu sync.Mutex
	// services are the members of each service, such as `_etcd-server._tcp`.
	services map[string][]srvRecord
}

type srvRecord struct {
	host string
	port uint16
}

// startNameServer serves at the usual port, for no resolver's configuration can name another one. The address is of
// this process alone.
func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	pid := os.Getpid()
	var conn net.PacketConn
	var err error
	for last := 1; last < 255; last++ {
		address := fmt.Sprintf("127.%d.%d.%d:53", 64+pid>>8&63, pid&255, last)
		if conn, err = net.ListenPacket("udp4", address); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, services: map[string][]srvRecord{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.serve()
	}()
	t.Cleanup(func() {
		conn.Close()
		<-served
	})
	return s
}

// add names the member at a URL as one of a service. Its host is its name in the domain.
func (s *nameServer) add(t *testing.T, service string, m *cluster.Member) {
	t.Helper()
	at, err := url.Parse(m.PeerURL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(at.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services[service] = append(s.services[service], srvRecord{host: m.Name, port: uint16(port)})
}

func (s *nameServer) serve() {
	buffer := make([]byte, 4096)
	for {
		count, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:count]) != nil || len(query.Questions) != 1 {
			continue
		}
		answer := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionAvailable: true},
			Questions: query.Questions,
		}
		answer.Answers, answer.RCode = s.answers(query.Questions[0])
		if packed, err := answer.Pack(); err == nil {
			_, _ = s.conn.WriteTo(packed, from)
		}
	}
}

// answers are the records that a question asks for.
func (s *nameServer) answers(question dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode) {
	name := strings.TrimSuffix(strings.ToLower(question.Name.String()), ".")
	first, isOurs := strings.CutSuffix(name, "."+domain)
	if !isOurs {
		return nil, dnsmessage.RCodeNameError
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	record := func(kind dnsmessage.Type, body dnsmessage.ResourceBody) dnsmessage.Resource {
		head := dnsmessage.ResourceHeader{Name: question.Name, Type: kind, Class: dnsmessage.ClassINET, TTL: 60}
		return dnsmessage.Resource{Header: head, Body: body}
	}
	isKnown := false
	var found []dnsmessage.Resource
	for service, members := range s.services {
		isKnown = isKnown || service == first
		for _, m := range members {
			switch {
			case service == first && question.Type == dnsmessage.TypeSRV:
				target := dnsmessage.MustNewName(m.host + "." + domain + ".")
				found = append(found, record(question.Type, &dnsmessage.SRVResource{Port: m.port, Target: target}))
			case m.host == first && question.Type == dnsmessage.TypeA:
				isKnown = true
				found = append(found, record(question.Type, &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}))
			case m.host == first:
				isKnown = true
			}
		}
	}
	if !isKnown {
		return nil, dnsmessage.RCodeNameError
	}
	return found, dnsmessage.RCodeSuccess
}

// asking is where members run whose resolver asks the server: in a mount namespace with a configuration of its own.
func (s *nameServer) asking(t *testing.T) cluster.Host {
	t.Helper()
	host, _, err := net.SplitHostPort(s.conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte("nameserver "+host+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mount := `mount --bind "$0" /etc/resolv.conf && exec "$@"`
	return cluster.Host{Address: "127.0.0.1", Prefix: []string{"unshare", "--mount", "sh", "-c", mount, path}}
}

// needNamespaces skips a test where no mount namespace can be made.
func needNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes the mount namespace, and listens at the port of a name server, that it needs")
	}
	try := exec.Command("unshare", "--mount", "sh", "-c", "mount --bind /etc/resolv.conf /etc/resolv.conf")
	if output, err := try.CombinedOutput(); err != nil {
		t.Skipf("no mount namespace can be made here: %v: %s", err, output)
	}
}

// found starts members that find each other by the records of a service, and waits until they serve.
func (s *nameServer) found(t *testing.T, size int, service string, flags ...string) *fleet {
	t.Helper()
	hosts := make([]cluster.Host, size)
	for n := range hosts {
		hosts[n] = s.asking(t)
	}
	config := cluster.Config{Binary: *bin, Size: size, Hosts: hosts, Args: append(flags, quick...)}
	config.Args = append(config.Args, "--discovery-srv="+domain)
	config.Prepare = func(m *cluster.Member, initialCluster, token string) error {
		m.RemoveFlag("--initial-cluster=" + initialCluster)
		s.add(t, service, m)
		return nil
	}
	f := &fleet{t: t, cluster: cluster.ForTest(t, config)}
	f.client = f.connect(f.cluster.Members...)
	return f
}

func TestMembersFindEachOtherByDNS(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	s := startNameServer(t)
	f := s.found(t, 3, "_etcd-server._tcp")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := f.client.Put(ctx, "found", "1"); err != nil {
		t.Fatal(err)
	}
	list, err := f.client.MemberList(ctx)
	if err != nil || len(list.Members) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	// The hosts of the records are those that the cluster is made of.
	for _, listed := range list.Members {
		for _, m := range f.cluster.Members {
			at, err := url.Parse(m.PeerURL)
			if err != nil {
				t.Fatal(err)
			}
			expected := fmt.Sprintf("http://%s.%s:%s", m.Name, domain, at.Port())
			if listed.Name == m.Name && (len(listed.PeerURLs) != 1 || listed.PeerURLs[0] != expected) {
				t.Errorf("%s is listed at %v, not at %s", m.Name, listed.PeerURLs, expected)
			}
		}
	}
	// They dial each other by these hosts, also when they start again and ask for no records.
	m := f.cluster.Members[0]
	m.Kill()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.connect(m).Get(ctx, "found"); err != nil {
		t.Fatal(err)
	}

	// Another service of the same domain, which has records of its own.
	blue := s.found(t, 1, "_etcd-server-blue._tcp", "--discovery-srv-name=blue")
	if list, err := blue.client.MemberList(ctx); err != nil || len(list.Members) != 1 {
		t.Fatalf("%v, %v", list, err)
	}

	// A member that no record names says so and leaves no directory behind.
	stray := blue.cluster.Members[0]
	stray.Kill()
	if err := os.RemoveAll(stray.DataDir); err != nil {
		t.Fatal(err)
	}
	stray.RemoveFlag("--discovery-srv-name=blue")
	blue.mustSayAndEnd(stray, "in SRV records")
	if _, err := os.Stat(stray.DataDir); !os.IsNotExist(err) {
		t.Errorf("it left a directory: %v", err)
	}
	stray.Kill()
}
