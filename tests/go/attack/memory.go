// Package attack is what a hostile client can do below gRPC, with a server that must stay small and go on serving. Each
// attack is a test. In the gate it is short, and looks at how the server answers and how much memory it takes; with
// -long it is as large as it can be made here, and a well-behaved client, a process of its own, measures its calls
// meanwhile:
//
//	go test ./attack -v -long -timeout 30m
//
// For that the member is moved to one core and the client to another, where the attacker has what the client leaves. So
// what the client waits for is the member, as if the attacker were another machine; and the attacker is as strong as a
// core makes it.
package attack

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"stele.test/cluster"
)

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
