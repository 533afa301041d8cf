// Package crash kills members of a cluster under load and proves that nothing that was acknowledged is lost.
//
// Each writer puts numbered values of some kilobytes to keys that only it writes, and notes which were acknowledged.
// Meanwhile history is compacted and members are defragmented, and they are told to write checkpoints often and to keep
// few entries: so checkpoints, purging and the moving of values out of old files go on all the time. Each round kills
// one random member with SIGKILL, sometimes two or all, lets the rest go on, and brings the dead back. Half of the
// rounds strike at any moment, the others when a member's files show a checkpoint or a relocation under way. What lies
// on the disk of a killed member, and its log, tell what the kill interrupted. At the end all are killed once more, so
// that what is verified comes from their files: on every member every key must hold its last acknowledged value or a
// later one, to the byte, and the members' pasts and hashes must agree.
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
	members = 3
	// writesBetween is how many writes must be acknowledged before the next kill: the load is real each time.
	writesBetween = 50
	// patience bounds each wait for the cluster to take writes again.
	patience = 60 * time.Second
)

// flags make a member write a checkpoint every quarter of a second or so, and let files go soon after.
var flags = []string{"--snapshot-count=100", "--snapshot-catchup-entries=1000"}

// plan says how long and how hard a cluster is treated.
type plan struct {
	rounds  int
	writers int
	seed    uint64
}

// outcome is what a run came to.
type outcome struct {
	totals
	background
	kills                         int
	compactions, defragmentations int
}

func (o outcome) String() string {
	return fmt.Sprintf("%d kills survived, %d acknowledged writes verified on every member, %d of unknown outcome; "+
		"%d compactions, %d defragmentations, %d checkpoints, %d files emptied by relocation, %d snapshots installed; "+
		"kills in a checkpoint %d, in a relocation %d (copies not whole %d, not in a checkpoint yet %d), in the installation of a snapshot %d",
		o.kills, o.acknowledged, o.unknown,
		o.compactions, o.defragmentations, o.checkpoints, o.relocations, o.installations,
		o.inCheckpoint, o.inRelocation, o.inCopy, o.inSwitch, o.inInstallation)
}

// run treats a cluster as planned and verifies what it holds.
func run(ctx context.Context, c *cluster.Cluster, p plan) (outcome, error) {
	clients, err := cluster.ConnectAll(slices.Repeat([]clientv3.Config{config(c.Endpoints()...)}, p.writers+1))
	if err != nil {
		return outcome{}, err
	}
	defer cluster.CloseAll(clients)
	l := startLoad(clients[:p.writers])
	u := startUpkeep(clients[p.writers], c.Endpoints())
	var o outcome
	killErr := o.killRounds(ctx, c, l, p)
	lastErr := o.kill(c, everybody())
	u.stop()
	o.compactions, o.defragmentations = u.compactions, u.defragmentations
	if err := errors.Join(killErr, lastErr, l.stop()); err != nil {
		return o, err
	}
	if err := bringBack(ctx, c, everybody()); err != nil {
		return o, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o.totals, err = verify(ctx, c, l)
	return o, err
}

// everybody is the place of every member.
func everybody() []int {
	all := make([]int, members)
	for i := range all {
		all[i] = i
	}
	return all
}

func (o *outcome) killRounds(ctx context.Context, c *cluster.Cluster, l *load, p plan) error {
	random := rand.New(rand.NewPCG(p.seed, 0))
	for range p.rounds {
		if err := awaitWrites(ctx, l); err != nil {
			return err
		}
		victims := choose(ctx, c, random)
		if err := o.kill(c, victims); err != nil {
			return err
		}
		// A minority is missed by nobody: see that before it comes back.
		if len(victims) <= (members-1)/2 {
			if err := awaitWrites(ctx, l); err != nil {
				return fmt.Errorf("without member %v: %w", victims, err)
			}
		}
		if err := bringBack(ctx, c, victims); err != nil {
			return err
		}
	}
	return awaitWrites(ctx, l)
}

// kill kills all victims, then looks at what they left.
func (o *outcome) kill(c *cluster.Cluster, victims []int) error {
	for _, v := range victims {
		if !c.Members[v].Running() {
			return fmt.Errorf("%s had ended by itself", c.Members[v].Name)
		}
		c.Members[v].Kill()
	}
	o.kills += len(victims)
	for _, v := range victims {
		if err := o.examine(c.Members[v]); err != nil {
			return err
		}
	}
	return nil
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
