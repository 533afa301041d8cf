// Command load puts load on a server where etcd's own benchmark has no words for it, and prints one JSON
// object with what came of it. Any server that speaks etcd's v3 API will do: both systems of a comparison
// meet the same client.
//
//	load list  --endpoints URL,... --keys-only --limit 10000
//	load watch --endpoints URL,... --watchers 10000 --keys 100
//	load put   --endpoints URL,... --rate 2000 --while list
//	load outage --endpoints URL,... --rate 200 --hold 10s
//	load lease --endpoints URL,... --total 10000 --ttl 5s --hold 20s
//	load scrape --endpoints URL --watchers 10000 --clients 1000 --conns 100
//	load certificates --folder PATH
//	load handshake --endpoints URL,... --cacert PATH [--cert PATH --key PATH]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"
)

// options are the flags of all kinds of load; each kind reads those that concern it.
type options struct {
	endpoints []string
	conns     int
	clients   int
	total     int
	keySpace  int
	valueSize int

	// list
	keysOnly bool
	stream   bool
	limit    int64

	// watch
	watchers int
	keys     int

	// put
	rate         int
	while        string
	sequential   bool
	kubernetes   bool
	compactEvery time.Duration

	// lease
	ttl  time.Duration
	hold time.Duration

	// certificates
	folder string

	// Who the client is, and whom it believes.
	cacert, certFile, keyFile, user string
}

// kinds are the loads, by the name they are asked for.
var kinds = map[string]func(context.Context, *session, options) error{
	"list":         readAll,
	"snapshot":     takeSnapshots,
	"get":          get,
	"watch":        watch,
	"second-watch": secondWatch,
	"put":          put,
	"outage":       longestOutage,
	"lease":        holdLeases,
	"fill-disk":    fillDisk,
	"handshake":    shakeHands,
	"scrape":       scrape,

	"meanwhile": runBackground,
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || kinds[args[0]] == nil && args[0] != "certificates" {
		return fmt.Errorf("say which load: %s", names())
	}
	opts, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	if args[0] == "certificates" {
		return writeCertificates(opts.folder)
	}
	s, err := connect(opts)
	if err != nil {
		return err
	}
	defer s.close()
	if err := kinds[args[0]](ctx, s, opts); err != nil {
		return err
	}
	if args[0] == "meanwhile" {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(s.record.summary())
}

func names() string {
	all := make([]string, 0, len(kinds))
	for name := range kinds {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}

func parse(kind string, args []string) (options, error) {
	var o options
	var endpoints string
	flags := flag.NewFlagSet(kind, flag.ContinueOnError)
	flags.StringVar(&endpoints, "endpoints", "127.0.0.1:2379", "the servers, separated by commas")
	flags.IntVar(&o.conns, "conns", 1, "connections, spread over the servers")
	flags.IntVar(&o.clients, "clients", 1, "requests in flight, spread over the connections")
	flags.IntVar(&o.total, "total", 1000, "requests to make; puts to make while watching")
	flags.IntVar(&o.keySpace, "key-space-size", 1000, "number of different keys to put or get")
	flags.IntVar(&o.valueSize, "val-size", 256, "bytes of a value")
	flags.BoolVar(&o.keysOnly, "keys-only", false, "list: leave the values out")
	flags.BoolVar(&o.stream, "stream", false, "list: ask with RangeStream")
	flags.Int64Var(&o.limit, "limit", 0, "list: at most so many keys; 0 is no limit")
	flags.IntVar(&o.watchers, "watchers", 1000, "watch, scrape: number of watchers")
	flags.IntVar(&o.keys, "keys", 1, "watch: number of keys they are spread over")
	flags.IntVar(&o.rate, "rate", 0, "put, watch, outage: puts a second, whatever the server can take; 0 is as fast as it can")
	flags.StringVar(&o.while, "while", "", "put: background load or request: "+backgroundNames())
	flags.BoolVar(&o.sequential, "sequential", false, "put: the keys in order, instead of random ones")
	flags.BoolVar(&o.kubernetes, "kubernetes", false, "put: keys as Kubernetes names its objects")
	flags.DurationVar(&o.compactEvery, "compact-every", 0, "put: compact to the newest revision meanwhile; 0 is never")
	flags.DurationVar(&o.ttl, "ttl", time.Minute, "lease, put --while expire: time to live, in whole seconds")
	flags.DurationVar(&o.hold, "hold", time.Minute, "lease: how long leases are kept alive; outage: how long puts go on")
	flags.StringVar(&o.folder, "folder", "", "certificates: where they are written")
	flags.StringVar(&o.cacert, "cacert", "", "file of the authority that the servers' certificates must be of")
	flags.StringVar(&o.certFile, "cert", "", "file of the certificate that is shown")
	flags.StringVar(&o.keyFile, "key", "", "file of its key")
	flags.StringVar(&o.user, "user", "", "name and password, with a colon between them")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.endpoints = strings.Split(endpoints, ",")
	if _, known := backgrounds[o.while]; o.while != "" && !known {
		return o, fmt.Errorf("--while %q: choose one of %s", o.while, backgroundNames())
	}
	counts := map[string]int{
		"conns": o.conns, "clients": o.clients, "total": o.total,
		"key-space-size": o.keySpace, "watchers": o.watchers, "keys": o.keys,
	}
	if o.rate < 0 {
		return o, fmt.Errorf("--rate must be 0 or more, not %d", o.rate)
	}
	for name, value := range counts {
		if value < 1 {
			return o, fmt.Errorf("--%s must be at least 1, not %d", name, value)
		}
	}
	return o, nil
}
