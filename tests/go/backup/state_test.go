package backup

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
)

// password is root's, once there are users.
const password = "secret"

// connect makes a client of the first member, as root if auth is enabled.
func connect(t *testing.T, c *cluster.Cluster, asRoot bool) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: c.Endpoints()[:1], DialTimeout: patience, Logger: zap.NewNop()}
	if asRoot {
		config.Username, config.Password = "root", password
	}
	client, err := clientv3.New(config)
	check(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// moment is a state that a cluster had.
type moment struct {
	revision int64
	// time is one at which it was the newest state, by the clock of this machine, which the cluster has too.
	time   time.Time
	asRoot bool
	told   map[string]string
}

// now is the present state of a cluster. Nothing that happens afterwards has the same time.
func now(t *testing.T, client *clientv3.Client) moment {
	t.Helper()
	m := moment{told: answers(t, client), asRoot: client.Username != ""}
	_, err := fmt.Sscan(m.told["revision"], &m.revision)
	check(t, err)
	// Clocks in entries have milliseconds: these of the state end before this one, and the next begin behind it.
	nextMillisecond()
	m.time = time.Now()
	nextMillisecond()
	return m
}

func nextMillisecond() {
	for began := time.Now().UnixMilli(); time.Now().UnixMilli() == began; {
		time.Sleep(100 * time.Microsecond)
	}
}

// answers is all that clients can ask of the present state.
func answers(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	ctx, told := patiently(t), map[string]string{}
	hash, err := client.HashKV(ctx, client.Endpoints()[0], 0)
	check(t, err)
	told["revision"] = fmt.Sprint(hash.HashRevision, " compacted ", hash.CompactRevision)
	told["hash"] = fmt.Sprint(hash.Hash)
	found, err := client.Get(ctx, "\x00", clientv3.WithFromKey())
	check(t, err)
	for _, kv := range found.Kvs {
		told[fmt.Sprintf("key %q", kv.Key)] = fmt.Sprint(kv)
	}
	for revision := max(hash.CompactRevision, 1); revision <= hash.HashRevision; revision++ {
		past, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision), clientv3.WithKeysOnly())
		check(t, err)
		told[fmt.Sprint("at ", revision)] = fmt.Sprint(past.Kvs)
	}
	leases, err := client.Leases(ctx)
	check(t, err)
	for _, lease := range leases.Leases {
		one, err := client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		check(t, err)
		slices.SortFunc(one.Keys, bytes.Compare)
		told[fmt.Sprintf("lease %x", lease.ID)] = fmt.Sprintf("%d s, %q", one.GrantedTTL, one.Keys)
	}
	alarms, err := client.AlarmList(ctx)
	check(t, err)
	told["alarms"] = fmt.Sprint(alarms.Alarms)
	auth, err := client.AuthStatus(ctx)
	check(t, err)
	told["auth"] = fmt.Sprint(auth.Enabled, auth.AuthRevision)
	users, err := client.UserList(ctx)
	check(t, err)
	for _, user := range users.Users {
		one, err := client.UserGet(ctx, user)
		check(t, err)
		told["user "+user] = fmt.Sprint(one.Roles)
	}
	roles, err := client.RoleList(ctx)
	check(t, err)
	for _, role := range roles.Roles {
		one, err := client.RoleGet(ctx, role)
		check(t, err)
		told["role "+role] = fmt.Sprint(one.Perm)
	}
	return told
}

func compare(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for asked, answer := range want {
		if got[asked] != answer {
			t.Errorf("%s: %s: %.500s\ninstead of %.500s", what, asked, got[asked], answer)
		}
	}
	for asked := range maps.Keys(got) {
		if _, known := want[asked]; !known {
			t.Errorf("%s: %s: %.500s, which was not there", what, asked, got[asked])
		}
	}
}

// use changes what a cluster can hold: versions, transactions that compare values, deleted keys, leases.
func use(t *testing.T, client *clientv3.Client, round int) {
	t.Helper()
	ctx := patiently(t)
	lease, err := client.Grant(ctx, 3600)
	check(t, err)
	for n := range 10 {
		_, err = client.Put(ctx, fmt.Sprintf("key/%02d", n), fmt.Sprint("value ", round))
		check(t, err)
	}
	_, err = client.Put(ctx, "large", string(bytes.Repeat([]byte{byte(round)}, 200_000)))
	check(t, err)
	_, err = client.Put(ctx, fmt.Sprint("leased/", round), "x", clientv3.WithLease(lease.ID))
	check(t, err)
	swapped, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value("key/03"), "=", fmt.Sprint("value ", round)), clientv3.Compare(clientv3.Version("key/04"), ">", 0)).
		Then(clientv3.OpPut("swapped", fmt.Sprint(round)), clientv3.OpDelete("key/05")).
		Else(clientv3.OpPut("lost", "x")).
		Commit()
	check(t, err)
	if !swapped.Succeeded {
		t.Fatal("a compare that holds fails")
	}
	if round > 1 {
		gone, err := client.Leases(ctx)
		check(t, err)
		_, err = client.Revoke(ctx, gone.Leases[0].ID)
		check(t, err)
	}
}

// enableAuth makes root, a guest with a role, and turns auth on.
func enableAuth(t *testing.T, client *clientv3.Client) {
	t.Helper()
	ctx := patiently(t)
	_, err := client.RoleAdd(ctx, "reader")
	check(t, err)
	_, err = client.RoleGrantPermission(ctx, "reader", "key/", "key0", clientv3.PermissionType(clientv3.PermRead))
	check(t, err)
	for user, role := range map[string]string{"root": "root", "guest": "reader"} {
		_, err = client.UserAdd(ctx, user, password)
		check(t, err)
		_, err = client.UserGrantRole(ctx, user, role)
		check(t, err)
	}
	_, err = client.AuthEnable(ctx)
	check(t, err)
}
