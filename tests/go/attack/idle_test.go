package attack

import (
	"net"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/wire"
)

const (
	// perAddress is how many connections have the same local address: fewer than it has ports.
	perAddress = 20_000
	// mostPerConnection is resident memory of the server for a connection without a call.
	mostPerConnection = 8 << 10
	// mostPerFew is the same when there are few of them, as an allocator takes memory in large parts.
	mostPerFew = 11 << 10
)

// TestIdleConnections holds connections that have made one call each: with -long 100,000 from several addresses, or as
// many as the limit of open files permits. Another client must hardly notice that they are opened, nor that they are
// there.
func TestIdleConnections(t *testing.T) {
	count, most := sized(1000, 100_000), int64(sized(mostPerFew, mostPerConnection))
	// Stele keeps some of its files for values and peers.
	files, err := raiseFiles(uint64(count)*4/3 + 1000)
	if err != nil {
		t.Fatal(err)
	}
	if possible := int(files-1000) * 3 / 4; possible < count {
		t.Logf("with %d files no more than %d connections are possible here", files, possible)
		count = possible
	}
	config := cluster.Config{Binary: *bin, Args: []string{"--log-level=error"}}
	c := cluster.ForTest(t, config)
	other := newNeighbour(t, c.Endpoints())
	other.warmUp()
	before, _ := c.Members[0].ResidentBytes(t)
	held := make([]net.Conn, 0, count)
	defer func() {
		for _, conn := range held {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	greeting := append(wire.AppendSettings([]byte(wire.Preface)), status(1)...)
	other.during(c.Members[0].ProcessID(), func() {
		if len(held) == count {
			// What is left of the time shows what it costs that they are there.
			time.Sleep(interval)
		}
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
	})
	other.get()
	after, _ := c.Members[0].ResidentBytes(t)
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
