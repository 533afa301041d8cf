package attack

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
	"stele.test/pending"
	"stele.test/wire"
)

var (
	bin  = flag.String("bin", cluster.StelePath(), "the server to test")
	long = flag.Bool("long", false, "as much of each attack as is possible here, and the latency of other calls meanwhile")
)

// patience bounds every wait for something that must happen.
const patience = 30 * time.Second

// sized is a number of the gate, or of a long run.
func sized(gate, inLong int) int {
	if *long {
		return inLong
	}
	return gate
}

// target is a server under attack.
type target struct {
	t       *testing.T
	member  *cluster.Member
	address string
	// before is the resident memory before the attack.
	before int64
	other  *neighbour
}

// besiege starts a server, runs an attack and checks what is left: the server serves, and has not grown by more than
// the given MiB at any time. With -long another client must hardly notice.
func besiege(t *testing.T, mebibytes int64, attack func(*target), args ...string) {
	t.Helper()
	pending.Skip(t, *bin)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: append([]string{"--log-level=error"}, args...)})
	at := &target{t: t, member: c.Members[0], address: wire.Address(c.Members[0].ClientURL)}
	at.other = newNeighbour(t, c.Endpoints())
	at.other.warmUp()
	at.before, _ = residentBytes(t, at.member)
	at.other.during(func() { attack(at) })
	_, most := residentBytes(t, at.member)
	t.Logf("grew by %.1f MiB at most", float64(most-at.before)/(1<<20))
	if most-at.before > mebibytes<<20 && cluster.IsStele(*bin) {
		t.Errorf("grew from %d to %d KiB, by more than %d MiB", at.before>>10, most>>10, mebibytes)
	}
	at.other.get()
}

// open connects and greets.
func (at *target) open(settings ...uint32) *wire.Conn {
	at.t.Helper()
	c, err := wire.Open(at.address, settings...)
	if err != nil {
		at.t.Fatal(err)
	}
	at.t.Cleanup(c.Close)
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// verdict is how a server ended a connection.
type verdict struct {
	goAway bool
	code   uint32
	text   string
	closed bool
	// late means that it did not, in time.
	late bool
}

// judged reads until the server ends the connection.
func judged(c *wire.Conn) verdict {
	for {
		f, err := c.Next()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return verdict{late: true}
		case err != nil:
			return verdict{closed: true}
		case f.Type == wire.GoAway && f.Code() != wire.NoError:
			return verdict{goAway: true, code: f.Code(), text: string(f.Payload[8:])}
		}
	}
}

// mustEnd reads on until the server ends the connection, for which there must be a limit.
func (at *target) mustEnd(c *wire.Conn) {
	at.t.Helper()
	v := judged(c)
	at.t.Logf("ended: %+v", v)
	if v.late && cluster.IsStele(*bin) {
		at.t.Errorf("the connection was not ended")
	}
}

// flood writes the same bytes so often, or until the server has ended the connection. Answers are read meanwhile.
func flood(c *wire.Conn, data []byte, times int) (sent int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := c.Next(); err != nil {
				return
			}
		}
	}()
	for sent < times {
		if err := c.Send(data); err != nil {
			break
		}
		sent++
	}
	// The reader ends with the connection or with this deadline.
	c.SetDeadline(time.Now())
	<-done
	return sent
}

// isGone says whether an error of a read or write means that the peer has ended the connection.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// neighbour is another client of the server, which behaves.
type neighbour struct {
	t      *testing.T
	client *clientv3.Client
}

func newNeighbour(t *testing.T, endpoints []string) *neighbour {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &neighbour{t: t, client: client}
}

func (n *neighbour) get() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := n.client.Get(ctx, "key"); err != nil {
		n.t.Fatalf("another client's get: %v", err)
	}
}

// warmUp makes the server's allocations of its first calls.
func (n *neighbour) warmUp() {
	for range 200 {
		n.get()
	}
}
