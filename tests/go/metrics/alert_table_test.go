package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// columns are those of the document's table of states.
var columns = []string{"state", "fires", "may fire", "may outlast it", "does not fire, although one may expect it", "then"}

// whom are the members for which an alert fires, as the document names them and as states do.
var whom = map[string]string{"": "", "(the member)": "@victim", "(the others)": "@others", "(all)": "@all"}

// TestTheStatesAreThoseOfTheDocument compares the table of docs/operating/monitoring.md with what the states demand, so that
// operators read there what TestAlertsFireWhenTheyShould has seen.
func TestTheStatesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	rows := tableOf(t, filepath.Join(repository(), "docs", "operating", "monitoring.md"))
	for at, state := range states {
		if at >= len(rows) || rows[at][0] != state.name {
			t.Fatalf("row %d of the table is not %q, but %q", at+1, state.name, rows[min(at, len(rows)-1)])
		}
		row := rows[at]
		for column, wanted := range map[int][]string{1: state.must, 2: state.may, 3: state.after} {
			said := alertsOf(t, row[column])
			if slices.Sort(said); !slices.Equal(said, slices.Sorted(slices.Values(wanted))) {
				t.Errorf("%s: the document says %q in the column %q, the test %q", state.name, said, columns[column], wanted)
			}
		}
		for _, alert := range alertsOf(t, row[4]) {
			fires := func(other string) bool { return other == alert || strings.HasPrefix(other, alert+"@") }
			if slices.ContainsFunc(slices.Concat(state.must, state.may), fires) {
				t.Errorf("%s: the document says that %s does not fire", state.name, alert)
			}
		}
		if strings.TrimSpace(row[5]) == "" && len(state.must) > 0 {
			t.Errorf("%s: the document does not say what to do", state.name)
		}
	}
	if len(rows) != len(states) {
		t.Errorf("the document has %d states, the test %d", len(rows), len(states))
	}
}

// tableOf are the rows of the document's table of states, without its head.
func tableOf(t *testing.T, document string) [][]string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+strings.Join(columns, " | ")+" |\n")
	if !found {
		t.Fatalf("%s has no table with the columns %q", document, columns)
	}
	var rows [][]string
	for _, line := range strings.Split(table, "\n")[1:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != len(columns) {
			t.Fatalf("%d cells in %s", len(cells), line)
		}
		for at, cell := range cells {
			cells[at] = strings.TrimSpace(cell)
		}
		rows = append(rows, cells)
	}
	return rows
}

// alertsOf are the alerts of a cell, with the members as states name them.
func alertsOf(t *testing.T, cell string) []string {
	t.Helper()
	if cell == "" {
		return nil
	}
	var alerts []string
	for _, part := range strings.Split(cell, ", ") {
		match := regexp.MustCompile("^`(etcd[A-Za-z]+)` ?(.*)$").FindStringSubmatch(part)
		if match == nil {
			t.Fatalf("%q is no alert", part)
		}
		members, known := whom[match[2]]
		if !known {
			t.Fatalf("%q: no members are called %q", part, match[2])
		}
		alerts = append(alerts, match[1]+members)
	}
	return alerts
}
