package client_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"stele.test/cluster"
)

// TestOlderClients runs programs built with older versions of etcd's client: what a server has to accept changes with
// the gRPC library of each. That of v3.5.0 calls its server `#initially=[host:port]`, and all of them create watches
// without waiting for the answers, here 20,000 on one stream.
func TestOlderClients(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"client-3.5", "client-3.6"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			c := start(t, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			endpoints := strings.TrimPrefix(c.Endpoints()[0], "http://")
			output, err := exec.CommandContext(ctx, cluster.ToolPath(program), "-endpoints", endpoints).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
		})
	}
}
