package client_test

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// sameHash waits until all members have the same state, and returns its hash.
func sameHash(t *testing.T, c *cluster.Cluster) uint32 {
	t.Helper()
	ctx := patiently(t)
	var clients []pb.MaintenanceClient
	for _, m := range c.Members {
		clients = append(clients, pb.NewMaintenanceClient(connect(t, m.ClientURL).ActiveConnection()))
	}
	for {
		seen := map[uint32]bool{}
		for _, client := range clients {
			answer, err := client.Hash(ctx, &pb.HashRequest{})
			if err != nil {
				t.Fatal(err)
			}
			seen[answer.Hash] = true
		}
		if len(seen) == 1 {
			for hash := range seen {
				return hash
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestTheHashIsThatOfTheReplicatedState compares the members' answers to Hash, which etcd's members give about files
// of their own.
func TestTheHashIsThatOfTheReplicatedState(t *testing.T) {
	c := start(t, 3)
	client := connect(t, c.Endpoints()...)
	put(t, client, "k", "1")
	first := sameHash(t, c)
	put(t, client, "k", "2")
	if second := sameHash(t, c); second == first {
		t.Errorf("a put leaves the hash %x as it was", first)
	}
}

// TestTheStatusOfASizeAndAVersion holds Status to what it says of the store: what is needed is no more than what is
// written, and the storage version is there when the member serves.
func TestTheStatusOfASizeAndAVersion(t *testing.T) {
	c, client := single(t)
	check := func() *clientv3.StatusResponse {
		t.Helper()
		status := must[*clientv3.StatusResponse](t)(client.Status(patiently(t), c.Members[0].ClientURL))
		if status.DbSizeInUse > status.DbSize || status.DbSize <= 0 {
			t.Errorf("%d bytes of %d are in use", status.DbSizeInUse, status.DbSize)
		}
		if status.StorageVersion != "3.7.0" {
			t.Errorf("the storage version is %q", status.StorageVersion)
		}
		return status
	}
	before := check()
	put(t, client, "k", string(make([]byte, 1<<20)))
	if after := check(); after.DbSizeInUse < before.DbSizeInUse+1<<20 {
		t.Errorf("a megabyte more: %d, then %d bytes are in use", before.DbSizeInUse, after.DbSizeInUse)
	}
}
