// Package crash kills members of a cluster under load and verifies that no acknowledged write is lost.
//
// Each writer puts numbered values of some kilobytes to keys that only it writes, and records which were acknowledged.
// Meanwhile history is compacted, members are defragmented, write checkpoints often and keep few entries, so that
// checkpoints, purging and relocation are always under way. Each round kills one random member with SIGKILL, sometimes
// two or all, waits for writes on the others, and restarts the victims. Half of the rounds kill at any time, the others
// when a member's files show a checkpoint or a relocation under way. The files and the log of a killed member show what
// the kill interrupted. At the end all members are killed once more, so that verification reads their files: on every
// member every key must hold its last acknowledged value or a later one, to the byte, and the members' history and hashes
// must be equal.
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
	// writesBetween is the number of writes that must be acknowledged before the next kill.
	writesBetween = 50
	// recoveryTimeout bounds each wait for the cluster to take writes again.
	recoveryTimeout = 60 * time.Second
)

// flags make a member write about four checkpoints a second and free files soon after.
var flags = []string{"--snapshot-count=100", "--snapshot-catchup-entries=1000"}

// plan is the size of a run.
type plan struct {
	rounds  int
	writers int
	seed    uint64
}

// outcome is the result of a run.
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

// run kills members of a cluster as planned and verifies its content.
func run(ctx context.Context, c *cluster.Cluster, p plan) (outcome, error) {
	clients, err := cluster.ConnectAll(slices.Repeat([]clientv3.Config{config(c.Endpoints()...)}, p.writers+1))
	if err != nil {
		return outcome{}, err
	}
	defer cluster.CloseAll(clients)
	l := startLoad(clients[:p.writers])
	m := startMaintenance(clients[p.writers], c.Endpoints())
	var o outcome
	killErr := o.killRounds(ctx, c, l, p)
	lastErr := o.kill(c, allMembers())
	m.stop()
	o.compactions, o.defragmentations = m.compactions, m.defragmentations
	if err := errors.Join(killErr, lastErr, l.stop()); err != nil {
		return o, err
	}
	if err := restart(ctx, c, allMembers()); err != nil {
		return o, err
	}
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	o.totals, err = verify(ctx, c, l)
	return o, err
}

// allMembers returns the index of every member.
func allMembers() []int {
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
		victims := chooseVictims(ctx, c, random)
		if err := o.kill(c, victims); err != nil {
			return err
		}
		// Without a minority of its members the cluster serves writes: check it before the restart.
		if len(victims) <= (members-1)/2 {
			if err := awaitWrites(ctx, l); err != nil {
				return fmt.Errorf("without member %v: %w", victims, err)
			}
		}
		if err := restart(ctx, c, victims); err != nil {
			return err
		}
	}
	return awaitWrites(ctx, l)
}

// kill kills all victims, then examines their files.
func (o *outcome) kill(c *cluster.Cluster, victims []int) error {
	for _, v := range victims {
		if !c.Members[v].Running() {
			return fmt.Errorf("%s had exited by itself", c.Members[v].Name)
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

// victimCount is the number of members that a round kills: usually one, sometimes a quorum or all.
func victimCount(random *rand.Rand) int {
	switch random.IntN(6) {
	case 0:
		return 2
	case 1:
		return members
	default:
		return 1
	}
}

// restart starts all victims before it waits for any: no member is ready before a quorum runs.
func restart(ctx context.Context, c *cluster.Cluster, victims []int) error {
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
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	return l.await(ctx, writesBetween)
}

// config is that of every client here.
func config(endpoints ...string) clientv3.Config {
	return clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
}
