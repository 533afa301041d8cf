package partition

import (
	"slices"
	"testing"
)

// sound is a history that everything must accept: two clients, one put of unknown outcome that was seen later.
func sound() []operation {
	return []operation{
		{0, request{kind: put, key: "k", value: "a"}, answer{known: true, header: 2}, 0, 10},
		{1, request{kind: get, key: "k"}, answer{known: true, header: 2, found: "a", revision: 2}, 11, 20},
		{0, request{kind: put, key: "k", value: "b"}, answer{}, 12, never},
		{1, request{kind: get, key: "k"}, answer{known: true, header: 2, found: "a", revision: 2}, 21, 30},
		{1, request{kind: swap, key: "k", value: "c", expected: "a"}, answer{known: true, header: 3, found: "b", revision: 3}, 31, 40},
		{0, request{kind: swap, key: "k", value: "d", expected: "b"}, answer{known: true, header: 4, found: "b", revision: 3, swapped: true}, 41, 50},
		{1, request{kind: remove, key: "k"}, answer{known: true, header: 5, found: "d", revision: 4}, 51, 60},
		{0, request{kind: get, key: "k"}, answer{known: true, header: 5}, 61, 70},
		{1, request{kind: put, key: "other", value: "e"}, answer{known: true, header: 6}, 71, 80},
	}
}

// events is what a watcher of that history receives.
func events() []change {
	return []change{{2, "k", "a"}, {3, "k", "b"}, {4, "k", "d"}, {5, "k", ""}, {6, "other", "e"}}
}

func TestASoundHistoryIsAccepted(t *testing.T) {
	for name, err := range map[string]error{
		"linearizable": linearizable(sound()), "ordered": ordered(sound()), "complete": complete(events(), sound()),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestViolationsAreSeen makes sure that the checks can fail.
func TestViolationsAreSeen(t *testing.T) {
	for name, spoil := range map[string]func(all []operation){
		"a stale read":                              func(all []operation) { all[7].answer = answer{known: true, header: 5, found: "d", revision: 4} },
		"a read of what was not yet written":        func(all []operation) { all[1].answer.found, all[1].answer.revision = "d", 4 },
		"a value never written":                     func(all []operation) { all[3].answer.found = "x" },
		"a lost write":                              func(all []operation) { all[1].answer.found = "" },
		"a swap of what was not there":              func(all []operation) { all[5].answer.found, all[5].answer.revision = "a", 2 },
		"a swap that should have been made":         func(all []operation) { all[5].answer.swapped = false },
		"a swap that should not have been made":     func(all []operation) { all[4].answer.swapped = true },
		"an unknown put that was seen, then not":    func(all []operation) { all[3].answer.found, all[3].answer.revision = "b", 3; all[4].answer.found = "a" },
		"the right value at another revision":       func(all []operation) { all[3].answer.revision = 1 },
		"a deletion of what was not there any more": func(all []operation) { all[6].answer.found, all[6].answer.revision = "b", 3 },
		"a value at a revision above the answer's":  func(all []operation) { all[6].answer.header = 3 },
	} {
		all := sound()
		spoil(all)
		if linearizable(all) == nil {
			t.Errorf("not seen: %s", name)
		}
	}
	for name, spoil := range map[string]func(all []operation){
		"two changes at one revision":            func(all []operation) { all[8].answer.header = 5 },
		"a revision that goes back":              func(all []operation) { all[8].answer.header = 1 },
		"a read at an older revision":            func(all []operation) { all[7].answer.header = 4 },
		"a change without a revision of its own": func(all []operation) { all[7].answer.header = 6 },
	} {
		all := sound()
		spoil(all)
		if ordered(all) == nil {
			t.Errorf("not seen: %s", name)
		}
	}
	for name, changes := range map[string][]change{
		"a gap":                           slices.Delete(events(), 1, 2),
		"an event sent twice":             slices.Insert(events(), 1, events()[0]),
		"events in another order":         {events()[1], events()[0], events()[2], events()[3], events()[4]},
		"an end before the last change":   events()[:4],
		"another value than acknowledged": {events()[0], events()[1], {4, "k", "x"}, events()[3], events()[4]},
		"another key than acknowledged":   {events()[0], events()[1], events()[2], events()[3], {6, "k", "e"}},
	} {
		if complete(changes, sound()) == nil {
			t.Errorf("not seen in a watch: %s", name)
		}
	}
}
