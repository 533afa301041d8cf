package follow

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

var manyLeases = flag.Int("leases", 200, "leases of a short time that are kept while a cluster is copied")

// shortTTL is the time to live of a lease that its holder renews, in seconds: three times what a busy machine may stop
// any process for.
const shortTTL = 20

// kept grants a lease whose holder renews it, with a key. The channel has each answer to a renewal.
func kept(t *testing.T, client *clientv3.Client, key string) <-chan *clientv3.LeaseKeepAliveResponse {
	t.Helper()
	lease, err := client.Grant(patiently(t), shortTTL)
	check(t, err)
	_, err = client.Put(patiently(t), key, "x", clientv3.WithLease(lease.ID))
	check(t, err)
	alive, err := client.KeepAlive(t.Context(), lease.ID)
	check(t, err)
	return alive
}

// deletes are the keys below a prefix that are deleted from now on.
func deletes(t *testing.T, client *clientv3.Client, prefix string) <-chan string {
	t.Helper()
	ctx := clientv3.WithRequireLeader(t.Context())
	created := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	<-created
	keys := make(chan string, 1000)
	go func() {
		for response := range created {
			for _, event := range response.Events {
				if event.Type == mvccpb.DELETE {
					keys <- string(event.Kv.Key)
				}
			}
		}
	}()
	return keys
}

// remaining is how many seconds a lease has left, and how many it was granted for.
func remaining(t *testing.T, client *clientv3.Client, lease clientv3.LeaseID) (left, granted int64) {
	t.Helper()
	answer, err := client.TimeToLive(patiently(t), lease)
	check(t, err)
	return answer.TTL, answer.GrantedTTL
}

// TestShortLeasesLiveAndEndAsAtTheSource follows a cluster with a lease that is renewed, one that ends, and one of which
// less than half is left when it is first seen.
func TestShortLeasesLiveAndEndAsAtTheSource(t *testing.T) {
	t.Parallel()
	for _, d := range directions() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := cluster.ForTest(t, cluster.Config{Binary: d.source})
			destination := cluster.ForTest(t, cluster.Config{Binary: d.destination})
			from, to := connect(t, source), connect(t, destination)
			late, err := from.Grant(patiently(t), 2*shortTTL)
			check(t, err)
			for left := int64(2 * shortTTL); left >= shortTTL; left, _ = remaining(t, from, late.ID) {
				time.Sleep(50 * time.Millisecond)
			}
			alive := kept(t, from, "lease/kept")
			gone := deletes(t, to, "lease/")
			f := start(t, source, destination)
			f.says(t, "caught up with revision")
			if _, granted := remaining(t, to, late.ID); granted >= shortTTL || granted < 1 {
				t.Errorf("with less than %d of %d s left it was granted for %d s", shortTTL, 2*shortTTL, granted)
			}
			ends, err := from.Grant(patiently(t), shortTTL)
			check(t, err)
			_, err = from.Put(patiently(t), "lease/ends", "x", clientv3.WithLease(ends.ID))
			check(t, err)

			select {
			case key := <-gone:
				if key != "lease/ends" {
					t.Fatalf("%s was deleted", key)
				}
			case <-time.After(patience):
				t.Fatal("the key of the lease that ends is never deleted")
			}
			if left, _ := remaining(t, from, ends.ID); left >= 0 {
				t.Errorf("its key was deleted at the destination while the source had it for %d s", left)
			}
			// Its holder renews it after a third of its time: it lives for longer than without that.
			for range 4 {
				if answer, open := <-alive; !open || answer.TTL != shortTTL {
					t.Fatalf("the source does not renew the lease: %v", answer)
				}
			}
			if got := keys(t, to); !strings.Contains(got, "lease/kept=x") || len(gone) > 0 {
				t.Errorf("the destination has %q", got)
			}
			f.interrupted(t)
			if strings.Contains(f.out.String(), "a lease expired in the destination") {
				t.Error("a lease was lost")
			}
		})
	}
}

// TestManyLeasesAreRenewedWithFewLogins keeps many leases whose holder renews them, in clusters with users.
func TestManyLeasesAreRenewedWithFewLogins(t *testing.T) {
	t.Parallel()
	for _, d := range directions() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := startSecured(t, d.source, "source", 1)
			destination := startSecured(t, d.destination, "destination", 1)
			count := func(name, method string) float64 {
				return counted(t, destination.cluster.Members[0].ClientURL, destination.client("client"), name, method)
			}
			alive := make([]<-chan *clientv3.LeaseKeepAliveResponse, *manyLeases)
			for i := range alive {
				alive[i] = kept(t, source.root, fmt.Sprintf("lease/%05d", i))
				go func() {
					for range alive[i] {
					}
				}()
			}
			gone := deletes(t, destination.root, "lease/")
			// The client here logs in as well.
			before := count("grpc_server_started_total", "Authenticate")
			f := start(t, source.cluster, destination.cluster, slices.Concat(source.as("", "root"), destination.as("dest-", "root"))...)
			f.says(t, "caught up with revision")
			for deadline := time.Now().Add(4 * patience); count("grpc_server_msg_received_total", "LeaseKeepAlive") < float64(2**manyLeases); time.Sleep(50 * time.Millisecond) {
				select {
				case key := <-gone:
					t.Fatalf("%s was deleted\n%s", key, f.out)
				default:
				}
				if time.Now().After(deadline) {
					t.Fatal("the leases are not renewed twice")
				}
			}
			if logins := count("grpc_server_started_total", "Authenticate") - before; logins > 10 {
				t.Errorf("%v logins for %d leases", logins, *manyLeases)
			}
			f.interrupted(t)
		})
	}
}

// counted is the sum of a counter of calls of one method.
func counted(t *testing.T, url string, config *tls.Config, name, method string) (sum float64) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url+"/metrics", nil)
	check(t, err)
	answer, err := client.Do(request)
	check(t, err)
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, `grpc_method="`+method+`"`) {
			value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			check(t, err)
			sum += value
		}
	}
	return sum
}
