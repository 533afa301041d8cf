package main

// waiting are differences in what no client meets. Each has a line in docs/compat-rpcs.md.
var waiting = []known{
	knownAs("bytes behind the message", "extra", `headers .*`, `headers .*`,
		"etcd reads one message of a unary call and no more; and answers those of a stream before what is wrong"),
	knownAs("texts of gzip", "", `headers .*decompress.*`, `headers .*decompress.*`, "the texts are those of the decompressor"),
	knownAs("large answers are not compressed", "", `headers .*grpc-encoding=gzip.*messages \[1\]`, `headers .*grpc-encoding=gzip.*messages \[0\]`,
		"an answer of more than 64 KiB is sent while it is encoded, and compressing it would delay other calls"),
	knownAs("paths that are not UTF-8", "", `headers only .*malformed method name.*\\x.*`, `headers only .*malformed method name.*`,
		"etcd prints such bytes as numbers"),
}
