package crash

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"stele.test/cluster"
)

const (
	// aimPatience is how long a member is waited for that is at what is aimed at; then any moment will do.
	aimPatience = time.Second
	// aimEvery is how often the members' files are looked at.
	aimEvery = time.Millisecond
	// aimDelayMax is the most that a kill comes after what was seen: it is to strike beginnings, middles and ends.
	aimDelayMax = 2 * time.Millisecond
)

// aims are what rounds strike, one as often as another; nil is any moment.
var aims = []func(remains) bool{
	nil, nil, nil,
	func(r remains) bool { return r.checkpoint },
	func(r remains) bool { return r.copying },
	func(r remains) bool { return r.switching },
}

// choose waits for the moment that a round is to strike, and says who dies, in this order: whoever was seen, if one was
// aimed at, and others by chance.
func choose(ctx context.Context, c *cluster.Cluster, random *rand.Rand) []int {
	order := random.Perm(members)
	count := howMany(random)
	delay := time.Duration(random.Int64N(int64(aimDelayMax)))
	if aim := aims[random.IntN(len(aims))]; aim != nil {
		if seen, found := sight(ctx, c, order, aim); found {
			order = append([]int{seen}, slices.DeleteFunc(order, func(v int) bool { return v == seen })...)
			time.Sleep(delay)
		}
	}
	return order[:count]
}

// sight looks at the members' files until one of them is at it.
func sight(ctx context.Context, c *cluster.Cluster, order []int, aim func(remains) bool) (seen int, found bool) {
	ctx, cancel := context.WithTimeout(ctx, aimPatience)
	defer cancel()
	ticker := time.NewTicker(aimEvery)
	defer ticker.Stop()
	for {
		for _, v := range order {
			// Files come and go under the eyes: an error only means that nothing was seen.
			if now, err := findRemains(c.Members[v].DataDir); err == nil && aim(now) {
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
