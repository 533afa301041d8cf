package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// state is a state of a cluster, and the alerts that fire if it lasts.
type state struct {
	name string
	size int
	args []string
	// isNetworked puts each member into a network of its own, and hasDisks gives each a disk that can be slow.
	isNetworked, hasDisks bool
	// victimLeads makes the state one of the leader, instead of a follower.
	victimLeads bool
	load        load
	// hurt brings the cluster into the state, and returns when that shows. undo ends it.
	hurt, undo func(ctx context.Context, r *stateRig) error
	// meanwhile is done in the state, which lasts for some time at least.
	meanwhile func(ctx context.Context, r *stateRig) error
	lasts     time.Duration
	// must are the alerts that fire in the state, with the members for which they do behind an @; may are those that do
	// not matter, and after those that may outlast the state.
	must, may, after []string
}

const (
	// timeouts are seen by all putters in this time: a request fails after seven seconds, and the next one begins a second later.
	timeouts = 9 * time.Second
	// slowSync is beyond the bounds of the rules for syncs and commits, and far from an election's.
	slowSync = 600 * time.Millisecond
	// patientFollowers let no member be missed because the machine is busy.
	patientFollowers = "--election-timeout=5000"
)

// In the states of a partition etcdMembersDown does not fire, although its second half asks for messages that peers could not
// be sent: `up` has the same labels and comes first, and all members are up.
var states = []state{
	{name: "healthy", size: 3, load: usual},
	{
		name: "a member is down", size: 3, load: usual, hurt: kill(1), undo: startAll,
		must: []string{"etcdMembersDown"},
	},
	{
		name: "two members are down", size: 3, load: usual, hurt: kill(2), undo: startAll, lasts: timeouts,
		must: []string{
			"etcdMembersDown", "etcdInsufficientMembers", "etcdNoLeader@victim", "etcdHighNumberOfFailedProposals@victim",
			"etcdHighNumberOfFailedGRPCRequests@victim", "etcdGRPCRequestsSlow@victim",
		},
	},
	{
		name: "a leader is cut off", size: 3, load: usual, isNetworked: true, victimLeads: true,
		hurt: cutVictim, undo: restore, lasts: timeouts,
		must: []string{
			"etcdNoLeader@victim", "etcdHighNumberOfFailedProposals@victim",
			"etcdHighNumberOfFailedGRPCRequests@victim", "etcdGRPCRequestsSlow@victim",
		},
	},
	{
		name: "all members are cut off from each other", size: 3, load: usual, isNetworked: true,
		hurt: cutAll, undo: restore, lasts: timeouts,
		must: []string{
			"etcdNoLeader@all", "etcdHighNumberOfFailedProposals@all",
			"etcdHighNumberOfFailedGRPCRequests@all", "etcdGRPCRequestsSlow@all",
		},
	},
	{
		name: "the link to a follower is slow", size: 3, args: []string{patientFollowers}, isNetworked: true,
		load: load{of: "victim", putters: 8, bytes: 4096, pause: 10 * time.Millisecond},
		hurt: func(ctx context.Context, r *stateRig) error {
			defer r.settle(ctx)
			return r.network.Slow(r.number)
		},
		undo:  func(_ context.Context, r *stateRig) error { return r.network.RestoreSpeed(r.number) },
		lasts: timeouts,
		must:  []string{"etcdMemberCommunicationSlow@all", "etcdGRPCRequestsSlow@victim"},
	},
	{
		name: "the disk of a follower is slow", size: 3, args: []string{patientFollowers}, hasDisks: true,
		load: load{of: "others", putters: usual.putters, bytes: usual.bytes, pause: usual.pause},
		hurt: slowDisks(true), undo: fastDisks, lasts: timeouts,
		must: []string{"etcdHighFsyncDurations@victim", "etcdHighCommitDurations@victim"},
	},
	{
		name: "all disks but one are slow", size: 3, args: []string{patientFollowers}, hasDisks: true, load: usual,
		hurt: slowDisks(false), undo: fastDisks, lasts: timeouts,
		must: []string{"etcdHighFsyncDurations@others", "etcdHighCommitDurations@others", "etcdGRPCRequestsSlow@all"},
	},
	{
		name: "leadership does not stay", size: 3, load: usual, meanwhile: moveAround,
		must: []string{"etcdHighNumberOfLeaderChanges"},
		may:  []string{"etcdHighNumberOfFailedGRPCRequests", "etcdGRPCRequestsSlow"},
	},
	{
		name: "full", size: 3, args: []string{"--quota-backend-bytes=4194304"}, load: usual, hurt: fill, undo: makeRoom,
		must: []string{
			"etcdDatabaseQuotaLowSpace@all", "etcdExcessiveDatabaseGrowth@all", "etcdHighNumberOfFailedGRPCRequests@all",
		},
		// Files keep what followers may need, which is more than this small quota.
		after: []string{"etcdDatabaseQuotaLowSpace", "etcdExcessiveDatabaseGrowth"},
	},
	{
		name: "half of the files is no longer needed", size: 1, load: load{}, hurt: overwrite, undo: defragment,
		must: []string{"etcdDatabaseHighFragmentationRatio@victim"},
	},
}

// isSlow is whether calls are slow in the state.
func (s state) isSlow() bool {
	return slices.ContainsFunc(slices.Concat(s.must, s.may), func(alert string) bool {
		return strings.HasPrefix(alert, "etcdGRPCRequestsSlow")
	})
}

// kill kills so many members: one that is the victim, or all but the victim.
func kill(count int) func(context.Context, *stateRig) error {
	return func(ctx context.Context, r *stateRig) error {
		for at, m := range r.Members {
			if (at == r.number) == (count == 1) {
				m.Kill()
			}
		}
		if count == 1 {
			r.until(ctx, "a leader of the others", func(all map[string]scrape) bool { return r.knowLeader(all) == 2 })
			return nil
		}
		r.until(ctx, "a failure", func(all map[string]scrape) bool { return r.fails(all) == 1 })
		return nil
	}
}

// fails is how many members have failed puts of clients, and know no leader.
func (r *stateRig) fails(all map[string]scrape) int {
	count := 0
	for _, s := range all {
		if s.values["etcd_server_proposals_failed_total"] > 0 && s.values["etcd_server_has_leader"] == 0 {
			count++
		}
	}
	return count
}

func startAll(ctx context.Context, r *stateRig) error {
	for _, m := range r.Members {
		if m.ProcessID() == 0 {
			if err := m.Start(); err != nil {
				return err
			}
		}
	}
	return r.ready(ctx)
}

func cutVictim(ctx context.Context, r *stateRig) error {
	ways := slices.Concat(r.network.From(r.number), r.network.To(r.number))
	if err := r.network.Drop(ways...); err != nil {
		return err
	}
	r.until(ctx, "failures of one side alone", func(all map[string]scrape) bool {
		return r.fails(all) == 1 && r.knowLeader(all) == 2
	})
	return nil
}

func cutAll(ctx context.Context, r *stateRig) error {
	for at := range r.Members {
		if err := r.network.Drop(r.network.From(at)...); err != nil {
			return err
		}
	}
	r.until(ctx, "failures of all", func(all map[string]scrape) bool { return r.fails(all) == len(r.Members) })
	return nil
}

func restore(ctx context.Context, r *stateRig) error {
	if err := r.network.Restore(); err != nil {
		return err
	}
	return r.ready(ctx)
}

// slowDisks makes the disk of the victim slow, or those of all others.
func slowDisks(ofVictim bool) func(context.Context, *stateRig) error {
	return func(ctx context.Context, r *stateRig) error {
		for at := range r.Members {
			if (at == r.number) == ofVictim {
				r.disks.Slow(r.t, at, slowSync)
			}
		}
		r.settle(ctx)
		return nil
	}
}

func fastDisks(_ context.Context, r *stateRig) error {
	for at := range r.Members {
		r.disks.Slow(r.t, at, 0)
	}
	return nil
}

// moveAround lets one member after the other lead.
func moveAround(ctx context.Context, r *stateRig) error {
	for range 5 {
		from := r.leads(ctx)
		to := (from + 1) % len(r.Members)
		status, err := r.clients[to].Status(ctx, r.Members[to].ClientURL)
		if err != nil {
			return err
		}
		if _, err := r.clients[from].MoveLeader(ctx, status.Header.MemberId); err != nil {
			return err
		}
		r.until(ctx, "another leader", func(all map[string]scrape) bool {
			return all[r.Members[to].Name].values["etcd_server_is_leader"] == 1
		})
	}
	return nil
}

// fill writes until the quota refuses more.
func fill(ctx context.Context, r *stateRig) error {
	for n := 0; ; n++ {
		_, err := r.clients[0].Put(ctx, fmt.Sprint("big", n), value)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// makeRoom does what an operator does when the quota is reached.
func makeRoom(ctx context.Context, r *stateRig) error {
	deleted, err := r.clients[0].Delete(ctx, "big", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	if _, err := r.clients[0].Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return err
	}
	for {
		if _, err := r.clients[0].AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
			return err
		}
		if _, err := r.clients[0].Put(ctx, "room", "again"); err == nil {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

const (
	// needed bytes are more than the rule overlooks; with those that are overwritten they are less than what is relocated
	// at rest, and every file has more of them than one that is relocated.
	needed      = 112 << 20
	overwritten = 135 << 20
	// largeBytes are those of a value.
	largeBytes = 1 << 20
)

// overwrite writes what is needed, and between that what is not.
func overwrite(ctx context.Context, r *stateRig) error {
	large := strings.Repeat("v", largeBytes)
	garbage := 0
	for n := range needed / largeBytes {
		if _, err := r.clients[0].Put(ctx, fmt.Sprintf("needed/%03d", n), large); err != nil {
			return err
		}
		for ; garbage*needed < n*overwritten; garbage++ {
			if _, err := r.clients[0].Put(ctx, "overwritten", large); err != nil {
				return err
			}
		}
	}
	last, err := r.clients[0].Put(ctx, "overwritten", "")
	if err != nil {
		return err
	}
	_, err = r.clients[0].Compact(ctx, last.Header.Revision, clientv3.WithCompactPhysical())
	r.until(ctx, "a file that is used by half", func(all map[string]scrape) bool { return r.inUse(all) < 0.5 })
	return err
}

// inUse is the part of its files that the victim needs.
func (r *stateRig) inUse(all map[string]scrape) float64 {
	values := all[r.victim.Name].values
	return values["etcd_mvcc_db_total_size_in_use_in_bytes"] / values["etcd_mvcc_db_total_size_in_bytes"]
}

func defragment(ctx context.Context, r *stateRig) error {
	if _, err := r.clients[0].Defragment(ctx, r.victim.ClientURL); err != nil {
		return err
	}
	r.until(ctx, "files that are needed", func(all map[string]scrape) bool { return r.inUse(all) > 0.5 })
	return nil
}
