package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// ResidentBytes is the resident memory of the member's process, and the most it has been.
func (m *Member) ResidentBytes(t testing.TB) (now, most int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.ProcessID()))
	if err != nil {
		t.Fatalf("%s has ended: %v\n%s", m.Name, err, m.LogTail(tailLines))
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kibibytes, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "VmRSS:":
			now = kibibytes << 10
		case "VmHWM:":
			most = kibibytes << 10
		}
	}
	return now, most
}

// MustTakeAtMost fails the test if the member's process has ever had more resident memory than this.
func (m *Member) MustTakeAtMost(t testing.TB, bytes int64) {
	t.Helper()
	_, most := m.ResidentBytes(t)
	t.Logf("%s has had %d MiB of memory", m.Name, most>>20)
	if most > bytes {
		t.Errorf("that are more than %d MiB", bytes>>20)
	}
}
