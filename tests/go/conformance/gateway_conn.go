package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// shapeField is the number of a field that no message has: it carries the shape of an answer's JSON, so that it is
// compared with the message.
const shapeField protowire.Number = 9999

// gatewayConn sends unary calls as JSON to the gateway, where it has a path for them; all else goes over gRPC.
type gatewayConn struct {
	grpc.ClientConnInterface
	url    string
	routes map[string]string
}

// gatewayRoutes are the paths of methods, as etcd publishes them.
func gatewayRoutes() (map[string]string, error) {
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(file), "..", "..", "..", "crates", "gateway", "tests", "contract", "routes.tsv")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	routes := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if path, method, found := strings.Cut(strings.TrimSpace(line), "\t"); found && !strings.HasPrefix(line, "#") {
			routes[method] = strings.TrimPrefix(path, "POST ")
		}
	}
	return routes, nil
}

// Invoke makes a call. The same request is written in the same way to both systems, and different ones in the different
// ways that JSON has.
func (g *gatewayConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	request, response := args.(proto.Message), reply.(proto.Message)
	path, isRouted := g.routes[method]
	body, err := jsonOf(method, request)
	// Strings that are not UTF-8 have no JSON.
	if !isRouted || err != nil {
		return g.ClientConnInterface.Invoke(ctx, method, args, reply, options...)
	}
	sent, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	sent.Header.Set("Content-Type", "application/json")
	if outgoing, _ := metadata.FromOutgoingContext(ctx); len(outgoing.Get("token")) > 0 {
		sent.Header.Set("Authorization", outgoing.Get("token")[0])
	}
	answered, err := http.DefaultClient.Do(sent)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer answered.Body.Close()
	text, err := io.ReadAll(answered.Body)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return decode(answered.StatusCode, text, response)
}

// jsonOf writes a request with names of either kind, enums by name or number, and defaults there or not.
func jsonOf(method string, request proto.Message) ([]byte, error) {
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	form := fnv.New32a()
	fmt.Fprint(form, method)
	form.Write(plain)
	bits := form.Sum32()
	return protojson.MarshalOptions{
		UseProtoNames: bits&1 != 0, UseEnumNumbers: bits&2 != 0, EmitUnpopulated: bits&4 != 0,
	}.Marshal(request)
}

// decode reads an answer: the message with the shape of its JSON, or the error that it tells, with the HTTP status.
func decode(code int, text []byte, response proto.Message) error {
	var value any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&value); err != nil {
		return status.Errorf(codes.Unknown, "HTTP %d: no JSON: %q", code, text)
	}
	if code != http.StatusOK {
		object, _ := value.(map[string]any)
		number, _ := object["code"].(json.Number)
		grpcCode, _ := number.Int64()
		return status.Errorf(codes.Code(grpcCode), "%v (HTTP %d, %s)", object["message"], code, shape(value))
	}
	if err := protojson.Unmarshal(text, response); err != nil {
		return status.Errorf(codes.Unknown, "HTTP %d: %v: %q", code, err, text)
	}
	kept := protowire.AppendTag(nil, shapeField, protowire.BytesType)
	response.ProtoReflect().SetUnknown(protowire.AppendString(kept, shape(value)))
	return nil
}

// startedLater are fields that etcd has only some seconds after its start.
var startedLater = []string{"storageVersion", "storage_version"}

// shape is the kind of each value: whether a number is one or a text, and which fields are there.
func shape(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var fields []string
		for name, field := range value {
			if !slices.Contains(startedLater, name) {
				fields = append(fields, name+":"+shape(field))
			}
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, ",") + "}"
	case []any:
		var items []string
		for _, item := range value {
			items = append(items, shape(item))
		}
		// An order that is left to chance is compared by the message.
		slices.Sort(items)
		return "[" + strings.Join(items, ",") + "]"
	case json.Number:
		return "number"
	default:
		return fmt.Sprintf("%T", value)
	}
}
