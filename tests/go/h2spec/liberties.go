package h2spec

const (
	// closed: RFC 9113 also permits to ignore such frames for some time; we keep no list of streams that are over.
	closed     = "frames of a stream that is over are ignored, as grpc-go does"
	priorities = "priorities are ignored; RFC 9113 has deprecated them"
	length     = "content-length is not compared with what arrives, as in grpc-go: messages have lengths of their own"
)

// liberties are the cases that a server may fail, by section and name, and why it does. Where a reason names grpc-go,
// etcd fails the case too.
var liberties = map[string]string{
	"http2/3.5: Sends invalid connection preface": "what does not begin with the preface is HTTP/1, and answered so",

	"http2/5.1: closed: Sends a DATA frame after sending RST_STREAM frame": closed,
	"http2/5.1: closed: Sends a DATA frame":                                closed,

	"http2/5.3.1: Sends HEADERS frame that depend on itself":  priorities,
	"http2/5.3.1: Sends PRIORITY frame that depend on itself": priorities,

	`http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the DATA frame ` +
		"payload length": length,
	`http2/8.1.2.6: Sends a HEADERS frame with the "content-length" header field which does not equal the sum of the ` +
		"multiple DATA frames payload length": length,
}
