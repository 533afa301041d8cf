package follow

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

// slowLine listens for connections, and carries so many bytes a second of each to a server and back. It returns its
// address.
func slowLine(t *testing.T, server string, bytesPerSecond int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	carry := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		buffer := make([]byte, bytesPerSecond/50)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				time.Sleep(time.Duration(n) * time.Second / time.Duration(bytesPerSecond))
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go carry(behind, client)
			go carry(client, behind)
		}
	}()
	return listener.Addr().String()
}

// TestLargeValuesComeOverASlowLine copies values of which a few take longer than a call may take.
func TestLargeValuesComeOverASlowLine(t *testing.T) {
	if !*long {
		t.Skip("it waits for a slow line: -long")
	}
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	destination := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	from, to := connect(t, source), connect(t, destination)
	for n := range 10 {
		_, err := from.Put(patiently(t), fmt.Sprint("large/", n), strings.Repeat(fmt.Sprint(n), 1_000_000))
		check(t, err)
	}
	line := slowLine(t, strings.TrimPrefix(source.Endpoints()[0], "http://"), 400_000)
	f := startFrom(t, []string{line}, destination, "--until-caught-up", "--finish")
	select {
	case err := <-f.done:
		f.done <- err
	case <-time.After(5 * time.Minute):
		t.Fatal("the copy does not end")
	}
	mustEnd(t, f)
	compare(t, from, to, false)
}
