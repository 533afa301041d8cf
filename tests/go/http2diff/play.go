package main

import (
	"fmt"
	"net"
	"strings"
)

// pair is both servers.
type pair struct{ reference, tested *side }

// difference is an op at which the servers answered differently.
type difference struct {
	// at is the index of the op in its script.
	at                int
	op                op
	reference, tested string
}

func (d *difference) String() string {
	return fmt.Sprintf("op %d: %s\n  reference: %s\n  tested:    %s", d.at, d.op, indented(d.reference), indented(d.tested))
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n             ") }

// player plays scripts on connections of its own.
type player struct {
	pair
	// from is the local address of its connections, or nil.
	from net.IP
	// ops and connections count what was played.
	ops, connections int
	tally            tally
}

// play plays a script up to the first difference that is not known. An error means that a server cannot be reached.
func (p *player) play(ops []op) (*difference, error) {
	var reference, tested *connection
	closeBoth := func() {
		for _, c := range []*connection{reference, tested} {
			if c != nil {
				c.Close()
			}
		}
		reference, tested = nil, nil
	}
	defer closeBoth()
	var client *sender
	for i, o := range ops {
		if o.fresh {
			closeBoth()
		}
		if reference == nil {
			var err error
			if reference, err = p.pair.reference.open(p.from, !o.fresh); err != nil {
				return nil, err
			}
			if tested, err = p.pair.tested.open(p.from, !o.fresh); err != nil {
				return nil, err
			}
			client = newSender()
			p.connections++
		}
		s := o.sent(client)
		reference.begin(s)
		tested.begin(s)
		reference.settle(s)
		tested.settle(s)
		p.ops++
		want, got := reference.outcome(s), tested.outcome(s)
		p.tally.count(o, want)
		if want != got && !p.tally.known(o, want, got) {
			return &difference{at: i, op: o, reference: want, tested: got}, nil
		}
		if want != got || reference.end != "" || o.fresh || o.last {
			closeBoth()
		}
	}
	return nil, nil
}

// shrink looks for fewer ops that still make the difference at the last of them, whatever the difference is then.
func (p *player) shrink(ops []op, d *difference) ([]op, *difference) {
	ops = ops[:d.at+1]
	for i := len(ops) - 2; i >= 0; i-- {
		fewer := append(append([]op(nil), ops[:i]...), ops[i+1:]...)
		if again, err := p.play(fewer); err == nil && again != nil && again.at == len(fewer)-1 {
			ops, d = fewer, again
		}
	}
	return ops, d
}
