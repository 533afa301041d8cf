// Package overload brings members to each of their limits: more requests than they can answer, slow and full disks,
// clients that take too much, followers that lag. They must stay small, say what to do, keep their leader, and recover
// without a restart. docs/operating/limits.md has a table of what happens at each limit, with the tests.
package overload

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

const (
	// patience bounds every wait for something that must happen.
	patience     = 60 * time.Second
	pollInterval = 10 * time.Millisecond
	// tooMany is the error of a refused request, as etcd has it.
	tooMany = "etcdserver: too many requests"
	// pushback is the trailer with the milliseconds after which a client may come again.
	pushback = "grpc-retry-pushback-ms"
	// maxHint is the longest hint: five seconds and half of that.
	maxHint = 7500 * time.Millisecond
)

// patiently is the context of everything that a test waits for.
func patiently(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// until asks again and again, until the answer is yes.
func until(ctx context.Context, t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for !isSo() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// connect opens a connection to a member, from a loopback address of its own if one is given.
func connect(t *testing.T, m *cluster.Member, from string) *grpc.ClientConn {
	t.Helper()
	dialer := net.Dialer{}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(m.ClientURL, "http://"), grpc.WithDisableRetry(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// refusal is the hint of a refused call; an error if it was not refused as it should be.
func refusal(err error, trailer metadata.MD) (time.Duration, error) {
	if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != tooMany {
		return 0, fmt.Errorf("%v, instead of %q", err, tooMany)
	}
	text := trailer.Get(pushback)
	if len(text) != 1 {
		return 0, fmt.Errorf("trailers %v have not one %s", trailer, pushback)
	}
	milliseconds, err := strconv.Atoi(text[0])
	hint := time.Duration(milliseconds) * time.Millisecond
	if err != nil || hint <= 0 || hint > maxHint {
		return 0, fmt.Errorf("%s is %q", pushback, text[0])
	}
	return hint, nil
}

// values are what a member's metrics say: the sum of all series that begin so, each.
func values(ctx context.Context, t *testing.T, m *cluster.Member, series ...string) []float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ClientURL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]float64, len(series))
	for line := range strings.Lines(string(text)) {
		for at, begin := range series {
			if strings.HasPrefix(line, begin) {
				number, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
				if err != nil {
					t.Fatal(err)
				}
				sums[at] += number
			}
		}
	}
	return sums
}

// leader is the member that leads.
func leader(ctx context.Context, t *testing.T, c *cluster.Cluster) *cluster.Member {
	t.Helper()
	var leads *cluster.Member
	until(ctx, t, "a leader", func() bool {
		for _, m := range c.Members {
			if values(ctx, t, m, "etcd_server_is_leader ")[0] == 1 {
				leads = m
			}
		}
		return leads != nil
	})
	return leads
}

// leaderChanges are those that each member has seen.
func leaderChanges(ctx context.Context, t *testing.T, c *cluster.Cluster) []float64 {
	t.Helper()
	var changes []float64
	for _, m := range c.Members {
		changes = append(changes, values(ctx, t, m, "etcd_server_leader_changes_seen_total ")...)
	}
	return changes
}
