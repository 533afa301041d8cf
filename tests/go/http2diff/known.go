package main

import (
	"regexp"
	"slices"
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

// Outcomes, for the table.
const (
	isClosed = `closed`
	isGoAway = `goaway (1|3|5|6|9|11) .*`
	goesOn   = `goes on`
	answered = `(headers|reset [1-9]|goaway [1-9]).*`
	anyAtAll = `.*`
)

func knownAs(name, tag, reference, tested, reason string) known {
	whole := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?s)^(?:` + pattern + `)$`) }
	return known{name: name, tag: tag, reason: reason, reference: whole(reference), tested: whole(tested)}
}

// differences is the table of known differences.
var differences = []known{
	knownAs("says why", "", isClosed, isGoAway,
		"etcd closes the connection without a GOAWAY frame; Stele says in one what was wrong"),
	knownAs("plain HTTP", "content-type", anyAtAll, `headers .*access-control-allow-origin.*|reset 1`,
		"what does not say that it is gRPC is served as HTTP, as on HTTP/1; etcd without TLS answers it as gRPC"),
	knownAs("metadata is not decoded", "", `headers only .*malformed binary metadata .*`, answered,
		"no method of etcd takes metadata in base64, so Stele does not read it"),
	knownAs("trailers of a request", "second-headers", `goaway 1 "received an illegal stream id"|reset 1`, answered,
		"trailers are part of HTTP, and only end a request"),
	knownAs("data after the end", "after-end", `headers only .*|reset 1`, `reset 5`,
		"RFC 9113, section 5.1: the stream is reset, also if it was refused before"),
	knownAs("fields of another type", "undecodable", `headers .*`, `headers .*grpc: (error unmarshalling request|failed to unmarshal the received message).*`,
		"a field with another wire type than the message's is unknown to Go's protobuf, and an error to ours"),
	knownAs("PRIORITY_UPDATE", "priority-update", isClosed, goesOn,
		"Stele has no priorities, so this frame is one of the unknown ones, which are ignored"),
	knownAs("ids of streams", "", `goaway 1 "received an illegal stream id"`, isGoAway, "the text is ours"),
	knownAs("streams that were never begun", "idle", goesOn, isGoAway,
		"RFC 9113, section 5.1: such frames end a connection; no client sends them"),
	knownAs("windows past 2^31 - 1", "bad-window", goesOn, `goaway 3 .*`, "RFC 9113, section 6.9.1"),
	knownAs("settings out of range", "bad-settings", goesOn, isGoAway, "RFC 9113, section 6.5.2"),
	knownAs("pushed by a client", "push-promise", goesOn, isGoAway, "RFC 9113, section 8.4: a client cannot push"),
	knownAs("long texts", "", `headers only .*grpc-message=[^;]{1000}[^;]{1000}[^;]{1000}[^;]{1000}.*`, `headers only .*grpc-message=[^;]{1000}[^;]{1000}[^;]{1000}[^;]{1000}.*`,
		"Stele cuts the text of a failure, which repeats what the client has sent, at 4 KiB"),
	knownAs("more headers behind a wrong one", "", isClosed, `reset 1`,
		"etcd's library gives up when CONTINUATION follows; the rest is no less readable"),
}

// tally counts outcomes.
type tally struct {
	// differ counts known differences by name, outcomes the outcomes of the reference by kind.
	differ, outcomes map[string]int
}

// newTally begins with all lines of the tables, so that one that is not needed any more shows.
func newTally() tally {
	t := tally{differ: map[string]int{}, outcomes: map[string]int{}}
	for _, k := range slices.Concat(differences, waiting) {
		t.differ[k.name] = 0
	}
	return t
}

// known says whether a line of the tables explains a difference, and counts it.
func (t tally) known(o op, reference, tested string) bool {
	for _, k := range slices.Concat(differences, waiting) {
		if (k.tag == "" || o.has(k.tag)) && k.reference.MatchString(reference) && k.tested.MatchString(tested) {
			t.differ[k.name]++
			return true
		}
	}
	return false
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
