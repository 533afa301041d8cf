package ctl

import (
	"slices"
	"strings"
	"testing"
)

// line is one call.
type line struct {
	args  []string
	input string
	env   []string
	// same lines are asked of one server: what they print differs from server to server.
	same bool
	// loose lines have errors that are for people, not for scripts.
	loose bool
}

// l splits a line at its spaces; `_` stands for an empty argument.
func l(text string) line {
	args := strings.Fields(text)
	for i, arg := range args {
		if arg == "_" {
			args[i] = ""
		}
	}
	return line{args: args}
}

func split(lines string) []line {
	var all []line
	for text := range strings.Lines(lines) {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, l(text))
		}
	}
	return all
}

// pages are the help pages of all commands and groups of them, and lines that no server is asked for.
func pages(t *testing.T) []line {
	t.Helper()
	c, err := offered()
	if err != nil {
		t.Fatal(err)
	}
	commands := append([]string{"", "help"}, c.Commands...)
	for _, command := range c.Commands {
		if group, _, has := strings.Cut(command, " "); has {
			commands = append(commands, group)
		}
	}
	slices.Sort(commands)
	var all []line
	for _, command := range slices.Compact(commands) {
		all = append(all, l(command+" --help"))
	}
	return append(all, split(`
		foo
		l
		geet
		lease foo
		get --foo a
		get --limit=abc k
		get --limit 99999999999999999999 k
		get --limit
		get --prefix=x k
		get --=x
		-w
		-x get
		--dial-timeout=abc get k
		--dial-timeout 5 get k
		help nosuch
		help lease grant
		me li --help
		options
		version
		completion
		completion foo
		check perf --load x
	`)...)
}

// keyLines are about keys, transactions, leases and watches: any server can take them.
func keyLines() []line {
	all := split(`
		put a 1
		put b/1 one --prev-kv
		put b/2 two -w json
		put b/2 zwei --prev-kv -w json
		put b/2 deux --prev-kv -w fields
		put b/2 --ignore-value
		put b/2 x --ignore-value
		put
		put a b --lease zz
		put a b --lease 123456
		put a b -w foo
		put -- -k -v
		get -- -k
		get b/ --prefix
		get b/ --prefix -w json
		get b/ --prefix -w fields
		get b/ --prefix -w fields --hex
		get b/ --prefix --hex
		get b/ --prefix -w table
		get b/ --prefix --keys-only
		get b/ --prefix --print-value-only
		get b/ --prefix --print-value-only -w json
		get b/ --prefix --count-only
		get b/ --prefix --count-only -w fields
		get b/ --prefix --order DESCEND --limit 1 -w json
		get b/ --prefix --sort-by VERSION --order descend
		get b/ --prefix --sort-by nosuch
		get b/ --prefix --order nosuch
		get b/ --prefix --rev 4
		get b/ --prefix --rev 99999
		get b/ --prefix --min-mod-rev 5
		get b/ --prefix --max-create-rev 3 -w json
		get b/ --prefix --min-create-rev 5 --max-create-rev 3
		get b/ --prefix --from-key
		get b/ c --prefix
		get a c
		get --from-key b/2
		get --prefix _
		get --stream a c -w json
		get a --consistency s
		get a --consistency x
		get nosuch -w json
		get
		del a -w json
		del b/1 --prev-kv
		del b/2 --prev-kv -w fields
		del x y --range
		del
		del a b c
		lease grant 1000
		lease grant x
		lease grant
		lease list
		lease list -w json
		lease timetolive @1 -w table
		lease timetolive 1234
		lease timetolive 1234 -w json
		put leased x --lease @1
		get leased -w fields --hex
		lease timetolive zz
		lease keep-alive --once @1
		lease keep-alive --once @1 -w json
		lease keep-alive --once @1 -w fields
		lease keep-alive --once 1234
		lease revoke @1
		lease revoke @1
		compaction
		compaction x
		compaction 99999
		compaction 4
		compaction 4
		get a --rev 2
		watch
		watch a --
		watch a b --prefix
		watch a --rev 2
		watch a --rev 2 -w json
	`)
	txn := func(input string, args ...string) line {
		return line{args: append([]string{"txn"}, args...), input: input}
	}
	return append(all,
		line{args: []string{"put", "from-stdin"}, input: "some\nlines"},
		line{args: []string{"put", "from-stdin"}},
		line{args: []string{"put", "odd", "a\n\"<&>é\u2028\xff\x01\U0001f600"}},
		l("get odd -w json"), l("get odd -w fields"), l("get odd --hex"), l("get odd"),
		txn("mod(\"odd\") > \"0\"\n\nput t \"x y\"\nget t\n\nget nosuch\n\n"),
		txn("mod(\"odd\") > \"0\"\n\nput t 'x'\nget t\ndel t --prev-kv\n\n\n", "-w", "json"),
		txn("val(\"t\") = \"q\"\n\nput t 'x'\n\nget odd --keys-only\nput n 1\n\n", "-w", "fields"),
		txn("ver(\"nosuch\") = \"0\"\n\n\n\n", "-i"),
		txn("foo\n\n\n\n"),
		txn("size(\"a\") > \"0\"\n\n\n\n"),
		txn("mod(\"a\") > \"x\"\n\n\n\n"),
		txn("\nwatch a\n\n\n"),
		txn("\nget\n\n\n"),
		txn("mod(\"a\")"),
		txn("\n\n\n", "x"),
		line{args: []string{"watch"}, env: []string{"ETCDCTL_WATCH_RANGE_END=b"}},
		line{args: []string{"watch", "a"}, env: []string{"ETCDCTL_WATCH_KEY=a"}},
		line{args: []string{"watch", "odd", "--rev", "5", "--", "sh", "-c", "echo $ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_REVISION; exit 3"}},
		line{args: []string{"watch", "odd", "--rev", "5", "-w", "json", "--", "false"}},
		line{args: []string{"watch", "odd", "--rev", "5", "-w", "fields", "--", "/nonexistent"}, loose: true},
		line{args: []string{"watch", "-i"}, input: "foo\nwatch\n"},
		line{args: []string{"lock", "l", "sh", "-c", "echo held; exit 7"}},
		line{args: []string{"lock", "l", "true"}},
		line{args: []string{"lock"}},
		line{args: []string{"elect"}},
		line{args: []string{"elect", "e"}},
		line{args: []string{"elect", "e", "v", "-l"}},
		line{args: []string{"get", "odd", "--endpoints", "ADDRESS"}, env: nil, loose: true}.timed(),
		line{args: []string{"get", "odd"}, env: []string{"ETCDCTL_WRITE_OUT=json", "ETCDCTL_API=3"}, loose: true},
		line{args: []string{"get", "odd", "-w", "json"}, env: []string{"ETCDCTL_WRITE_OUT=json"}, loose: true},
	)
}

// serverLines print what only one server says.
func serverLines() []line {
	all := split(`
		get odd -w protobuf
		member list -w protobuf
		endpoint status
		endpoint status -w json
		endpoint status -w fields
		endpoint status -w fields --hex
		endpoint status --cluster -w table
		endpoint hashkv
		endpoint hashkv -w json
		endpoint hashkv -w fields
		endpoint hashkv -w table
		endpoint hashkv --rev 5
	`)
	for i := range all {
		all[i].same = true
	}
	return all
}

// timed gives a line that no server answers a short deadline.
func (l line) timed() line {
	l.args = append(l.args[:2:2], "--command-timeout", "100ms", "--user", "u:p", "--dial-timeout", "100ms")
	l.env = append(l.env, "ETCDCTL_ENDPOINTS=127.0.0.1:1")
	return l
}

// clusterLines are about members and users: they need a server that has all of it.
func clusterLines() []line {
	all := split(`
		member list
		member list -w json
		member list -w json --hex
		member list -w fields
		member list -w table
		member list --consistency x
		member add
		member add a b http://x
		member add a
		member add a --peer-urls x
		member remove zz
		member remove 12
		member update 12
		member promote 12
		endpoint health
		endpoint health -w json
		endpoint health -w table
		endpoint hashkv --rev 99999
		endpoint health -w protobuf
		alarm list
		alarm list -w json
		alarm list x
		alarm disarm -w json
		defrag
		move-leader
		move-leader zz
		move-leader 12
		downgrade validate
		downgrade validate 3.6
		downgrade validate 3.1
		snapshot save
		snapshot save @dir/s.db
		snapshot save /nonexistent/s.db
		member add learner --peer-urls http://127.0.0.1:1 --learner
		auth status
		auth status -w json
		user add
		user add :x
		user add alice:secret
		user add alice:secret
		user add bob --new-user-password secret -w json
		user add carl --no-password
		user list
		user list -w json
		user list -w fields
		user delete carl
		user delete nosuch
		role add r
		role add r
		role grant-permission r
		role grant-permission r read
		role grant-permission r nosuch k
		role grant-permission r read k
		role grant-permission r readwrite p/ --prefix
		role grant-permission r write a z
		role grant-permission r read f --from-key
		role get r
		role get r -w json
		role get r -w fields
		role get nosuch
		role list
		role list -w fields
		user grant-role alice r
		user grant-role alice nosuch
		user get alice
		user get alice --detail
		user get alice -w json
		user get nosuch
		role revoke-permission r k
		role revoke-permission r p/ --prefix
		role revoke-permission r nosuch
		user revoke-role alice r
		role delete r
		auth enable
		user add root:secret
		auth enable
		get a
		get a --user root:wrong
		get a --user root:secret
		get a --user alice:secret
		auth status --user root:secret
		auth disable --user root:secret
	`)
	return append(all,
		line{args: []string{"user", "passwd", "bob", "--interactive=false"}, input: "new\n"},
		line{args: []string{"user", "passwd", "bob"}, input: "one\ntwo\n"},
		line{args: []string{"user", "passwd", "bob"}, input: "one\none\n"},
		l("lease list -w table"),
	)
}
