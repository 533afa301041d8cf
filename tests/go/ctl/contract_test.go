package ctl

import (
	"flag"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"stele.test/contract"
)

// offered is what etcdctl offers.
var offered = sync.OnceValues(func() (*contract.Contract, error) {
	short := map[string]string{"-w": "--write-out", "-l": "--listen", "-i": "--interactive", "-d": "--discovery-srv"}
	return contract.Read("testdata/contract.txt", short)
})

// note remembers a line that etcdctl runs, as this program does.
func note(args []string) {
	if c, err := offered(); err == nil {
		c.Note(args)
	}
}

// TestMain runs the tests, and fails if they were all run and a command or an option of etcdctl was in no line of them.
func TestMain(m *testing.M) {
	flag.Parse()
	c, err := offered()
	if err != nil {
		panic(err)
	}
	os.Exit(c.RunAll(m, (*testing.M).Run))
}

func TestTheContractIsReadAndMissingOptionsAreFound(t *testing.T) {
	c, err := offered()
	if err != nil || len(c.Commands) < 50 || len(c.Options) < 80 {
		t.Fatalf("%d commands and %d options: %v", len(c.Commands), len(c.Options), err)
	}
	some := contract.Contract{Commands: []string{"get", "lease grant"}, Options: [][2]string{{"(global)", "--write-out"}, {"get", "--rev"}}, Short: c.Short}
	for want, lines := range map[string][][]string{
		"get lease grant --write-out get --rev": {},
		"lease grant get --rev":                 {{"get", "a", "-w", "json"}, {"put", "--rev", "1"}, {"lease", "list"}},
		"":                                      {{"get", "a", "-w", "json"}, {"get", "--rev=1"}, {"lease", "grant"}},
		"lease grant":                           {{"--write-out=json", "get", "--rev=1"}, {"lease", "grant", "--help"}},
	} {
		if got := strings.Join(some.Missing(lines), " "); got != want {
			t.Errorf("%q misses %q instead of %q", lines, got, want)
		}
	}
}

// forms are the formats of all commands.
var forms = []string{"simple", "json", "fields", "table", "protobuf"}

// reads answer the same however often they are asked: they are compared on one server, in all forms, to the byte.
func reads() []line {
	var all []line
	for _, command := range []string{
		"get odd", "get b/ --prefix", "lease list", "lease timetolive 1234", "member list", "endpoint health", "endpoint hashkv",
		"alarm list", "user list", "role list", "auth status", "version", "downgrade validate 3.6", "move-leader 12",
		"get b/ --prefix --keys-only", "get --count-only _ --prefix",
	} {
		for _, form := range forms {
			next := l(command + " -w " + form)
			next.same = true
			all = append(all, next)
		}
	}
	return all
}

// writes are compared on a server each. Their protobuf names cluster and member, which differ.
func writes() []line {
	var all []line
	for _, form := range forms[:4] {
		all = append(all, split(strings.ReplaceAll(`
			put w 1 -w FORM
			put w 2 --prev-kv -w FORM
			del w --prev-kv -w FORM
			lease grant 1000 -w FORM
			lease keep-alive --once @2 -w FORM
			role add written -w FORM
			role grant-permission written readwrite a b -w FORM
			role get written -w FORM
			user add writer:secret -w FORM
			user grant-role writer written -w FORM
			user get writer -w FORM
			user get writer --detail -w FORM
			user revoke-role writer written -w FORM
			user delete writer -w FORM
			role revoke-permission written a b -w FORM
			role delete written -w FORM
			compaction 3 -w FORM
			alarm disarm -w FORM
			auth disable -w FORM
			member remove 12 -w FORM
			member promote 12 -w FORM
		`, "FORM", form))...)
		all = append(all, line{args: []string{"txn", "-w", form}, input: "mod(\"nosuch\") = \"0\"\n\nput w 3\nget w\ndel w\n\n\n"})
	}
	return all
}

// options are lines with options that stand nowhere else.
func options() []line {
	all := split(`
		put a 1 --auth-jwt-token x
		get a --discovery-srv _ --discovery-srv-name x --insecure-discovery=false
		get a --keepalive-time 3s --keepalive-timeout 7s
		get a --max-recv-bytes 10 --max-request-bytes 20
		get a --max-recv-bytes 1000000 --max-request-bytes 1000
		put a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa --max-request-bytes 30
		get a --user u --password p
		put opt/1 1
		put opt/2 2
		put opt/2 3 --ignore-lease
		put nosuch-key 3 --ignore-lease
		get opt/ --prefix --max-mod-rev 3
		get opt/ --prefix --min-mod-rev 3 --max-mod-rev 100000
		watch opt/ --prefix --prev-kv --progress-notify --rev 2 -- false
		watch a --rev 2 --prev-kv -w json -- false
		del opt/ --from-key --prev-kv
		lease grant 1000
		put leased x --lease @3
		lease timetolive @3 --keys
		lease timetolive @3 --keys -w json
		lease timetolive @3 --keys -w fields
		lock held --ttl 5 true
		lock held --ttl x true
		compaction 5 --physical
		defrag --cluster
		member update 12 --peer-urls http://127.0.0.1:1
		role add options
		role grant-permission options read f --from-key
		role revoke-permission options f --from-key
		role revoke-permission options f --from-key
		check perf --load x --prefix p --auto-compact --auto-defrag
		check datascale --load x --prefix p --auto-compact --auto-defrag
		make-mirror
		make-mirror a b
		make-mirror --max-txn-ops x ADDRESS
		make-mirror --rev x ADDRESS
		downgrade enable
		downgrade enable x
		downgrade enable 3.1
		downgrade cancel
		downgrade enable 3.6
		downgrade cancel
		help get
	`)
	loose := split(`
		get a --debug
		get a --insecure-transport=false --command-timeout 300ms
		make-mirror --dest-insecure-transport=false --dest-cacert /nonexistent/ca --dest-cert /nonexistent/c --dest-key /nonexistent/k 127.0.0.1:1
		make-mirror --dest-user u --dest-password p --dest-prefix x --no-dest-prefix --max-txn-ops 3 127.0.0.1:1 --dial-timeout 300ms
	`)
	for i := range loose {
		loose[i].loose = true
	}
	return slices.Concat(all, loose,
		[]line{{args: []string{"user", "add", "dora", "--interactive=false"}, input: "secret\n"}})
}
