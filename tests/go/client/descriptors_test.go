package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

const (
	// fewDescriptors is a limit of open files far below the connections that the test opens.
	fewDescriptors = 160
	// comeAndGo connections are refused; each may leave 4 KiB behind, less than one buffer.
	comeAndGo      = 4000
	comeAndGoBytes = 16 << 20
	// untilClosed is far more than the server needs to close a connection that is beyond its share.
	untilClosed = 10 * time.Second
	// endlessCall is the head of a call of the JSON gateway whose body is never complete: its connection stays open.
	endlessCall = "POST /v3/kv/range HTTP/1.1\r\nHost: stele\r\nContent-Length: 2\r\n\r\n"
	// descriptorsMemory bounds a member that has more clients than files, and values of 200 MiB.
	descriptorsMemory = 200 << 20
)

// TestTooManyConnectionsLeaveTheStoreItsFiles holds more connections than the process may have open files, and writes
// and reads through one that was there before: values that fill several segments, which must be made meanwhile.
func TestTooManyConnectionsLeaveTheStoreItsFiles(t *testing.T) {
	if !cluster.IsStele(*bin) {
		t.Skip("etcd does not start with so few files")
	}
	limited := []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, fewDescriptors), "sh"}
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Size: 1, Hosts: []cluster.Host{{Address: "127.0.0.1", Prefix: limited}},
	})
	client := connect(t, c.Endpoints()...)
	ctx := patiently(t)
	putting(t)(client.Put(ctx, "first", "value"))

	address := strings.TrimPrefix(c.Endpoints()[0], "http://")
	var held []net.Conn
	for range 2 * fewDescriptors {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		// One that is refused may be closed already.
		_, _ = io.WriteString(connection, endlessCall)
		held = append(held, connection)
	}
	value := strings.Repeat("v", 1<<20)
	for i := range 200 {
		putting(t)(client.Put(ctx, fmt.Sprintf("large/%03d", i), value))
	}
	for i := range 200 {
		got := getting(t)(client.Get(ctx, fmt.Sprintf("large/%03d", i)))
		if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
			t.Fatalf("value %d is another", i)
		}
	}
	refusedHeld := 0
	for _, connection := range held {
		if isClosed(connection) {
			refusedHeld++
		}
	}
	if refusedHeld < fewDescriptors {
		t.Fatalf("%d of %d connections that were held were refused", refusedHeld, len(held))
	}
	before, _ := c.Members[0].ResidentBytes(t)
	for i := range comeAndGo {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		// The server closes it, or resets it: those that are held have all places.
		_ = connection.SetReadDeadline(time.Now().Add(untilClosed))
		if _, err := io.Copy(io.Discard, connection); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d beyond the share was not closed", i)
		}
		connection.Close()
	}
	if after, _ := c.Members[0].ResidentBytes(t); after-before > comeAndGoBytes {
		t.Errorf("%d connections that were refused have left %d MiB", comeAndGo, (after-before)>>20)
	}
	c.Members[0].MustTakeAtMost(t, descriptorsMemory)
	for _, connection := range held {
		connection.Close()
	}
	if refused := refusedConnections(ctx, t, c.Endpoints()[0]); refused < refusedHeld+comeAndGo {
		t.Fatalf("%d connections were refused, of those held %d, and %d came and went", refused, refusedHeld, comeAndGo)
	}
}

// isClosed is whether the server has closed a connection, on which it sends nothing else.
func isClosed(connection net.Conn) bool {
	_ = connection.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := connection.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

var refusedClients = regexp.MustCompile(`stele_refused_connections_total\{[^}]*kind="client"[^}]*\} (\d+)`)

// refusedConnections asks until a connection for the metrics is accepted.
func refusedConnections(ctx context.Context, t *testing.T, endpoint string) int {
	t.Helper()
	for ctx.Err() == nil {
		answer, err := http.Get(endpoint + "/metrics")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if found := refusedClients.FindSubmatch(text); err == nil && found != nil {
			count, _ := strconv.Atoi(string(found[1]))
			return count
		}
	}
	t.Fatal("the metrics were not read")
	return 0
}
