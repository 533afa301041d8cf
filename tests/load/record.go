package main

import (
	"sort"
	"sync"
	"time"
)

// record collects how long each request took, and what went wrong.
type record struct {
	mu        sync.Mutex
	begin     time.Time
	end       time.Time
	latencies []time.Duration
	worst     time.Duration
	errors    int
	firstErr  string
}

// summary is what the tasks that start this program read. Latencies are of requests that succeeded.
type summary struct {
	Requests   int     `json:"requests"`
	Errors     int     `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
	Seconds    float64 `json:"seconds"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	P999       float64 `json:"p999_ms"`
	// Worst is of all requests, failed ones too.
	Worst float64 `json:"worst_ms"`
}

// start begins the time over which throughput is counted.
func (r *record) start() { r.begin = time.Now() }

// stop ends it.
func (r *record) stop() { r.end = time.Now() }

// add notes one request.
func (r *record) add(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.worst = max(r.worst, took)
	if err == nil {
		r.latencies = append(r.latencies, took)
		return
	}
	r.errors++
	if r.firstErr == "" {
		r.firstErr = err.Error()
	}
}

func (r *record) summary() summary {
	sort.Slice(r.latencies, func(i, j int) bool { return r.latencies[i] < r.latencies[j] })
	return summary{
		Requests:   len(r.latencies),
		Errors:     r.errors,
		FirstError: r.firstErr,
		Seconds:    r.end.Sub(r.begin).Seconds(),
		P50:        r.percentile(0.5),
		P99:        r.percentile(0.99),
		P999:       r.percentile(0.999),
		Worst:      r.worst.Seconds() * 1000,
	}
}

// percentile is in milliseconds; the latencies are sorted.
func (r *record) percentile(part float64) float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	index := min(int(part*float64(len(r.latencies))), len(r.latencies)-1)
	return r.latencies[index].Seconds() * 1000
}
