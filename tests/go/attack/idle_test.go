package attack

import (
	"fmt"
	"net"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/pending"
	"stele.test/wire"
)

const (
	// perAddress is how many connections have the same local address: fewer than it has ports.
	perAddress = 20_000
	// mostPerConnection is resident memory of the server for a connection without a call.
	mostPerConnection = 8 << 10
	// mostPerFew is the same when there are few of them, as an allocator takes memory in large parts.
	mostPerFew = 16 << 10
)

// TestIdleConnections holds connections that have made one call each: 100,000 with -long, from several addresses. The
// hard limit of open files has to allow for that, here and in the server, or the process has to be allowed to raise it.
func TestIdleConnections(t *testing.T) {
	pending.Skip(t, *bin)
	count, most := sized(1000, 100_000), int64(sized(mostPerFew, mostPerConnection))
	if err := raiseFiles(uint64(count + 1000)); err != nil {
		t.Fatalf("cannot have %d files open: %v", count+1000, err)
	}
	limited := []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, 2*count+10_000), "sh"}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--log-level=error"}, Hosts: []cluster.Host{{Address: "127.0.0.1", Prefix: limited}}})
	other := newNeighbour(t, c.Endpoints())
	other.warmUp()
	before, _ := residentBytes(t, c.Members[0])
	held := make([]net.Conn, 0, count)
	defer func() {
		for _, conn := range held {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	greeting := append(wire.AppendSettings([]byte(wire.Preface)), status(1)...)
	for len(held) < count {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+len(held)/perAddress))}
		dialer := net.Dialer{LocalAddr: from, Timeout: patience}
		conn, err := dialer.Dial("tcp", wire.Address(c.Members[0].ClientURL))
		if err != nil {
			t.Fatalf("connection %d: %v", len(held), err)
		}
		held = append(held, conn)
		if err := callOnce(conn, greeting); err != nil {
			t.Fatalf("connection %d: %v", len(held), err)
		}
	}
	other.get()
	after, _ := residentBytes(t, c.Members[0])
	each := (after - before) / int64(count)
	t.Logf("%d connections take %d MiB, %d bytes each", count, (after-before)>>20, each)
	if each > most && cluster.IsStele(*bin) {
		t.Errorf("%d bytes each, more than %d", each, most)
	}
}

// callOnce sends a call and reads until its trailers: the frame that ends the stream.
func callOnce(conn net.Conn, call []byte) error {
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write(call); err != nil {
		return err
	}
	var unread []byte
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return err
		}
		unread = append(unread, buffer[:n]...)
		for len(unread) >= 9 {
			length := 9 + (int(unread[0])<<16 | int(unread[1])<<8 | int(unread[2]))
			if len(unread) < length {
				break
			}
			if wire.Type(unread[3]) == wire.Headers && unread[4]&wire.EndStream != 0 {
				return nil
			}
			unread = unread[length:]
		}
	}
}
