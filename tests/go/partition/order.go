package partition

import (
	"fmt"
	"slices"
)

// ordered checks what holds across keys: revisions follow real time. What is called after an answer has a revision no
// lower than that answer's, and a higher one if it changes something; and no two changes share one.
func ordered(all []operation) error {
	var known []operation
	for _, o := range all {
		if o.answer.known {
			known = append(known, o)
		}
	}
	owner := map[int64]operation{}
	for _, o := range known {
		if other, taken := owner[o.answer.header]; taken && o.changes() {
			return fmt.Errorf("two changes have one revision:\n  %v\n  %v", other, o)
		}
		if o.changes() {
			owner[o.answer.header] = o
		}
	}
	byCall, byEnding := slices.Clone(known), slices.Clone(known)
	slices.SortFunc(byCall, func(a, b operation) int { return int(a.called - b.called) })
	slices.SortFunc(byEnding, func(a, b operation) int { return int(a.ending - b.ending) })
	var newest operation
	for _, o := range byCall {
		for len(byEnding) > 0 && byEnding[0].ending < o.called {
			if byEnding[0].answer.header > newest.answer.header {
				newest = byEnding[0]
			}
			byEnding = byEnding[1:]
		}
		back := o.answer.header < newest.answer.header
		if back || o.changes() && o.answer.header == newest.answer.header {
			return fmt.Errorf("revisions do not follow real time:\n  %v\n  %v", newest, o)
		}
	}
	return nil
}
