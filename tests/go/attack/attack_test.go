package attack

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
	"stele.test/wire"
)

var (
	bin  = flag.String("bin", cluster.StelePath(), "the server to test")
	long = flag.Bool("long", false, "as much of each attack as is possible here, and the latency of other calls meanwhile")
	// Elsewhere than on a quiet machine latencies say nothing, and memory still does.
	latency = flag.Bool("latency", true, "with -long, whether the latency of other calls is measured")
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

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
	// held are the connections of one repetition of the attack, said what was logged.
	held []*wire.Conn
	said map[string]bool
}

// underAttack starts a server, runs an attack and checks what is left: the server serves, and has not grown by more than
// the given MiB at any time. With -long another client must hardly notice.
func underAttack(t *testing.T, mebibytes int64, attack func(*target), args ...string) {
	t.Helper()
	memberUnderAttack(t, mebibytes, cluster.Config{Args: args}, attack)
}

// memberUnderAttack does the same with a member of this configuration.
func memberUnderAttack(t *testing.T, mebibytes int64, config cluster.Config, attack func(*target)) {
	t.Helper()
	config.Binary, config.Args = *bin, append([]string{"--log-level=error"}, config.Args...)
	c := cluster.ForTest(t, config)
	at := &target{t: t, member: c.Members[0], address: wire.Address(c.Members[0].ClientURL), said: map[string]bool{}}
	at.other = newNeighbour(t, c.Endpoints())
	at.other.warmUp()
	at.before, _ = at.member.ResidentBytes(t)
	if *long && *latency {
		// The attack is repeated, and the connections of the one before may not be gone yet.
		mebibytes *= 2
	}
	at.other.during(at.member.ProcessID(), func() {
		attack(at)
		at.release()
	})
	_, most := at.member.ResidentBytes(t)
	t.Logf("grew by %.1f MiB at most", float64(most-at.before)/(1<<20))
	if most-at.before > mebibytes<<20 && cluster.IsStele(*bin) {
		t.Errorf("grew from %d to %d KiB, by more than %d MiB", at.before>>10, most>>10, mebibytes)
	}
	at.other.get()
}

// resetBaseline takes the memory that the server has now as that before the attack.
func (at *target) resetBaseline() {
	at.t.Helper()
	resetPeakMemory(at.t, at.member)
	at.before, _ = at.member.ResidentBytes(at.t)
}

// open connects and greets.
func (at *target) open(settings ...uint32) *wire.Conn {
	at.t.Helper()
	c, err := wire.Open(at.address, settings...)
	if err != nil {
		at.t.Fatal(err)
	}
	at.held = append(at.held, c)
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// release closes the connections of a repetition.
func (at *target) release() {
	for _, c := range at.held {
		c.Close()
	}
	at.held = nil
}

// logf logs what no earlier repetition has said.
func (at *target) logf(format string, a ...any) {
	at.t.Helper()
	if text := fmt.Sprintf(format, a...); !at.said[text] {
		at.said[text] = true
		at.t.Log(text)
	}
}

// verdict is how a server ended a connection.
type verdict struct {
	goAway bool
	code   uint32
	text   string
	closed bool
	// goesOn means that it has not, and has answered the last ping.
	goesOn bool
	// late means neither, in time.
	late bool
}

// lastPing is the content of the ping that asks whether a connection goes on.
const lastPing = 0x6c617374

// judged reads until the server ends the connection, or answers the last ping.
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
		case f.Type == wire.Ping && f.Has(wire.Ack) && binary.BigEndian.Uint64(f.Payload) == lastPing:
			return verdict{goesOn: true}
		}
	}
}

// mustEnd reads on until the server ends the connection, for which there must be a limit.
func (at *target) mustEnd(c *wire.Conn) {
	at.t.Helper()
	v := judged(c)
	at.logf("ended: %+v", v)
	if v.late && cluster.IsStele(*bin) {
		at.t.Errorf("the connection was not ended")
	}
}

// flood writes the same bytes so often; see floodOf.
func (at *target) flood(c *wire.Conn, data []byte, times int) {
	at.t.Helper()
	at.floodOf(c, func(int) []byte { return data }, times)
}

// floodOf writes what data makes for each of so many times, or until the server has ended the connection. Answers are read meanwhile, and
// for a while after, until the server has said that it goes on: it has to, unless it says why not.
func (at *target) floodOf(c *wire.Conn, data func(int) []byte, times int) {
	at.t.Helper()
	ended := make(chan verdict, 1)
	go func() { ended <- judged(c) }()
	sent := 0
	for sent < times {
		if err := c.Send(data(sent)); err != nil {
			break
		}
		sent++
	}
	at.logf("%d of %d times taken", sent, times)
	if sent == times {
		_ = c.Send(wire.AppendPing(nil, 0, lastPing))
	}
	at.judge(<-ended)
}

// judge checks that a server that has ended a connection has said why, or could not.
func (at *target) judge(v verdict) {
	at.t.Helper()
	at.logf("%+v", v)
	if v.late {
		at.t.Error("the server neither goes on nor ends the connection")
	}
	if v.goAway && v.code != wire.EnhanceYourCalm && v.code != wire.FlowControlError {
		at.t.Errorf("the server hung up with code %d", v.code)
	}
}

// neighbour is another client of the server, which behaves.
type neighbour struct {
	t         *testing.T
	endpoints []string
	client    *clientv3.Client
}

func newNeighbour(t *testing.T, endpoints []string) *neighbour {
	client, err := behavingClient(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &neighbour{t: t, endpoints: endpoints, client: client}
}

func (n *neighbour) get() {
	n.t.Helper()
	if err := getOf(n.client); err != nil {
		n.t.Fatal(err)
	}
}

func behavingClient(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()})
}

func getOf(client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := client.Get(ctx, "key"); err != nil {
		return fmt.Errorf("another client's get: %w", err)
	}
	return nil
}

// warmUpCalls are those after which a server has made the allocations of its first calls.
const warmUpCalls = 200

// warmUp makes the server's allocations of its first calls.
func (n *neighbour) warmUp() {
	for range warmUpCalls {
		n.get()
	}
}
