package attack

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// maxTaken is what a peer URL may take of a body that never ends: the two MiB that are read, and what the system
// buffers on both sides.
const maxTaken = 24 << 20

// TestBodiesWithoutEndOnPeerURLs sends requests to the peer URL whose bodies go on for as long as they are taken.
func TestBodiesWithoutEndOnPeerURLs(t *testing.T) {
	underAttack(t, 16, func(at *target) {
		address := strings.TrimPrefix(at.member.PeerURL, "http://")
		for _, request := range []string{
			"GET /members", "POST /members/promote/1", "GET /members/hashkv", "POST /raft", "POST /raft/snapshot",
			"GET /downgrade/enabled", "POST /nowhere",
		} {
			taken, status, err := endless(address, request)
			if err != nil {
				at.t.Errorf("%s: %v", request, err)
			}
			at.logf("%s: status %d after %d KiB", request, status, taken>>10)
		}
	})
}

// endless sends a request with a chunked body until the server takes no more; returns how much that was, and the status
// of the answer if there was one.
func endless(address, request string) (taken, status int, err error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, 0, err
	}
	answered := make(chan int, 1)
	go func() {
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	fmt.Fprintf(connection, "%s HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n", request, address)
	chunk := []byte("10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n")
	begun := time.Now()
	for taken < maxTaken {
		count, err := connection.Write(chunk)
		taken += count
		if err != nil {
			if time.Since(begun) >= patience {
				return taken, 0, fmt.Errorf("the connection stays open: %w", err)
			}
			return taken, <-answered, nil
		}
	}
	return taken, 0, fmt.Errorf("%d MiB of a body were taken", taken>>20)
}
