package main

// waiting are differences that are not meant to be, and known for the time being. Each line goes when the server does
// what etcd does.
var waiting = []known{
	knownAs("bytes behind the message", "extra", `headers .*`, `headers .*`,
		"etcd reads one message of a unary call and no more; and answers those of a stream before what is wrong"),
	knownAs("texts of gzip", "", `headers .*decompress.*`, `headers .*decompress.*`, "the texts are those of the decompressor"),
	knownAs("paths that are not UTF-8", "", `headers only .*malformed method name.*\\x.*`, `headers only .*malformed method name.*`,
		"etcd prints such bytes as numbers"),
}
