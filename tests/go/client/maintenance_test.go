package client_test

import (
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	health "google.golang.org/grpc/health/grpc_health_v1"

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

// TestAMemberServesWhileItDefragments starts a member with the gate by which etcd's stops to serve meanwhile: its health is
// asked for all the time, and followed.
func TestAMemberServesWhileItDefragments(t *testing.T) {
	c := start(t, 1, "--feature-gates=StopGRPCServiceOnDefrag=true")
	client := connect(t, c.Endpoints()...)
	for n := range 100 {
		put(t, client, fmt.Sprint("k", n%10), string(make([]byte, 10_000)))
	}
	probe := health.NewHealthClient(client.ActiveConnection())
	ctx := patiently(t)
	states := must[health.Health_WatchClient](t)(probe.Watch(ctx, &health.HealthCheckRequest{}))
	if first := must[*health.HealthCheckResponse](t)(states.Recv()); first.Status != health.HealthCheckResponse_SERVING {
		t.Fatalf("before: %v", first.Status)
	}
	changed := make(chan health.HealthCheckResponse_ServingStatus, 1)
	go func() {
		// It ends without a change when the test does.
		if next, err := states.Recv(); err == nil {
			changed <- next.Status
		}
	}()
	defragmented := make(chan error, 1)
	go func() {
		_, err := client.Defragment(ctx, c.Members[0].ClientURL)
		defragmented <- err
	}()
	for isDone := false; !isDone; {
		select {
		case err := <-defragmented:
			if isDone = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		if answer := must[*health.HealthCheckResponse](t)(probe.Check(ctx, &health.HealthCheckRequest{})); answer.Status != health.HealthCheckResponse_SERVING {
			t.Errorf("meanwhile: %v", answer.Status)
		}
	}
	select {
	case next := <-changed:
		t.Errorf("a caller that follows the state has heard %v", next)
	default:
	}
}
