// Package partition cuts the network between the members of a real cluster in every shape, and checks that what clients
// observe is strictly serializable.
//
// Each member runs in a network namespace of its own. All are linked to a router, which drops packets in one direction at
// a time. Clients of each member put, get, delete and swap values of a few keys, with timeouts after which the outcome of
// a request is unknown. Members are killed and frozen as well. At the end each key's history must have a linear order
// (porcupine searches it), revisions must follow real time across keys, a watcher of each member must have received every
// revision once and in order, and the members' hashes must be equal.
package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
	"stele.test/netns"
)

const (
	members = 3
	// firstRevision is the revision of the first change.
	firstRevision = 2
	// recoveryTimeout bounds every wait for the cluster after faults ended.
	recoveryTimeout = 60 * time.Second
)

// flags make elections quick, so that short cuts cause many of them.
var flags = []string{"--heartbeat-interval=50", "--election-timeout=500"}

// outcome is the result of a run.
type outcome struct {
	answered, unknown, changes int
	faults                     string
	took                       time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("%d operations answered and %d of unknown outcome checked, %d revisions seen by a watcher of each member, in %v; %s",
		o.answered, o.unknown, o.changes, o.took.Round(time.Second), o.faults)
}

// runUnderFaults injects faults into a cluster under load for some time, ends them and checks everything.
func runUnderFaults(n *netns.Network, c *cluster.Cluster, duration time.Duration, seed uint64) (outcome, error) {
	began := time.Now()
	clients, err := cluster.ConnectAll(configs(c.Endpoints()))
	if err != nil {
		return outcome{}, err
	}
	defer cluster.CloseAll(clients)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var watchers []*watcher
	for _, client := range clients {
		watchers = append(watchers, watch(ctx, client))
	}
	l := startLoad(clients, seed)
	faultInjector := &nemesis{network: n, cluster: c, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	injecting, end := context.WithTimeout(ctx, duration)
	defer end()
	injectErr := faultInjector.run(injecting)
	servesErr := serves(ctx, c)
	all := l.stop()
	o := outcome{answered: int(l.answered.Load()), faults: faultInjector.summary()}
	o.unknown = len(all) - o.answered
	if err := errors.Join(injectErr, servesErr); err != nil {
		return o, err
	}
	o.changes, err = check(ctx, c, clients, watchers, all)
	o.took = time.Since(began)
	return o, err
}

// serves waits until every member serves requests.
func serves(ctx context.Context, c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	for _, m := range c.Members {
		if err := m.WaitReady(ctx); err != nil {
			return fmt.Errorf("after all faults ended: %w", err)
		}
	}
	return nil
}

// check runs all checks and returns the number of revisions.
func check(ctx context.Context, c *cluster.Cluster, clients []*clientv3.Client, watchers []*watcher, all []operation) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	if err := errors.Join(linearizable(all), ordered(all)); err != nil {
		return 0, err
	}
	last, err := clients[0].Put(ctx, "last", "")
	if err != nil {
		return 0, fmt.Errorf("a last write: %w", err)
	}
	revision := last.Header.Revision
	for i, w := range watchers {
		changes, err := w.until(ctx, revision)
		if err == nil {
			err = complete(changes, all)
		}
		if err != nil {
			return 0, fmt.Errorf("the watcher of %s: %w", c.Members[i].Name, err)
		}
	}
	return int(revision - firstRevision + 1), equalHashes(ctx, clients, c.Endpoints(), revision)
}

// equalHashes compares the members' history up to a revision that all of them have reached.
func equalHashes(ctx context.Context, clients []*clientv3.Client, endpoints []string, revision int64) error {
	hashes := map[uint32]string{}
	for i, client := range clients {
		response, err := client.HashKV(ctx, endpoints[i], revision)
		if err != nil {
			return fmt.Errorf("hash of %s at %d: %w", endpoints[i], revision, err)
		}
		hashes[response.Hash] = endpoints[i]
	}
	if len(hashes) > 1 {
		return fmt.Errorf("members differ at revision %d: %v", revision, hashes)
	}
	return nil
}
