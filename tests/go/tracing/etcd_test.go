package tracing

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"stele.test/cluster"
)

func scrape(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// differs are attributes that are not compared: the client's port, which Stele does not keep, its address, and an id
// that the server chooses.
var differs = regexp.MustCompile(`server\.port=\d+ ?|server\.address="[^"]*"|id=\d{5,}`)

// told is a span as it is compared, with its events but for those that only etcd has.
func told(span *trace.Span) string {
	var events []string
	for _, event := range span.Events {
		if event.Name == "Send raft proposal" || event.Name == "Receive raft result" {
			events = append(events, event.Name)
		}
	}
	status := span.GetStatus().GetCode().String()
	text := strings.Join([]string{span.Kind.String(), attributes(span), strings.Join(events, ", "), status}, " | ")
	return differs.ReplaceAllString(text, "")
}

// TestSpansAreEtcds: the spans of etcd are there with the same attributes; the phases are ours.
func TestSpansAreEtcds(t *testing.T) {
	found := map[string][][]*trace.Span{}
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		r := collect(t)
		c := traced(t, binary, r)
		found[binary] = spans(t, c, r, func(call call, spans []*trace.Span) bool {
			has := func(name string) bool { return slices.Contains(names(spans), name) }
			return has(call.server) && (call.operation == "" || has(call.operation))
		})
	}
	for n, call := range calls {
		theirs, ours := found[cluster.EtcdPath()][n], found[*bin][n]
		for _, name := range names(theirs) {
			if !slices.Contains(names(ours), name) {
				t.Errorf("%s: etcd has the span %s: %v", call.name, name, told(find(t, call.name, theirs, name)))
				continue
			}
			etcd, stele := find(t, call.name, theirs, name), find(t, call.name, ours, name)
			if told(etcd) != told(stele) {
				t.Errorf("%s: %s\netcd:  %s\nstele: %s", call.name, name, told(etcd), told(stele))
			}
		}
	}
}
