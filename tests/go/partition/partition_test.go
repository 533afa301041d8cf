package partition

import (
	"flag"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/netns"
)

var (
	bin      = flag.String("bin", cluster.StelePath(), "the server to test")
	duration = flag.Duration("for", 20*time.Second, "how long faults inject")
	seed     = flag.Uint64("seed", 1, "decides what goes wrong when")
)

func TestClientsOfAPartitionedClusterSeeOneOrder(t *testing.T) {
	network, err := netns.New(members)
	if err != nil {
		t.Skip("no network to partition: " + err.Error())
	}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: members, Hosts: network.Hosts(), Args: flags})
	o, err := runUnderFaults(network, c, *duration, *seed)
	if err != nil {
		t.Fatalf("seed %d, after %v: %v", *seed, o, err)
	}
	if o.answered < 100 {
		t.Fatalf("too little was done to prove anything: %v", o)
	}
	t.Log(o)
}
