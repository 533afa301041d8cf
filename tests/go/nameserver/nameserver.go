// Package nameserver is a name server for the tests of others, and where programs run whose resolver asks it:
//
//	nameserver.Need(t)
//	s := nameserver.Start(t)
//	s.Add(t, "_etcd-server._tcp", "m1", "http://127.0.0.1:2380")
//	host := s.Asking(t)
package nameserver

import (
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

// Domain is where the records of a test are. It is reserved for tests.
const Domain = "stele.test"

// Server answers questions for the records of one domain: hosts are addresses of this machine.
type Server struct {
	conn net.PacketConn

	mu sync.Mutex
	// services are the members of each service, such as `_etcd-server._tcp`.
	services map[string][]srvRecord
}

type srvRecord struct {
	host string
	port uint16
}

// Start serves at the usual port, for no resolver's configuration can name another one. The address is of
// this process alone.
func Start(t testing.TB) *Server {
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
	s := &Server{conn: conn, services: map[string][]srvRecord{}}
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

// Add names a host at the port of a URL as one of a service. Its name in the domain leads to 127.0.0.1.
func (s *Server) Add(t testing.TB, service, host, at string) {
	t.Helper()
	parsed, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(parsed.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.services[service] = append(s.services[service], srvRecord{host: host, port: uint16(port)})
}

func (s *Server) serve() {
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
func (s *Server) answers(question dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode) {
	name := strings.TrimSuffix(strings.ToLower(question.Name.String()), ".")
	first, isOurs := strings.CutSuffix(name, "."+Domain)
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
				target := dnsmessage.MustNewName(m.host + "." + Domain + ".")
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

// Asking is where members run whose resolver asks the server: in a mount namespace with a configuration of its own.
func (s *Server) Asking(t testing.TB) cluster.Host {
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

// Need skips a test where no mount namespace can be made.
func Need(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes the mount namespace, and listens at the port of a name server, that it needs")
	}
	try := exec.Command("unshare", "--mount", "sh", "-c", "mount --bind /etc/resolv.conf /etc/resolv.conf")
	if output, err := try.CombinedOutput(); err != nil {
		t.Skipf("no mount namespace can be made here: %v: %s", err, output)
	}
}
