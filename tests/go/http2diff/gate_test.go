package main

import (
	"flag"
	"fmt"
	"testing"

	"stele.test/cluster"
)

var (
	bin   = flag.String("bin", cluster.StelePath(), "the server to test")
	cases = flag.Int("cases", 4000, "ops to play")
	seed  = flag.Uint64("seed", 1, "the seed of all scripts")
)

// mustReach are outcomes of the reference that the scripts of the gate have to come to; without them agreement means
// little.
var mustReach = []string{
	"closed",
	"goes on",
	`goaway 1 "received an illegal stream id"`,
	`goaway 11 "too_many_pings"`,
	"headers only {:status=200; content-type=application/grpc; grpc-message=EOF; grpc-status=2}",
	"headers only {:status=200; content-type=application/grpc; grpc-message=context deadline exceeded; grpc-status=4}",
	"headers only {:status=200; content-type=application/grpc; " +
		"grpc-message=grpc: compressed flag set with identity or empty encoding; grpc-status=13}",
	"headers only {:status=200; content-type=application/grpc; " +
		"grpc-message=grpc: received message after decompression larger than max 2097152; grpc-status=8}",
	"headers only {:status=200; content-type=application/grpc; grpc-message=unexpected EOF; grpc-status=2}",
	"headers only {:status=400; content-type=application/grpc; " +
		"grpc-message=no host or :authority header present; grpc-status=13}",
	"headers {:status=200; content-type=application/grpc; grpc-encoding=gzip} {grpc-status=0}, messages [1]",
	"headers {:status=200; content-type=application/grpc} {grpc-status=0}, messages [0]",
	"headers {:status=200; content-type=application/grpc}, messages [0]",
	"reset 1",
	"reset 5",
	"reset by the client",
}

func TestTheSameBytesHaveTheSameOutcome(t *testing.T) {
	p, err := newPair(t.Context(), cluster.EtcdPath(), *bin)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	result := campaign(t.Context(), p, options{seed: *seed, cases: *cases, workers: 4, most: 3})
	if result.err != nil {
		t.Fatal(result.err)
	}
	for _, difference := range result.differences {
		t.Error(difference)
	}
	t.Logf("%d cases on %d connections, known differences %v", result.ops, result.connections, result.tally.differ)
	for _, outcome := range mustReach {
		if result.tally.outcomes[outcome] == 0 {
			t.Errorf("no case came to %q", outcome)
		}
	}
}

func TestAScriptFollowsFromItsSeed(t *testing.T) {
	text := func(seed, number uint64) string {
		var out string
		client := newSender()
		for _, o := range script(seed, number) {
			out += fmt.Sprintf("%s %x\n", o, o.sent(client).bytes)
		}
		return out
	}
	if text(3, 4) != text(3, 4) {
		t.Fatal("the same seed and number gave two scripts")
	}
	if text(3, 4) == text(3, 5) || text(3, 4) == text(4, 4) {
		t.Fatal("two scripts are the same")
	}
}
