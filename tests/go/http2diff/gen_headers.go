package main

import (
	"slices"
	"strings"

	"stele.test/wire"
)

// authorities are what clients send, and more: Go's v3.5.0 an `#initially=`, gRPC's C core a list of addresses.
var authorities = []string{
	"localhost:2379", "#initially=[127.0.0.1:2379]", "#initially=[http://a:1;http://b:2]",
	"127.0.0.1:2379,127.0.0.1:22379", "ipv4:127.0.0.1:2379,127.0.0.1:22379", "", "a%2Cb", "a b", "a/b",
	"/var/run/etcd.sock", "%2Fvar%2Frun%2Fetcd.sock", "unix:etcd.sock", "user@host", "user:pass@host:1", "[::1]:2379",
	"[::1", "::1", "host:port", "host:99999999", "a?b", "a#b", "\"quoted\"", "<a>", "a\\b", "{}", "ä.example",
	"xn--a", ":", "@", "..", strings.Repeat("a", 300),
}

var paths = []string{
	"", "/", "//", "*", "KV", "/etcdserverpb.KV", "/etcdserverpb.KV/", "/etcdserverpb.KV/Range/", "//etcdserverpb.KV/Range",
	"etcdserverpb.KV/Range", "/etcdserverpb.KV/range", "/etcdserverpb.KV/Range?x=1", "/etcdserverpb.KV/Range#x",
	"/etcdserverpb.KV/R%61nge", "/etcdserverpb.KV/Ra nge", "/ä/ö", "/a\"b/c\\d", "http://host/etcdserverpb.KV/Range",
	"/%/x", "/" + strings.Repeat("p", 2000) + "/m", "/a/%ff", "/../etcdserverpb.KV/Range", "/health", "/version",
}

var contentTypes = []string{
	"application/grpc+proto", "application/grpc;charset=utf-8", "application/grpc+json", "application/grpc+",
	"application/grpc+proto; charset=utf-8", "application/grpc;", "application/grpcx", "application/grpc-web",
	"application/grpc ", " application/grpc", "application/GRPC", "Application/grpc", "application/grpc+PROTO",
	"application/grpc+proto+x", "application/grpc+unknown", "application/grpc\t", "application/grpc,application/grpc",
	"application/json", "text/plain", "", "application/", "application/grp", "\"application/grpc\"",
}

// timeouts that pass long after a script, at once, or are none at all.
var timeouts = []string{
	"1H", "99999999H", "10M", "100S", "99999999S", "100000m", "99999999m", "99999999u", "99999999M", "0S", "0n", "0H",
	"00000000S", "", "S", "1", "10", "1s", "1h", "-1S", "+1S", "1.5S", " 1S", "1S ", "1 S", "100000000S", "999999999H",
	"aS", "1µ", "0x1S", "1SS", "1\"", "é", "1_0S",
}

var encodings = []string{"identity", "gzip", "deflate", "snappy", "zstd", "br", "GZIP", "Identity", "", " gzip", "gzip,identity",
	"x\"y", "é", "a%b", strings.Repeat("e", 100)}

// binaries are values of headers whose names end in -bin.
var binaries = []string{"", "AA==", "AAA=", "AAAA", "AA", "AAA", "A", "A===", "AA=", "====", "!!!!", "AA==,AA==", "AAAA,AAAA",
	"AA-_", "AA+/", " AAAA", "AAAA ", "AA\tAA", "AAB=", "AB==", "é"}

// fieldNames are names that a server may take or refuse.
var fieldNames = []string{
	"X-Upper", "x-Upper", "Content-Type", "x y", "x:y", "", " x", "x ", "é", "x\x00", "x\x7f", "x\ny", "x(y)", "x@y", "x_y", "x.y",
	"x/y", "x\"y", "x,y", "x;y", "x=y", "x{y}", "1", "-", "~", "x-" + strings.Repeat("n", 500),
}

// fieldValues are values that a server may take or refuse.
var fieldValues = []string{
	"", " ", "  a", "a  ", "\ta", "a\tb", "a\nb", "a\rb", "a\r\nb: c", "a\x00b", "\x00", "\x01", "\x1f", "\x7f", "\x80", "\xff\xfe",
	"é", "%zz", strings.Repeat("v", 5000), ",", "\"", "\\",
}

var pseudos = []string{":method", ":scheme", ":path", ":authority"}

// changeHeaders changes the header list of a call in one way.
func (g gen) changeHeaders(c *call) {
	changes := []func(*call){
		g.authority, g.authority, g.host, g.pseudoHeader, g.pseudoHeader, g.path, g.httpMethod, g.contentType, g.timeout,
		g.encoding, g.binaryHeader, g.binaryHeader, g.connectionHeader, g.name, g.value, g.longHeaders, g.otherHeader,
		g.otherHeader, g.order,
	}
	pick(g, changes...)(c)
}

func (g gen) authority(c *call) {
	value := pick(g, authorities...)
	c.set(":authority", value)
	c.note("authority", ":authority %q", shorten(value))
}

func (g gen) host(c *call) {
	c.note("host", "")
	if g.often(50) {
		c.drop(":authority")
		c.note("", "no :authority")
	}
	for range g.IntN(3) {
		value := pick(g, "localhost", "other", "", "a b", pick(g, authorities...))
		c.add("host", value)
		c.note("", "host %q", shorten(value))
	}
}

func (g gen) pseudoHeader(c *call) {
	name := pick(g, pseudos...)
	switch g.IntN(6) {
	case 0:
		c.drop(name)
		c.note("pseudo", "no %s", name)
	case 1:
		c.fields = slices.Insert(c.fields, g.IntN(min(5, len(c.fields)+1)), wire.Field{Name: name, Value: pick(g, "POST", "http", "/", "localhost")})
		c.note("pseudo", "%s twice", name)
	case 2:
		unknown := pick(g, ":unknown", ":status", ":protocol", ":", ":Method", ":host", ":path ")
		c.fields = slices.Insert(c.fields, g.IntN(min(5, len(c.fields)+1)), wire.Field{Name: unknown, Value: pick(g, "200", "websocket", "x")})
		c.note("pseudo", "%q", unknown)
	case 3:
		c.drop(name)
		c.add(name, pick(g, "POST", "http", "/etcdserverpb.KV/Nothing", "localhost"))
		c.note("pseudo", "%s behind other headers", name)
	case 4:
		scheme := pick(g, "https", "HTTP", "ftp", "", "a b", "h:t", "1http", "unix")
		c.set(":scheme", scheme)
		c.note("scheme", ":scheme %q", scheme)
	case 5:
		for _, name := range pseudos {
			c.drop(name)
		}
		c.note("pseudo", "no pseudo-headers")
	}
}

func (g gen) path(c *call) {
	path := pick(g, paths...)
	c.set(":path", path)
	c.note("path", ":path %q", shorten(path))
}

func (g gen) httpMethod(c *call) {
	method := pick(g, "GET", "PUT", "post", "", "OPTIONS", "CONNECT", "HEAD", "PRI", "P ST", "POST ", "\"", "é")
	c.set(":method", method)
	c.note("method", ":method %q", method)
}

func (g gen) contentType(c *call) {
	switch g.IntN(8) {
	case 0:
		c.drop("content-type")
		c.note("content-type", "no content-type")
	case 1:
		value := pick(g, contentTypes...)
		c.again("content-type", "content-types")
		c.add("content-type", value)
		c.note("content-type", "content-type also %q", value)
	default:
		value := pick(g, contentTypes...)
		c.set("content-type", value)
		c.note("content-type", "content-type %q", value)
	}
}

func (g gen) timeout(c *call) {
	value := pick(g, timeouts...)
	c.again("grpc-timeout", "timeouts")
	c.add("grpc-timeout", value)
	c.note("timeout", "grpc-timeout %q", value)
	if g.often(10) {
		value = pick(g, timeouts...)
		c.add("grpc-timeout", value)
		c.note("timeouts", "and %q", value)
	}
}

func (g gen) encoding(c *call) {
	value := pick(g, encodings...)
	c.again("grpc-encoding", "encodings")
	c.add("grpc-encoding", value)
	c.note("encoding", "grpc-encoding %q", shorten(value))
	if g.often(20) {
		c.add("grpc-accept-encoding", pick(g, "gzip", "identity", "", "identity,gzip", "deflate, gzip", "snappy"))
		c.note("", "%s", "grpc-accept-encoding "+c.fields[len(c.fields)-1].Value)
	}
}

func (g gen) binaryHeader(c *call) {
	name := pick(g, "x-bin", "x-bin", "grpc-tags-bin", "grpc-trace-bin", "grpc-status-details-bin", "-bin")
	value := pick(g, binaries...)
	c.add(name, value)
	c.note("binary", "%s %q", name, value)
}

func (g gen) connectionHeader(c *call) {
	switch g.IntN(3) {
	case 0:
		value := pick(g, "gzip", "trailers, gzip", "", "Trailers", "chunked")
		c.set("te", value)
		c.note("te", "te %q", value)
	case 1:
		c.drop("te")
		c.note("te", "no te")
	default:
		name := pick(g, "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings")
		value := pick(g, "close", "keep-alive", "chunked", "h2c", "", "te")
		c.add(name, value)
		c.note("connection", "%s %q", name, value)
	}
}

func (g gen) name(c *call) {
	name := pick(g, fieldNames...)
	c.add(name, "x")
	c.note("name", "header named %q", shorten(name))
}

func (g gen) value(c *call) {
	name := pick(g, "x", "user-agent", "te", "x-bin", "cookie", ":authority", ":path", "grpc-accept-encoding")
	value := pick(g, fieldValues...)
	if strings.HasPrefix(name, ":") {
		c.set(name, value)
	} else {
		c.add(name, value)
	}
	c.note("value", "%s %q", name, shorten(value))
}

func (g gen) longHeaders(c *call) {
	count, length := 1+g.IntN(3), pick(g, 100, 4000, 8000, 17_000)
	switch g.IntN(10) {
	case 0:
		count, length = 300, 10
	case 1:
		count, length = 3, 40_000
	case 2:
		count, length = 1, 300_000
	}
	for range count {
		c.add("x-long", strings.Repeat("l", length))
	}
	c.note("long", "%d headers of %d bytes", count, length)
}

func (g gen) otherHeader(c *call) {
	field := pick(g,
		wire.Field{Name: "content-length", Value: pick(g, "0", "7", "1000000", "x", "-1", "", "7, 7")},
		wire.Field{Name: "hasleader", Value: pick(g, "true", "false", "")},
		wire.Field{Name: "token", Value: "none"}, wire.Field{Name: "authorization", Value: "Bearer x"},
		wire.Field{Name: "expect", Value: "100-continue"}, wire.Field{Name: "cookie", Value: "a=b"},
		wire.Field{Name: "trailer", Value: "grpc-status"}, wire.Field{Name: "grpc-status", Value: "5"},
		wire.Field{Name: "grpc-message", Value: "x"}, wire.Field{Name: "grpc-message-type", Value: "x"},
		wire.Field{Name: "grpc-previous-rpc-attempts", Value: "3"}, wire.Field{Name: "user-agent", Value: "other"},
		wire.Field{Name: "grpc-accept-encoding", Value: pick(g, "gzip", "", "identity,deflate,gzip")},
		wire.Field{Name: "priority", Value: "u=1"}, wire.Field{Name: "accept-encoding", Value: "gzip"},
		wire.Field{Name: "content-encoding", Value: "gzip"}, wire.Field{Name: "client-api-version", Value: "3.5.0"},
	)
	c.add(field.Name, field.Value)
	c.note(field.Name, "%s %q", field.Name, field.Value)
}

// order puts the headers of a call into another order, pseudo-headers first.
func (g gen) order(c *call) {
	first := slices.IndexFunc(c.fields, func(f wire.Field) bool { return !strings.HasPrefix(f.Name, ":") })
	if first < 0 {
		return
	}
	g.Shuffle(first, func(i, j int) { c.fields[i], c.fields[j] = c.fields[j], c.fields[i] })
	rest := c.fields[first:]
	g.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	c.note("order", "headers in another order")
}

func shorten(text string) string {
	if len(text) > 60 {
		return text[:60] + "..."
	}
	return text
}
