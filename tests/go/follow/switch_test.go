package follow

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// A cluster as Kubernetes uses it, of moderate size: objects, and clients that change them.
const (
	objects      = 1000
	objectBytes  = 1024
	controllers  = 8
	eventSeconds = 3600
)

var long = flag.Bool("long", false, "also what takes a minute")

// object is a key of 70 bytes, as Kubernetes names them.
func object(number int) string {
	return fmt.Sprintf("/registry/pods/namespace-%04d/workload-%08d-replica-%08d-abcde-1", number%20, number, number)
}

// value is an object of the usual size that tells its number of changes.
func value(change int) string {
	text := fmt.Sprint(change, " ")
	return text + strings.Repeat("k", objectBytes-len(text))
}

// controlled changes objects as controllers do, each its own ones, and remembers what was acknowledged.
type controlled struct {
	mutex sync.Mutex
	// changes are the last acknowledged change of each object.
	changes map[string]int
}

// controller reads an object and puts it if no other client did meanwhile; now and then an event with a lease.
func (c *controlled) controller(ctx context.Context, client *clientv3.Client, first int) error {
	for change := 1; change == 1 || ctx.Err() == nil; change++ {
		key := object(first + controllers*(change%(objects/controllers)))
		found, err := client.Get(context.WithoutCancel(ctx), key)
		if err != nil {
			return err
		}
		same := clientv3.Compare(clientv3.ModRevision(key), "=", found.Kvs[0].ModRevision)
		done, err := client.Txn(context.WithoutCancel(ctx)).If(same).Then(clientv3.OpPut(key, value(change))).Commit()
		if err != nil {
			return err
		}
		if !done.Succeeded {
			return fmt.Errorf("%s was changed by another client", key)
		}
		c.mutex.Lock()
		c.changes[key] = change
		c.mutex.Unlock()
		if change%20 == 0 {
			lease, err := client.Grant(context.WithoutCancel(ctx), eventSeconds)
			if err != nil {
				return err
			}
			event := fmt.Sprintf("/registry/events/%d/%d", first, change)
			if _, err = client.Put(context.WithoutCancel(ctx), event, value(change), clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestKubernetesSwitches moves the controllers of a cluster from etcd to Stele and back: nothing that was acknowledged is
// lost, and each goes on from the object that it finds. With -v it tells how long they paused; with -parallel 1, undisturbed.
func TestKubernetesSwitches(t *testing.T) {
	t.Parallel()
	for _, d := range directions() {
		for name, how := range map[string]switchForm{"": {}, "Verified": {verifies: true}, "KeepingRevisions": {verifies: true, keepsRevisions: true}} {
			t.Run(d.name+name, func(t *testing.T) {
				if how.keepsRevisions && d.name == "SteleToEtcd" && !*long {
					t.Skip("etcd takes the changes of this load more slowly than Stele makes them: -long")
				}
				if !how.verifies && !*long {
					t.Skip("the forms that verify do the same and more: -long")
				}
				t.Parallel()
				source := cluster.ForTest(t, cluster.Config{Binary: d.source})
				destination := cluster.ForTest(t, cluster.Config{Binary: d.destination})
				switched(t, source, destination, how)
			})
		}
	}
}

// switchForm is how a copy is made before a switch.
type switchForm struct{ verifies, keepsRevisions bool }

func switched(t *testing.T, source, destination *cluster.Cluster, how switchForm) {
	from, to := connect(t, source), connect(t, destination)
	for number := range objects {
		_, err := from.Put(patiently(t), object(number), value(0))
		check(t, err)
	}
	state := &controlled{changes: map[string]int{}}
	stop := state.run(t, from)
	var begin []string
	if how.keepsRevisions {
		begin = append(begin, "--keep-revisions")
		// A source that was used for long has compacted its first revisions.
		compactAll(t, from)
	}
	f := start(t, source, destination, begin...)
	f.says(t, "caught up with revision")

	began := time.Now()
	stop()
	f.interrupted(t)
	flags := append(begin, "--until-caught-up", "--finish")
	if how.verifies {
		flags = append(flags, "--verify")
	}
	mustEnd(t, start(t, source, destination, flags...))
	_, err := to.Put(patiently(t), "/registry/first", "")
	check(t, err)
	t.Logf("paused for %v: %d objects of %d bytes, %d controllers", time.Since(began), objects, objectBytes, controllers)

	for key, change := range state.changes {
		found, err := to.Get(patiently(t), key)
		check(t, err)
		if len(found.Kvs) != 1 || string(found.Kvs[0].Value) != value(change) {
			t.Fatalf("%s has not its change %d: %.80v", key, change, found.Kvs)
		}
		source, err := from.Get(patiently(t), key)
		check(t, err)
		if how.keepsRevisions && found.Kvs[0].ModRevision != source.Kvs[0].ModRevision {
			t.Fatalf("%s was changed at revision %d, and here at %d", key, source.Kvs[0].ModRevision, found.Kvs[0].ModRevision)
		}
	}
	_, err = to.Delete(patiently(t), "/registry/first")
	check(t, err)
	compare(t, from, to, false)
	state.run(t, to)()
}

// run runs the controllers until they are stopped, each for one change at least.
func (c *controlled) run(t *testing.T, client *clientv3.Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	errors := make(chan error, controllers)
	for first := range controllers {
		go func() { errors <- c.controller(ctx, client, first) }()
	}
	return func() {
		t.Helper()
		cancel()
		for range controllers {
			check(t, <-errors)
		}
	}
}
