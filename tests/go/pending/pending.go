// Package pending is the one list of what the tested server does not do yet, though the tests ask for it: what waits
// for its own HTTP/2 instead of the `h2` library. When that is there, the package and its callers are deleted.
package pending

import (
	"testing"

	"stele.test/cluster"
)

// OwnHTTP2 says that the server has its own HTTP/2.
const OwnHTTP2 = false

// tests are the names of tests that a server on the `h2` library fails, and why.
var tests = map[string]string{
	"TestGo/client_compressed_unary":     "requests with gzip are refused",
	"TestGo/special_status_message":      "the library refuses a path that is no URI",
	"TestIdleConnections":                "a connection takes 25 KiB",
	"TestOlderClients/client-3.5":        "the library refuses its :authority",
	"TestOtherLanguages":                 "the library refuses the :authority of a list, and requests with gzip are refused",
	"TestTheSameBytesHaveTheSameOutcome": "the library refuses much that etcd serves",
}

// Skip skips a test that waits for the server's own HTTP/2. A server that is not Stele is always tested.
func Skip(t *testing.T, binary string) {
	t.Helper()
	if reason, found := tests[t.Name()]; found && !OwnHTTP2 && cluster.IsStele(binary) {
		t.Skipf("until the server's own HTTP/2: %s", reason)
	}
}
