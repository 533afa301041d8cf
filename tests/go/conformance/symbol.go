package main

import (
	"fmt"
	"regexp"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Requests are generated before anything runs, so that a shrunk sequence still means something: where a
// revision should be near the current or the compacted one, the request holds a symbol, and it is resolved to
// a number when the op runs. Symbols are numbers far from any that a test reaches otherwise.
const (
	currentSymbol   = int64(1) << 50
	compactedSymbol = int64(1) << 51
	symbolReach     = 1_000
	selfSymbol      = uint64(1) << 52
)

// nearCurrent is the symbol for the store's revision plus offset.
func nearCurrent(offset int64) int64 { return currentSymbol + offset }

// nearCompacted is the symbol for the compacted revision plus offset.
func nearCompacted(offset int64) int64 { return compactedSymbol + offset }

// revisions are what the judge knows of the reference's history.
type revisions struct {
	current   int64
	compacted int64
	// latestStart is the latest start revision a watcher was created at; it may lie ahead.
	latestStart int64
}

func (r revisions) resolve(n int64) int64 {
	switch {
	case near(n, currentSymbol):
		return r.current + n - currentSymbol
	case near(n, compactedSymbol):
		return r.compacted + n - compactedSymbol
	default:
		return n
	}
}

func near(n, symbol int64) bool { return n >= symbol-symbolReach && n <= symbol+symbolReach }

// resolved is a copy of a request with every symbol in it replaced.
func resolved[M proto.Message](request M, known revisions, self uint64) M {
	request = proto.Clone(request).(M)
	eachMessage(request.ProtoReflect(), func(m proto.Message) {
		fields := m.ProtoReflect()
		fields.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			switch {
			case field.IsList():
			case field.Kind() == protoreflect.Int64Kind:
				if n := known.resolve(value.Int()); n != value.Int() {
					fields.Set(field, protoreflect.ValueOfInt64(n))
				}
			case field.Kind() == protoreflect.Uint64Kind && value.Uint() == selfSymbol:
				fields.Set(field, protoreflect.ValueOfUint64(self))
			}
			return true
		})
	})
	return request
}

var largeNumber = regexp.MustCompile(`\d{16,}`)

// describe is a request as text, its symbols as words.
func describe(request proto.Message) string {
	return largeNumber.ReplaceAllStringFunc(answer{message: request}.String(), func(digits string) string {
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil:
			return digits
		case near(n, currentSymbol):
			return fmt.Sprintf("current%+d", n-currentSymbol)
		case near(n, compactedSymbol):
			return fmt.Sprintf("compacted%+d", n-compactedSymbol)
		case uint64(n) == selfSymbol:
			return "self"
		default:
			return digits
		}
	})
}
