package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Members come back on the port they had, so ports are taken from below the range the kernel hands out to
// outgoing connections: there, the connection of another process could sit on the port of a member that is down.
const (
	firstPort    = 10_000
	lastPort     = 32_000
	portAttempts = 1_000
)

// freePorts returns n different loopback ports that are unused at the moment.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for attempt := 0; len(ports) < n; attempt++ {
		if attempt == portAttempts {
			return nil, fmt.Errorf("found only %d of %d free loopback ports in %d attempts", len(ports), n, attempt)
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
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
