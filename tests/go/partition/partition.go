// Package partition cuts the network between the members of a real cluster, in every shape, and proves that what its
// clients saw is strictly serializable.
//
// Each member lives in a network namespace of its own, all linked to a router, where packets are dropped one direction
// at a time. Clients of each member put, get, delete and swap values of a few keys, with timeouts after which nobody
// knows what became of a request; members are killed and frozen as well. At the end each key's history must have a
// linear order (porcupine looks for it), revisions must follow real time across keys, a watcher of each member must
// have been told every revision once and in order, and the members' hashes must agree.
package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	members = 3
	// firstRevision is the first change's.
	firstRevision = 2
	// patience bounds every wait for the healed cluster.
	patience = 60 * time.Second
)

// flags make elections quick, so that short cuts bring many.
var flags = []string{"--heartbeat-interval=50", "--election-timeout=500"}

// outcome is what a run came to.
type outcome struct {
	answered, unknown, changes int
	faults                     string
	took                       time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("%d operations answered and %d of unknown outcome checked, %d revisions seen by a watcher of each member, in %v; %s",
		o.answered, o.unknown, o.changes, o.took.Round(time.Second), o.faults)
}

// torment lets faults strike a cluster under load for some time, heals it and checks everything.
func torment(n *network, c *cluster.Cluster, duration time.Duration, seed uint64) (outcome, error) {
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
	evil := &nemesis{network: n, cluster: c, random: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}}
	striking, end := context.WithTimeout(ctx, duration)
	defer end()
	struckErr := evil.run(striking)
	servesErr := serves(ctx, c)
	all := l.stop()
	o := outcome{answered: int(l.answered.Load()), faults: evil.struck()}
	o.unknown = len(all) - o.answered
	if err := errors.Join(struckErr, servesErr); err != nil {
		return o, err
	}
	o.changes, err = check(ctx, c, clients, watchers, all)
	o.took = time.Since(began)
	return o, err
}

// serves waits until every member does.
func serves(ctx context.Context, c *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, m := range c.Members {
		if err := m.WaitReady(ctx); err != nil {
			return fmt.Errorf("after everything was healed: %w", err)
		}
	}
	return nil
}

// check holds everything that was seen against what must be, and returns how many revisions there were.
func check(ctx context.Context, c *cluster.Cluster, clients []*clientv3.Client, watchers []*watcher, all []operation) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
