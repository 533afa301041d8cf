package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Members come back on the port they had, so ports are taken from below the range the kernel hands out to
// outgoing connections: there, the connection of another process could sit on the port of a member that is down.
const (
	firstPort    = 10_000
	lastPort     = 32_000
	portAttempts = 1_000
)

// reserved keeps the locked files of the ports that this process has taken, which unlocks them at its end.
var reserved struct {
	sync.Mutex
	files []*os.File
}

// reserve takes a port for this process. Tests of other packages run at the same time, and the port of a member that
// is down, or has not started yet, looks free to them.
func reserve(port int) bool {
	dir := filepath.Join(os.TempDir(), "stele-test-ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false
	}
	file, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(port)), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return false
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		file.Close()
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.files = append(reserved.files, file)
	return true
}

// FreePorts returns n different loopback ports that are unused, and that no other test takes while this process runs.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for attempt := 0; len(ports) < n; attempt++ {
		if attempt == portAttempts {
			return nil, fmt.Errorf("found only %d of %d free loopback ports in %d attempts", len(ports), n, attempt)
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !reserve(port) {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		// Held until all are found, so that none is chosen twice.
		defer listener.Close()
		ports = append(ports, port)
	}
	return ports, nil
}
