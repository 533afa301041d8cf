// Package metrics causes what the metrics count, and reads what they say: every family of etcd has an event that changes
// it, or is listed as constant. It also runs the alert rules of etcd's mixin over healthy and unhealthy clusters.
package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"stele.test/cluster"
)

// scrape is what a member shows.
type scrape struct {
	at     time.Time
	types  map[string]string
	values map[string]float64
	// series are the names with labels of each family's values, sorted.
	series map[string][]string
}

// get fetches a path of a member's client URL.
func get(ctx context.Context, m *cluster.Member, path string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.ClientURL+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// scrapeOf reads the metrics of a member.
func scrapeOf(ctx context.Context, m *cluster.Member) (scrape, error) {
	status, body, err := get(ctx, m, "/metrics")
	if err != nil || status != http.StatusOK {
		return scrape{}, fmt.Errorf("scrape of %s: status %d, %v", m.Name, status, err)
	}
	s, err := parse(body)
	s.at = time.Now()
	return s, err
}

// parse reads Prometheus's text format as our server and etcd write it: without timestamps, and each family's lines
// after its type.
func parse(text string) (scrape, error) {
	s := scrape{types: map[string]string{}, values: map[string]float64{}, series: map[string][]string{}}
	family := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, found := strings.CutPrefix(line, "# TYPE "); found {
			name, kind, _ := strings.Cut(rest, " ")
			family, s.types[name] = name, kind
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return s, fmt.Errorf("line %q: %w", line, err)
		}
		s.values[line[:at]] = value
		s.series[family] = append(s.series[family], line[:at])
	}
	for _, names := range s.series {
		sort.Strings(names)
	}
	return s, nil
}

// counted are the series of a family that tell whether something happened: all, but of a histogram only the counts. Its
// sum may change by rounding.
func (s scrape) counted(family string) []string {
	if s.types[family] != "histogram" {
		return s.series[family]
	}
	return slices.DeleteFunc(slices.Clone(s.series[family]), func(name string) bool {
		return !strings.HasPrefix(name, family+"_count")
	})
}

// state is all that a family says, as text.
func (s scrape) state(family string) string {
	var out strings.Builder
	for _, name := range s.counted(family) {
		fmt.Fprintf(&out, "%s %v\n", name, s.values[name])
	}
	return out.String()
}

// hasChanged says whether a family of the member of this name says something else than before. Of a member that did not
// run before, something above zero.
func (s scrape) hasChanged(before map[string]scrape, member, family string) bool {
	if was, ran := before[member]; ran {
		return len(s.series[family]) > 0 && was.state(family) != s.state(family)
	}
	return slices.ContainsFunc(s.counted(family), func(name string) bool { return s.values[name] > 0 })
}
