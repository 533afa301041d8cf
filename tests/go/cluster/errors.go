package cluster

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// maxErrorsTold bounds the lines of one member that a test prints.
const maxErrorsTold = 5

// removed is what a member logs as an error whenever it is removed, which every test may do: it ends, and says why.
const removed = "has been permanently removed from the cluster"

// AllowErrors lets the logs of the members have lines of the level error that contain one of these texts. A test that
// provokes errors names them; all others fail if a member logs one, as nothing that is normal is an error.
func (c *Cluster) AllowErrors(texts ...string) { c.allowed = append(c.allowed, texts...) }

// mustHaveNoErrors fails a test whose members have logged errors that it does not allow.
func (c *Cluster) mustHaveNoErrors(t testing.TB) {
	t.Helper()
	for _, m := range c.Members {
		// What another server calls an error is its own affair.
		if !IsStele(m.binary) {
			continue
		}
		lines, err := m.errorLines(append(c.allowed, removed))
		if err != nil {
			t.Errorf("the log of %s: %v", m.Name, err)
		}
		for _, line := range lines[:min(len(lines), maxErrorsTold)] {
			t.Errorf("%s logged an error that the test does not allow: %s", m.Name, line)
		}
	}
}

// errorLines are the lines of the level error in all runs of a member that contain none of the texts.
func (m *Member) errorLines(allowed []string) (lines []string, err error) {
	log, err := os.Open(m.logPath)
	if errors.Is(err, fs.ErrNotExist) {
		// It never ran.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for reader := bufio.NewReader(log); ; {
		line, err := reader.ReadString('\n')
		if isError(line) && !slices.ContainsFunc(allowed, func(text string) bool { return strings.Contains(line, text) }) {
			lines = append(lines, strings.TrimSpace(line))
		}
		if err != nil {
			return lines, nil
		}
	}
}

// isError says whether a line of a log has the level error. Members that write to files write JSON.
func isError(line string) bool {
	return strings.HasPrefix(line, `{"level":"error"`)
}
