package main

import (
	"regexp"
	"strings"
)

// known is a difference that is meant to be, with its reason. Each has a line in docs/compat-rpcs.md.
type known struct {
	name, reason string
	// tag is what an op must have; none means any op.
	tag string
	// reference and tested match what the servers did, as a whole.
	reference, tested *regexp.Regexp
}

// outcomes of connections and streams, for the table.
const (
	isClosed = `closed`
	isGoAway = `goaway [1-9]\d* .*`
)

func knownAs(name, tag, reference, tested, reason string) known {
	whole := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?s)^(?:` + pattern + `)$`) }
	return known{name: name, tag: tag, reason: reason, reference: whole(reference), tested: whole(tested)}
}

// differences is the table of known differences.
var differences = []known{
	knownAs("says why", "", isClosed, isGoAway,
		"etcd closes the connection without a GOAWAY frame; Stele says in one what was wrong"),
}

// tally counts outcomes.
type tally struct {
	// differ counts known differences by name, outcomes the outcomes of the reference by kind.
	differ, outcomes map[string]int
}

func newTally() tally {
	return tally{differ: map[string]int{}, outcomes: map[string]int{}}
}

// known finds the line of the table that explains a difference.
func (t tally) known(o op, reference, tested string) *known {
	for i := range differences {
		k := &differences[i]
		if (k.tag == "" || o.has(k.tag)) && k.reference.MatchString(reference) && k.tested.MatchString(tested) {
			t.differ[k.name]++
			return k
		}
	}
	return nil
}

// count counts an outcome of the reference.
func (t tally) count(o op, outcome string) {
	if strings.HasPrefix(outcome, "no answer") {
		// Such an op costs much time, so it should say less than nothing: it should not be made.
		t.outcomes["no answer to "+o.String()]++
	}
	for _, line := range strings.Split(outcome, "\n") {
		t.outcomes[line]++
	}
}

func (t tally) add(other tally) {
	for name, count := range other.differ {
		t.differ[name] += count
	}
	for outcome, count := range other.outcomes {
		t.outcomes[outcome] += count
	}
}
