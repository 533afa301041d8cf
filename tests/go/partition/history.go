package partition

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does to its key.
type kind int

const (
	get kind = iota
	put
	remove
	swap
)

// request is what a client sent. Values are never sent twice; the empty one stands for a key that is not there.
type request struct {
	kind  kind
	key   string
	value string
	// expected is what a swap wants to find.
	expected string
}

// answer is the response, or the zero value if none came: then the operation may have taken effect at any later time, or
// never.
type answer struct {
	known bool
	// header is the revision of the whole answer.
	header int64
	// found is the value that was there, and revision the one it was written at.
	found    string
	revision int64
	// swapped tells whether a swap found what it expected.
	swapped bool
}

// operation is one request, when it was sent, and when it was answered.
type operation struct {
	client         int
	request        request
	answer         answer
	called, ending int64
}

// never is the ending of an operation of unknown outcome.
const never = math.MaxInt64

// changes reports whether an answered operation created a revision.
func (o operation) changes() bool {
	switch o.request.kind {
	case put:
		return o.answer.known
	case remove:
		return o.answer.known && o.answer.found != ""
	case swap:
		return o.answer.known && o.answer.swapped
	default:
		return false
	}
}

func (o operation) String() string {
	names := map[kind]string{get: "get", put: "put", remove: "delete", swap: "swap"}
	text := fmt.Sprintf("%v client %d %s %s", time.Duration(o.called), o.client, names[o.request.kind], o.request.key)
	if o.request.kind == swap {
		text += fmt.Sprintf(" %q for", o.request.expected)
	}
	if o.request.kind == put || o.request.kind == swap {
		text += fmt.Sprintf(" %q", o.request.value)
	}
	if !o.answer.known {
		return text + ": unknown"
	}
	a := o.answer
	return text + fmt.Sprintf(": revision %d, found %q of %d, %v until %v", a.header, a.found, a.revision, a.swapped, time.Duration(o.ending))
}

// content is the value of a key. The revision is 0 if no client knows it.
type content struct {
	value    string
	revision int64
}

// shows reports whether an answer is possible, and returns what is known after it.
func (c content) shows(a answer) (content, bool) {
	if c.value != a.found {
		return c, false
	}
	if c.value == "" {
		return c, true
	}
	fits := c.revision == 0 || c.revision == a.revision
	return content{c.value, a.revision}, fits
}

// apply is the sequential meaning of an operation on one key.
func (c content) apply(r request, a answer) (bool, content) {
	if !a.known {
		return true, c.guess(r)
	}
	seen, fits := c.shows(a)
	if !fits || a.header < seen.revision {
		return false, c
	}
	switch r.kind {
	case put:
		return a.header > seen.revision, content{r.value, a.header}
	case remove:
		return true, content{}
	case swap:
		if a.swapped != (seen.value == r.expected) {
			return false, c
		}
		if a.swapped {
			return a.header > seen.revision, content{r.value, a.header}
		}
	}
	return true, seen
}

// guess is the effect of an operation whose answer is unknown.
func (c content) guess(r request) content {
	switch {
	case r.kind == put, r.kind == swap && c.value == r.expected:
		return content{r.value, 0}
	case r.kind == remove:
		return content{}
	default:
		return c
	}
}

var model = porcupine.Model{
	Init: func() any { return content{} },
	Step: func(state, input, output any) (bool, any) {
		return state.(content).apply(input.(request), output.(answer))
	},
}

// checkTimeout bounds the search for one key's order.
const checkTimeout = 60 * time.Second

// linearizable checks the history of each key on its own.
func linearizable(all []operation) error {
	keys := map[string][]operation{}
	for _, o := range all {
		keys[o.request.key] = append(keys[o.request.key], o)
	}
	for key, history := range keys {
		var operations []porcupine.Operation
		for _, o := range relevant(history) {
			operations = append(operations, porcupine.Operation{
				ClientId: o.client, Input: o.request, Output: o.answer, Call: o.called, Return: o.ending,
			})
		}
		switch porcupine.CheckOperationsTimeout(model, operations, checkTimeout) {
		case porcupine.Illegal:
			return fmt.Errorf("the history of %s is not linearizable:%s", key, listed(history))
		case porcupine.Unknown:
			return fmt.Errorf("the history of %s could not be decided in %v:%s", key, checkTimeout, listed(history))
		}
	}
	return nil
}

// relevant leaves out operations that no answer shows: reads without an answer, and writes of unknown outcome whose value
// was never found. Every answer shows what it found, so a history has a linear order with them exactly if it has one
// without them.
func relevant(history []operation) []operation {
	found := map[string]bool{}
	for _, o := range history {
		found[o.answer.found] = true
	}
	var seen []operation
	for _, o := range history {
		writes := o.request.kind == put || o.request.kind == swap
		if o.answer.known || writes && found[o.request.value] || o.request.kind == remove {
			seen = append(seen, o)
		}
	}
	return seen
}

func listed(history []operation) string {
	text := ""
	for _, o := range history {
		text += "\n  " + o.String()
	}
	return text
}
