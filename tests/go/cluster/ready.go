package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// pollInterval is how often a member is asked again; it only decides how soon a test notices.
const pollInterval = 20 * time.Millisecond

// askTimeout bounds one question, so that a frozen member cannot hold the poll.
const askTimeout = 2 * time.Second

// WaitReady returns when the member serves linearizable requests and has decided on a cluster version, which
// some RPCs need. It fails when the process ends or the context does.
func (m *Member) WaitReady(ctx context.Context) error {
	var last error
	for {
		p := m.current()
		if p == nil {
			return fmt.Errorf("%s does not run", m.Name)
		}
		if last = m.ready(ctx); last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready: %v\n%s", m.Name, p.err, m.LogTail(tailLines))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (last answer: %v)", m.Name, ctx.Err(), last)
		case <-time.After(pollInterval):
		}
	}
}

// ready asks once. /health is a linearizable read in etcd, so it is true only with a leader.
func (m *Member) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var health struct{ Health, Reason string }
	if err := m.get(ctx, "/health", &health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("unhealthy: %s", health.Reason)
	}
	var version struct{ Etcdcluster string }
	if err := m.get(ctx, "/version", &version); err != nil {
		return err
	}
	if version.Etcdcluster == "" || version.Etcdcluster == "not_decided" {
		return fmt.Errorf("cluster version is not decided")
	}
	return nil
}

// get fetches a path of the client URL and reads the JSON it answers, whatever the status code.
func (m *Member) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ClientURL+path, nil)
	if err != nil {
		return err
	}
	client := http.DefaultClient
	if m.tls != nil {
		// Each question has a handshake of its own: certificates change while a test runs.
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: m.tls, DisableKeepAlives: true}}
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answered %s: %q", path, response.Status, body)
	}
	return nil
}
