package tracing

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// receiver is a collector: it keeps what it receives, and tells who waits for it.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	changed  chan struct{}
	resource map[string]string
	spans    []*trace.Span
}

// collect starts a collector that ends with the test.
func collect(t *testing.T) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{address: listener.Addr().String(), changed: make(chan struct{}), resource: map[string]string{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return r
}

// Export takes spans.
func (r *receiver) Export(
	_ context.Context,
	request *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, attribute := range of.Resource.Attributes {
			r.resource[attribute.Key] = value(attribute.Value)
		}
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

// of returns the spans of a trace so far, and what is closed when there are more.
func (r *receiver) of(id []byte) ([]*trace.Span, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spans := slices.DeleteFunc(slices.Clone(r.spans), func(span *trace.Span) bool {
		return string(span.TraceId) != string(id)
	})
	return spans, r.changed
}

// count is the number of spans received.
func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

// until waits for a trace whose spans satisfy done.
func (r *receiver) until(ctx context.Context, id []byte, done func([]*trace.Span) bool) ([]*trace.Span, error) {
	for {
		spans, changed := r.of(id)
		if done(spans) {
			return spans, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("only %d spans came: %v", len(spans), names(spans))
		}
	}
}

func names(spans []*trace.Span) []string {
	var names []string
	for _, span := range spans {
		names = append(names, span.Name)
	}
	return names
}

func value(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return fmt.Sprintf("%q", v.StringValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	}
	return "?"
}

// attributes are those of a span on one line, in the order of their names.
func attributes(span *trace.Span) string {
	var told []string
	for _, attribute := range span.Attributes {
		told = append(told, attribute.Key+"="+value(attribute.Value))
	}
	slices.Sort(told)
	return strings.Join(told, " ")
}
