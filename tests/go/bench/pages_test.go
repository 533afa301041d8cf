package bench

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// newer are the options of the contract that the published program does not have: our pages have lines for them.
var newer = []string{"--report-perfdash", "--keys-only", "--prefix", "--paginate", "--stream"}

var (
	blanks = regexp.MustCompile(` {2,}`)
	option = regexp.MustCompile(`^ +(?:-h, )?(--[a-z-]+)`)
)

// page is a text without the lines of newer options, and without the width of its columns, which those change.
func page(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if found := option.FindStringSubmatch(line); found == nil || !slices.Contains(newer, found[1]) {
			lines = append(lines, blanks.ReplaceAllString(line, "  "))
		}
	}
	return strings.Join(lines, "")
}

// said is all that a line prints, with its exit code. No server is asked.
func said(t *testing.T, path, line string) string {
	t.Helper()
	out, errs, code := output(t, path, strings.Fields(line))
	return fmt.Sprintf("exit code %d\n%s----\n%s", code, page(out), page(errs))
}

// TestTheErrorsAreAlike compares what is printed of wrong lines, to both outputs.
func TestTheErrorsAreAlike(t *testing.T) {
	reference, tested := generators(t)
	for _, line := range []string{
		"nonsense", "putt", "pu", "--nonsense", "-Z", "put --nonsense", "put -Z", "put --total", "put --total=x",
		"put --compact-interval=5", "--conns=-1 put", "put --precise=x", "txn-mixed --rw-ratio=x", "put --total=99999999999999999999",
		"range", "range foo bar baz", "range foo --consistency=x", "txn-mixed foo --consistency=x", "stm --isolation=x",
		"mvcc --nonsense", "mvcc put --nonsense", "completion bash extra", "completion fish --nonsense", "help nonsense",
		"help nonsense more", "put --=x", "put ---x",
	} {
		want, got := said(t, reference, line), said(t, tested, line)
		if want != got {
			t.Errorf("%s\nbenchmark: %s\nstele:     %s", line, want, got)
		}
	}
}

// TestThePagesAreAlike compares the pages of all commands, in each way that they can be asked for.
func TestThePagesAreAlike(t *testing.T) {
	reference, tested := generators(t)
	for _, command := range []string{
		"", "completion", "help", "lease-keepalive", "mvcc", "mvcc put", "put", "range", "stm", "txn-mixed", "txn-put",
		"watch", "watch-get", "watch-latency",
	} {
		for _, line := range []string{command + " --help", "help " + command, "-h " + command} {
			if want, got := said(t, reference, line), said(t, tested, line); want != got {
				t.Errorf("%s\nbenchmark: %s\nstele:     %s", line, want, got)
			}
		}
	}
	for _, line := range []string{"", "mvcc", "mvcc nonsense", "completion nonsense", "help put nonsense"} {
		if want, got := said(t, reference, line), said(t, tested, line); want != got {
			t.Errorf("%q\nbenchmark: %s\nstele:     %s", line, want, got)
		}
	}
	if all := said(t, reference, "put --help") + said(t, reference, "range --help"); strings.Contains(all, "--report-perfdash") {
		t.Error("the published program has newer options: compare them")
	}
}
