package partition

import (
	"flag"
	"testing"
	"time"

	"stele.test/cluster"
)

var (
	bin      = flag.String("bin", cluster.StelePath(), "the server to test")
	duration = flag.Duration("for", 20*time.Second, "how long faults inject")
	seed     = flag.Uint64("seed", 1, "decides what goes wrong when")
)

func TestClientsOfAPartitionedClusterSeeOneOrder(t *testing.T) {
	if notPermitted != "" {
		t.Skip("no network to partition: " + notPermitted)
	}
	network, err := newNetwork()
	if err != nil {
		t.Skip("no network to partition: " + err.Error())
	}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: members, Hosts: network.hosts(), Args: flags})
	o, err := runUnderFaults(network, c, *duration, *seed)
	if err != nil {
		t.Fatalf("seed %d, after %v: %v", *seed, o, err)
	}
	if o.answered < 100 {
		t.Fatalf("too little was done to prove anything: %v", o)
	}
	t.Log(o)
}
