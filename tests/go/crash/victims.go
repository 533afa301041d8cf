package crash

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"stele.test/cluster"
)

const (
	// maxWait is how long a round waits for its moment; then it kills at once.
	maxWait = time.Second
	// lookEvery is how often the members' files are read.
	lookEvery = time.Millisecond
	// maxKillDelay is the longest delay of a kill after its moment, so that kills interrupt beginnings, middles and ends.
	maxKillDelay = 2 * time.Millisecond
)

// moments are when rounds kill, each with equal probability; nil is any time.
var moments = []func(unfinishedWork) bool{
	nil, nil, nil,
	func(r unfinishedWork) bool { return r.checkpoint },
	func(r unfinishedWork) bool { return r.copying },
	func(r unfinishedWork) bool { return r.switching },
}

// chooseVictims waits for the moment of a round and returns the members to kill: first the member that is at this moment,
// if one was found, then random ones.
func chooseVictims(ctx context.Context, c *cluster.Cluster, random *rand.Rand) []int {
	order := random.Perm(members)
	count := victimCount(random)
	delay := time.Duration(random.Int64N(int64(maxKillDelay)))
	if moment := moments[random.IntN(len(moments))]; moment != nil {
		if seen, found := awaitMoment(ctx, c, order, moment); found {
			order = append([]int{seen}, slices.DeleteFunc(order, func(v int) bool { return v == seen })...)
			time.Sleep(delay)
		}
	}
	return order[:count]
}

// awaitMoment reads the members' files until one of them is at the moment.
func awaitMoment(ctx context.Context, c *cluster.Cluster, order []int, moment func(unfinishedWork) bool) (seen int, found bool) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		for _, v := range order {
			// Files appear and vanish while they are read: an error only means that nothing was found.
			if now, err := findUnfinished(c.Members[v].DataDir); err == nil && moment(now) {
				return v, true
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, false
		}
	}
}
