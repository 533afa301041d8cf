package attack

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stele.test/cluster"
)

// bothSchemes has a member serve clients and peers with TLS and in the clear, each on one port.
func bothSchemes(m *cluster.Member, _, _ string) error {
	secure := func(url string) string { return url + "," + strings.Replace(url, "http:", "https:", 1) }
	m.AddFlag("--listen-client-urls=" + secure(m.ClientURL))
	m.AddFlag("--listen-peer-urls=" + secure(m.PeerURL))
	return nil
}

// mostAtPeerURL is how many of the clients are at the peer URL at a time. Its connections that have not shown what they
// are have 114 places and those of HTTP 56, and who takes all of them locks others out: that port is private.
const mostAtPeerURL = 32

// TestHandshakeFloods has many clients do one handshake after the other, at the client URL and at the peer URL. Each
// costs the member a signature and a key exchange. Calls of others and questions to the peer URL are answered meanwhile.
func TestHandshakeFloods(t *testing.T) {
	config := cluster.Config{Args: []string{"--auto-tls", "--peer-auto-tls"}, Prepare: bothSchemes}
	memberUnderAttack(t, 64, config, func(at *target) {
		anyone := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
		peerAddress := strings.TrimPrefix(at.member.PeerURL, "http://")
		var flood sync.WaitGroup
		var failed atomic.Int64
		for n := range sized(32, 512) {
			address := at.address
			if n%2 == 1 && n < 2*mostAtPeerURL {
				address = peerAddress
			}
			flood.Go(func() {
				for range sized(32, 64) {
					connection, err := tls.Dial("tcp", address, anyone)
					if err != nil {
						failed.Add(1)
						continue
					}
					connection.Close()
				}
			})
		}
		over := make(chan struct{})
		go func() {
			flood.Wait()
			close(over)
		}()
		client := http.Client{Timeout: patience}
		for asked, isOver := 0, false; !isOver; asked++ {
			select {
			case <-over:
				isOver = true
			default:
			}
			response, err := client.Get(at.member.PeerURL + "/version")
			if err != nil {
				at.t.Fatalf("question %d to the peer URL: %v", asked, err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				at.t.Errorf("question %d to the peer URL: %s", asked, response.Status)
			}
			at.other.get()
		}
		if failed.Load() > 0 {
			at.t.Errorf("%d handshakes failed", failed.Load())
		}
	})
}
