// Package crash kills members of a cluster under load and proves that nothing that was acknowledged is lost.
//
// Each writer puts rising numbers to keys that only it writes, and notes which were acknowledged. Each round
// kills one random member with SIGKILL, sometimes two or all, lets the rest go on, and brings the dead back. At
// the end every key must hold its last acknowledged number or a later one, and the members' hashes must agree.
package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
)

const (
	members  = 3
	keysEach = 10
	// writesBetween is how many writes must be acknowledged before the next kill: the load is real each time.
	writesBetween = 50
	// patience bounds each wait for the cluster to take writes again.
	patience = 60 * time.Second
)

// plan says how long and how hard a cluster is treated.
type plan struct {
	rounds  int
	writers int
	seed    uint64
}

// outcome is what a run came to.
type outcome struct {
	totals
	kills int
}

func (o outcome) String() string {
	return fmt.Sprintf("%d kills survived, %d acknowledged writes verified, %d of unknown outcome", o.kills, o.acknowledged, o.unknown)
}

// run treats a cluster as planned and verifies what it holds.
func run(ctx context.Context, c *cluster.Cluster, p plan) (outcome, error) {
	clients, err := cluster.ConnectAll(slices.Repeat([]clientv3.Config{config(c.Endpoints()...)}, p.writers))
	if err != nil {
		return outcome{}, err
	}
	defer cluster.CloseAll(clients)
	l := startLoad(clients, keysEach)
	kills, killErr := killRounds(ctx, c, l, p)
	all, err := l.stop()
	if err := errors.Join(killErr, err); err != nil {
		return outcome{kills: kills}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sum, err := verify(ctx, clients[0], all)
	if err == nil {
		err = equalMembers(ctx, clients[0], c.Endpoints())
	}
	return outcome{totals: sum, kills: kills}, err
}

func killRounds(ctx context.Context, c *cluster.Cluster, l *load, p plan) (kills int, err error) {
	random := rand.New(rand.NewPCG(p.seed, 0))
	for range p.rounds {
		if err := awaitWrites(ctx, l); err != nil {
			return kills, err
		}
		victims := random.Perm(members)[:howMany(random)]
		for _, v := range victims {
			c.Members[v].Kill()
		}
		kills += len(victims)
		// A minority is missed by nobody: see that before it comes back.
		if len(victims) <= (members-1)/2 {
			if err := awaitWrites(ctx, l); err != nil {
				return kills, fmt.Errorf("without member %v: %w", victims, err)
			}
		}
		if err := bringBack(ctx, c, victims); err != nil {
			return kills, err
		}
	}
	return kills, awaitWrites(ctx, l)
}

// howMany members die in a round: mostly one, now and then the quorum or everything.
func howMany(random *rand.Rand) int {
	switch random.IntN(6) {
	case 0:
		return 2
	case 1:
		return members
	default:
		return 1
	}
}

// bringBack starts all victims before it waits for any: none is ready before a quorum runs.
func bringBack(ctx context.Context, c *cluster.Cluster, victims []int) error {
	for _, v := range victims {
		if err := c.Members[v].Start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, cluster.StartTimeout)
	defer cancel()
	for _, v := range victims {
		if err := c.Members[v].WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func awaitWrites(ctx context.Context, l *load) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return l.await(ctx, writesBetween)
}

// config is that of every client here.
func config(endpoints ...string) clientv3.Config {
	return clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
}
