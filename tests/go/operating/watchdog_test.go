package operating

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stele.test/cluster"
)

const (
	// watchdogTime is what systemd allows from one sign of life to the next; a member gives two in it.
	watchdogTime = 400 * time.Millisecond
	// silence is several times as long.
	silence = 5 * watchdogTime
	// signOfLife is how a member tells the watchdog that it lives.
	signOfLife = "WATCHDOG=1"
	// allThreads makes wait4 see threads that are no children (__WALL).
	allThreads = 0x40000000
)

// TestTheWatchdogIsNotToldOfAMemberThatHangs stops the thread of the raft loop alone, as a debugger does. All others run
// on, and answer what needs no raft loop; but systemd receives no sign of life until the loop runs again.
func TestTheWatchdogIsNotToldOfAMemberThatHangs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	lives := make(chan struct{}, 1)
	go tellOfLife(manager, lives)
	environment := []string{"env", "NOTIFY_SOCKET=" + path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdogTime.Microseconds())}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: []cluster.Host{{Address: "127.0.0.1", Prefix: environment}}})
	m := c.Members[0]
	awaitLife(ctx, t, lives)

	// A thread is traced by a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := threadOf(t, m, "stele-raft")
	if err := syscall.PtraceAttach(thread); errors.Is(err, syscall.EPERM) {
		t.Skip("threads may not be stopped here: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	// However the test ends: a thread that stays traced would keep the member from its end.
	detach := sync.OnceValue(func() error { return syscall.PtraceDetach(thread) })
	defer detach()
	if _, err := syscall.Wait4(thread, nil, allThreads, nil); err != nil {
		t.Fatal(err)
	}
	// While the loop sleeps, others run its iterations. This wakes it; from then on everything waits for it. Should it
	// have been stopped while others wait for one of its locks, this is not answered.
	client := cluster.ClientOf(t, patience, m)
	waking, wakingEnds := context.WithTimeout(ctx, silence)
	_, _ = client.Defragment(waking, m.ClientURL)
	wakingEnds()
	for isSilent := false; !isSilent; {
		select {
		case <-lives:
		case <-time.After(silence):
			isSilent = true
		case <-ctx.Done():
			t.Fatal("signs of life of a member whose raft loop hangs")
		}
	}
	if status, body := fetch(m.ClientURL + "/version"); status != 200 {
		t.Errorf("/version beside a raft loop that hangs: %d %s", status, body)
	}
	if err := detach(); err != nil {
		t.Fatal(err)
	}
	awaitLife(ctx, t, lives)
	if _, err := client.Put(ctx, "after", "value"); err != nil {
		t.Errorf("a put when the loop runs again: %v", err)
	}
}

// tellOfLife takes what the socket receives as it comes, and tells of each sign of life unless one waits to be seen.
func tellOfLife(manager *net.UnixConn, lives chan<- struct{}) {
	message := make([]byte, 1024)
	for {
		count, err := manager.Read(message)
		if err != nil {
			return
		}
		if strings.Contains(string(message[:count]), signOfLife) {
			select {
			case lives <- struct{}{}:
			default:
			}
		}
	}
}

func awaitLife(ctx context.Context, t *testing.T, lives <-chan struct{}) {
	t.Helper()
	select {
	case <-lives:
	case <-ctx.Done():
		t.Fatal("no sign of life")
	}
}

// threadOf is the id of a member's thread of this name.
func threadOf(t *testing.T, m *cluster.Member, name string) int {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", m.ProcessID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range names {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == name {
			var id int
			if _, err := fmt.Sscan(filepath.Base(filepath.Dir(path)), &id); err == nil {
				return id
			}
		}
	}
	t.Fatalf("no thread is called %s", name)
	return 0
}
