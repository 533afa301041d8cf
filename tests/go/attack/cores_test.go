package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where processes of a measurement run. A client's process that wakes takes the core from the attacker at once.
const (
	memberCore = 0
	clientCore = 1
	// anyCore stands for all of them.
	anyCore = -1
)

// Policies of the scheduler: with the other processes, or only while none of them wants the core.
const (
	normally = unix.SCHED_NORMAL
	whenIdle = unix.SCHED_IDLE
)

// schedule moves all threads of a process to a core, with a policy; those that they start follow.
func schedule(t *testing.T, process int, policy uint32, core int) {
	t.Helper()
	var cores unix.CPUSet
	if core == anyCore {
		cores.Fill()
	} else {
		cores.Set(core)
	}
	attributes := unix.SchedAttr{Size: uint32(unsafe.Sizeof(unix.SchedAttr{})), Policy: policy}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", process))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no threads: %v", process, err)
	}
	for _, thread := range threads {
		number, err := strconv.Atoi(filepath.Base(thread))
		if err != nil {
			t.Fatal(err)
		}
		moved := unix.SchedSetaffinity(number, &cores)
		if moved == nil {
			moved = unix.SchedSetAttr(number, &attributes, 0)
		}
		// A thread may have ended meanwhile.
		if _, err := os.Stat(thread); moved != nil && err == nil {
			t.Fatalf("thread %d of process %d cannot be moved: %v", number, process, moved)
		}
	}
}
