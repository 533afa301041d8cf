package metrics

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/slowdisk"
)

const (
	// commits is how often etcd has written its database, a moment after it has written its log.
	commits = "etcd_disk_backend_commit_duration_seconds_count"
	// restTime is many times that moment.
	restTime = 500 * time.Millisecond
	// noAnswer is how long a check is waited for that will not be answered.
	noAnswer = time.Second
	// untilAgreement is the check that needs the other members.
	untilAgreement = "/readyz/linearizable_read"
)

// failing are the checks that fail in etcd while the disk of a member stands still.
var failing = map[string]bool{
	"/health": true, "/health?exclude=NOSPACE": true, "/readyz?verbose": true, "/readyz?allowlist=non_learner&verbose": true,
	"/readyz/linearizable_read": true,
}

// TestHealthBesideAFrozenDiskIsEtcds freezes the file system of a member, here and in etcd: that of the leader of three,
// where all checks answer as etcd's do, and that of a lone member, which goes on to answer reads here, and so its checks
// are well. docs/compat.md says so.
func TestHealthBesideAFrozenDiskIsEtcds(t *testing.T) {
	for name, size := range map[string]int{"leader of three": 3, "lone member": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			answers := make(chan map[string]string, 1)
			etcd, own := newFrozen(ctx, t, cluster.EtcdPath(), size), newFrozen(ctx, t, *bin, size)
			for _, f := range []*frozen{etcd, own} {
				f.freeze(ctx, t)
			}
			go func() { answers <- ask(ctx, etcd.m) }()
			ours := ask(ctx, own.m)
			theirs := <-answers
			for _, path := range paths {
				if failing[path] != strings.HasPrefix(theirs[path], "503") {
					t.Errorf("%s: etcd answers %q", path, theirs[path])
				}
				if size == 1 && failing[path] {
					if !strings.HasPrefix(ours[path], "200") {
						t.Errorf("%s of a lone member: %q", path, ours[path])
					}
					continue
				}
				// In etcd two timers run for /health, and either may end it.
				wanted := strings.Replace(theirs[path], "context deadline exceeded", "etcdserver: request timed out", 1)
				if ours[path] != wanted {
					t.Errorf("%s: etcd answers %q, Stele %q", path, theirs[path], ours[path])
				}
			}
			for _, f := range []*frozen{etcd, own} {
				f.images.Thaw(t, f.m)
				awaitStatus(ctx, t, f.m, "/readyz", http.StatusOK)
			}
		})
	}
}

// frozen is a cluster whose leader's disk will stand still.
type frozen struct {
	*rig
	images *slowdisk.Images
	// m is that leader, and number its place.
	m      *cluster.Member
	number int
	isOwn  bool
}

func newFrozen(ctx context.Context, t *testing.T, binary string, size int) *frozen {
	t.Helper()
	images := slowdisk.NewImages(t, size)
	r := newRig(t, cluster.ForTest(t, cluster.Config{Binary: binary, Size: size, Hosts: images.Hosts(), Args: quick}))
	leads, err := r.leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := &frozen{rig: r, images: images, m: r.Members[leads], number: leads, isOwn: cluster.IsStele(binary)}
	if !f.isOwn {
		// What else it writes by itself.
		awaitLog(ctx, t, f.m, `"new-storage-version":"3.7`)
	}
	return f
}

// freeze stops the disk, and waits until a put waits for it and what needs an agreement is not answered any more. An etcd
// whose database is being written when its disk stops answers no reads at all: that is not compared, but tried again.
func (f *frozen) freeze(ctx context.Context, t *testing.T) {
	t.Helper()
	for {
		f.rest(ctx, t)
		f.images.Freeze(t, f.m)
		go f.clients[f.number].Put(ctx, "during", "value")
		awaitMetric(ctx, t, f.m, "etcd_server_proposals_pending", func(n float64) bool { return n > 0 })
		if f.isOwn {
			awaitStall(ctx, t, f.m)
			if len(f.Members) == 1 {
				return
			}
			// It hands its leadership over.
			awaitMetric(ctx, t, f.m, "etcd_server_is_leader", func(is float64) bool { return is == 0 })
			awaitMetric(ctx, t, f.m, "etcd_server_has_leader", func(has float64) bool { return has == 1 })
		}
		for f.answers(ctx, untilAgreement) {
			if pause(ctx) != nil {
				t.Fatal("linearizable reads are answered on and on")
			}
		}
		if f.answers(ctx, "/livez") {
			return
		}
		if f.isOwn || ctx.Err() != nil {
			t.Fatal("reads of the member's own state are not answered")
		}
		f.images.Thaw(t, f.m)
		awaitStatus(ctx, t, f.m, "/readyz", http.StatusOK)
	}
}

// rest waits until the database was not written for some time.
func (f *frozen) rest(ctx context.Context, t *testing.T) {
	t.Helper()
	for before, rested := -1.0, time.Now(); time.Since(rested) < restTime; {
		s, err := scrapeOf(ctx, f.m)
		if err == nil && s.values[commits] != before {
			before, rested = s.values[commits], time.Now()
		}
		if pause(ctx) != nil {
			t.Fatal("the database is written again and again")
		}
	}
}

// answers says whether a check is answered within noAnswer.
func (f *frozen) answers(ctx context.Context, path string) bool {
	ctx, end := context.WithTimeout(ctx, noAnswer)
	defer end()
	_, _, err := get(ctx, f.m, path)
	return err == nil
}
