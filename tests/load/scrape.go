package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// perMeasurement is how many scrapes are measured together: a process tells its processor time in hundredths of a second.
const perMeasurement = 40

// scrape opens watchers, spread over as many streams as there are clients, and then scrapes the first server. What it
// records is not how long a scrape takes but the processor time that the server's process uses for one.
func scrape(ctx context.Context, s *session, o options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range o.clients {
		stream, err := pb.NewWatchClient(s.conns[i%len(s.conns)].ActiveConnection()).Watch(ctx)
		if err != nil {
			return err
		}
		count := o.watchers / o.clients
		if i < o.watchers%o.clients {
			count++
		}
		if err := watchers(stream, count); err != nil {
			return err
		}
	}
	before, err := scraped(ctx, o.endpoints[0])
	if err != nil {
		return err
	}
	if open := before["etcd_debugging_mvcc_watcher_total"]; open < float64(o.watchers) {
		return fmt.Errorf("the server has %v watchers, and not %d", open, o.watchers)
	}
	s.record.start()
	defer s.record.stop()
	for range max(o.total/perMeasurement, 1) {
		after := before
		for range perMeasurement {
			if after, err = scraped(ctx, o.endpoints[0]); err != nil {
				return err
			}
		}
		const cpu = "process_cpu_seconds_total"
		each := (after[cpu] - before[cpu]) / perMeasurement
		s.record.add(time.Duration(each*float64(time.Second)), nil)
		before = after
	}
	return nil
}

// watchers creates so many on a stream.
func watchers(stream pb.Watch_WatchClient, count int) error {
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < count && err == nil; i++ {
			err = stream.Send(create(&pb.WatchCreateRequest{Key: []byte(watchKey(i))}))
		}
		sent <- err
	}()
	for range count {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if !response.Created || response.Canceled {
			return fmt.Errorf("a watch was not created: %q", response.CancelReason)
		}
	}
	return <-sent
}

// scraped are the values of the metrics without labels.
func scraped(ctx context.Context, endpoint string) (map[string]float64, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("a scrape: %s, %v", response.Status, err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseFloat(value, 64); found && err == nil && !strings.Contains(name, "{") {
			values[name] = number
		}
	}
	return values, nil
}
