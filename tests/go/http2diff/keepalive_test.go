package main

import (
	"encoding/binary"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/wire"
)

// eventually bounds every wait for something that must happen.
const eventually = 60 * time.Second

// TestKeepaliveFlags starts both servers with short times for pings: a client that does not answer is closed, one that
// answers stays and may ping as often as it is permitted to, and one that pings more often is sent away.
func TestKeepaliveFlags(t *testing.T) {
	for name, server := range map[string]string{"etcd": cluster.EtcdPath(), "stele": *bin} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.ForTest(t, cluster.Config{Binary: server, Args: []string{
				"--grpc-keepalive-interval=1s", "--grpc-keepalive-timeout=10s", "--grpc-keepalive-min-time=1s",
			}})
			address := wire.Address(c.Members[0].ClientURL)
			silent := openWatch(t, address)
			patient := openWatch(t, address)
			answered := make(chan uint64, 100)
			go answerPings(patient, answered)
			// The server forgives two pings that come too early, not three.
			for number := range uint64(3) {
				time.Sleep(3 * time.Second)
				if err := patient.Send(wire.AppendPing(nil, 0, number)); err != nil {
					t.Fatal(err)
				}
				select {
				case <-answered:
				case <-time.After(eventually):
					t.Fatalf("ping %d is not answered", number)
				}
			}
			if pings, code, closed := untilClosed(silent); pings == 0 || !closed || code > 0 {
				t.Errorf("a silent client was sent %d pings and code %d; closed: %t", pings, code, closed)
			}
			hasty := openWatch(t, address)
			for number := range uint64(8) {
				_ = hasty.Send(wire.AppendPing(nil, 0, number))
			}
			if _, code, _ := untilClosed(hasty); code != wire.EnhanceYourCalm {
				t.Errorf("a client that pings too often was sent code %d", code)
			}
		})
	}
}

// openWatch begins a watch stream, without which pings are not permitted.
func openWatch(t *testing.T, address string) *wire.Conn {
	t.Helper()
	c, err := wire.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.SetDeadline(time.Now().Add(eventually))
	head := wire.Append(nil, wire.Headers, wire.EndHeaders, 1, wire.Block(wire.Request("/etcdserverpb.Watch/Watch")...))
	if err := c.Send(head); err != nil {
		t.Fatal(err)
	}
	return c
}

// answerPings answers the server's pings, and passes on its answers to ours.
func answerPings(c *wire.Conn, answered chan<- uint64) {
	for {
		f, err := c.Next()
		if err != nil {
			return
		}
		if f.Type != wire.Ping {
			continue
		}
		number := binary.BigEndian.Uint64(f.Payload)
		if f.Has(wire.Ack) {
			answered <- number
		} else if c.Send(wire.AppendPing(nil, wire.Ack, number)) != nil {
			return
		}
	}
}

// untilClosed reads until the connection is closed: how many pings the server sent, the code of its GOAWAY, and whether
// it closed in time.
func untilClosed(c *wire.Conn) (pings int, code uint32, closed bool) {
	for {
		f, err := c.Next()
		if err != nil {
			return pings, code, !isTimeout(err)
		}
		switch {
		case f.Type == wire.Ping && !f.Has(wire.Ack):
			pings++
		case f.Type == wire.GoAway:
			code = f.Code()
		}
	}
}

func isTimeout(err error) bool {
	timed, ok := err.(interface{ Timeout() bool })
	return ok && timed.Timeout()
}
