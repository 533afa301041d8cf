package corruption

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// TestDamageIsCountedAndRepaired changes a value on the disk of a follower, and reads it there while the others stand
// still, and when they are back.
func TestDamageIsCountedAndRepaired(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{"--snapshot-count=10", "--election-timeout=5000"}})
	c.AllowErrors("found damaged data")
	client := cluster.ClientOf(t, patience, c.Members...)
	m, _ := follower(ctx, t, c, client)
	value := putAndDamage(ctx, t, c, m)
	own := cluster.ClientOf(t, patience, m)
	for _, other := range c.Members {
		if other != m {
			if err := other.Freeze(); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := make(chan struct{})
	// A read gives up after some seconds without an answer of a peer, so there is another one until one succeeds.
	go func() {
		defer close(read)
		for ctx.Err() == nil {
			got, err := own.Get(ctx, "damaged", clientv3.WithSerializable())
			if err != nil {
				continue
			}
			if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
				t.Errorf("another value: %.100s", got.Kvs)
			}
			return
		}
	}()
	awaitSum(ctx, t, m, "stele_damage_found_total", func(n float64) bool { return n > 0 })
	awaitSum(ctx, t, m, "stele_repairs_pending", func(n float64) bool { return n > 0 })
	for _, other := range c.Members {
		if other != m {
			if err := other.Thaw(); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitSum(ctx, t, m, "stele_damage_repaired_total", func(n float64) bool { return n > 0 })
	awaitSum(ctx, t, m, "stele_repairs_pending", func(n float64) bool { return n == 0 })
	<-read
	got, err := own.Get(ctx, "damaged", clientv3.WithSerializable())
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value {
		t.Errorf("after the repair: %v", err)
	}
}

const checkpointsWritten = `stele_background_job_duration_seconds_count{kind="checkpoint"}`

// sumOf is the sum of the series of a member that begin so, 0 if there is none yet.
func sumOf(ctx context.Context, t *testing.T, m *cluster.Member, begin string) float64 {
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
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if rest, isWanted := strings.CutPrefix(line, begin); isWanted {
			number, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += number
		}
	}
	return sum
}

func awaitSum(ctx context.Context, t *testing.T, m *cluster.Member, begin string, isRight func(float64) bool) {
	t.Helper()
	for {
		sum := sumOf(ctx, t, m, begin)
		if isRight(sum) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is %v", begin, sum)
		case <-time.After(pollInterval):
		}
	}
}
