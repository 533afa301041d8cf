package main

// answersBeforeTheEnd says that the tested server answers a unary call when its message is complete, as etcd does,
// though the client has not ended its side. While it is false, clients of the scripts end it.
const answersBeforeTheEnd = true

// waiting are differences that are not meant to be, and known for the time being. Each line goes when the server does
// what etcd does.
var waiting = []known{
	knownAs("bytes behind the message", "extra", `headers .*`, `headers .*`,
		"etcd reads one message of a unary call and no more; and answers those of a stream before what is wrong"),
	knownAs("no whole message", "", `headers only .*(EOF; grpc-status=2|grpc-status=0).*`,
		`headers .*(EOF; grpc-status=13|cardinality violation: received no request.*|grpc-status=0).*`,
		"the code of a unary call that ends within its message is Unknown in etcd"),
	knownAs("errors of streams", "", `headers only .*grpc-status=(8|13).*`, `headers .*grpc-status=(8|13).*, messages \[\]`,
		"a stream that fails before its first answer is answered with headers only by etcd"),
	knownAs("encoding and method", "", `headers only .*(unknown (method|service)|malformed method).*`,
		`headers only .*Decompressor is not installed.*`, "etcd looks for the method before the encoding"),
	knownAs("texts of gzip", "", `headers .*decompress.*`, `headers .*decompress.*`, "the texts are those of the decompressor"),
	knownAs("several parts of gzip", "gzip", `headers .*`, `headers .*unmarshalling.*`,
		"of several parts in one message only the first is read"),
	knownAs("pseudo-headers of an answer", "pseudo", `headers only {:status=4.*`, `reset 1`,
		"etcd refuses `:status` only beside the pseudo-headers of a request"),
	knownAs("order of the checks of a message", "", `headers only .*(larger than max|EOF; grpc-status=).*`,
		`headers only .*(unexpected payload format|compressed flag set).*`,
		"etcd looks at the length first, and at the flag when the whole message is there"),
	knownAs("several encodings", "encodings", `headers .*`, `headers .*`, "etcd takes the last"),
	knownAs("several timeouts", "timeouts", `headers .*`, `headers .*`,
		"etcd reports the last that is wrong, and takes the last that is right"),
	knownAs("several content types", "content-types", `headers .*`, `headers .*`,
		"etcd answers with the last that is right; if none is, with the last"),
	knownAs("content type of refusals", "content-type", `headers only {:status=400; content-type=application/grpc\+.*`,
		`headers only {:status=400; content-type=application/grpc; .*`,
		"etcd repeats the subtype of the request also when it refuses its host"),
	knownAs("paths that are not UTF-8", "", `headers only .*malformed method name.*\\x.*`, `headers only .*malformed method name.*`,
		"etcd prints such bytes as numbers"),
}
