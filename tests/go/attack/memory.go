// Package attack is what a hostile client can do below gRPC, with a server that must stay small and go on serving. Each
// attack is a test. In the gate it is short, and looks at how the server answers and how much memory it takes; with
// -long it is as large as it can be made here, and a well-behaved client measures its calls meanwhile:
//
//	go test ./attack -v -long -timeout 30m
package attack

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stele.test/cluster"
)

// residentBytes is the resident memory of a member's process, and the most it has been.
func residentBytes(t testing.TB, m *cluster.Member) (now, most int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.ProcessID()))
	if err != nil {
		t.Fatalf("the server has ended: %v\n%s", err, m.LogTail(20))
	}
	for _, line := range strings.Split(string(text), "\n") {
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

// resetPeakMemory sets the peak of a member's resident memory to what it is now.
func resetPeakMemory(t testing.TB, m *cluster.Member) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.ProcessID()), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// raiseFiles makes so many files possible in this process, and in those that it starts, or as many as it is permitted
// to; it returns how many that is.
func raiseFiles(files uint64) (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if limit.Cur >= files {
		return limit.Cur, nil
	}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: max(limit.Max, files)}) == nil {
		return files, nil
	}
	limit.Cur = limit.Max
	return limit.Cur, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
