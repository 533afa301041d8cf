package partition

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"stele.test/cluster"
)

// network is a router with one link to each member, which runs in a network namespace of its own. Links are cut in the
// router, one direction at a time, so that packets are dropped without a notice to either end. The clients run on the
// router: no cut between members separates a member from its clients.
type network struct {
	cut map[direction]bool
}

// direction is a way from one member to another, both counted from 0.
type direction struct{ from, to int }

// newNetwork makes the namespaces and links. The process must be in a network namespace of its own.
func newNetwork() (*network, error) {
	n := &network{cut: map[direction]bool{}}
	if err := ip("link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return nil, fmt.Errorf("let the router forward: %w", err)
	}
	for i := range members {
		if err := addMember(i); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func addMember(i int) error {
	space, link := space(i), link(i)
	return inOrder(
		[]string{"netns", "add", space},
		[]string{"link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space},
		[]string{"addr", "add", routerAddress(i) + "/24", "dev", link},
		[]string{"link", "set", link, "up"},
		[]string{"-n", space, "addr", "add", address(i) + "/24", "dev", "eth0"},
		[]string{"-n", space, "link", "set", "eth0", "up"},
		[]string{"-n", space, "link", "set", "lo", "up"},
		[]string{"-n", space, "route", "add", "default", "via", routerAddress(i)},
	)
}

func space(i int) string         { return fmt.Sprintf("member%d", i+1) }
func link(i int) string          { return fmt.Sprintf("link%d", i+1) }
func address(i int) string       { return fmt.Sprintf("10.77.%d.2", i+1) }
func routerAddress(i int) string { return fmt.Sprintf("10.77.%d.1", i+1) }

// hosts are the network namespaces of the members.
func (n *network) hosts() []cluster.Host {
	var hosts []cluster.Host
	for i := range members {
		hosts = append(hosts, cluster.Host{Address: address(i), Prefix: []string{"ip", "netns", "exec", space(i)}})
	}
	return hosts
}

// drop drops all packets in these directions.
func (n *network) drop(ways ...direction) error {
	for _, way := range ways {
		if n.cut[way] {
			continue
		}
		if err := rule("add", way); err != nil {
			return err
		}
		n.cut[way] = true
	}
	return nil
}

// restore ends all drops.
func (n *network) restore() error {
	for way := range n.cut {
		if err := rule("del", way); err != nil {
			return err
		}
		delete(n.cut, way)
	}
	return nil
}

// rule adds or deletes a routing rule that drops what arrives on one link for the member of the other.
func rule(verb string, way direction) error {
	preference := fmt.Sprint(100 + 10*way.from + way.to)
	return ip("rule", verb, "preference", preference, "iif", link(way.from), "to", address(way.to), "blackhole")
}

// plug connects or disconnects a member completely, from its clients too.
func (n *network) plug(i int, in bool) error {
	return ip("link", "set", link(i), map[bool]string{true: "up", false: "down"}[in])
}

// slow delays and loses packets to a member; if the kernel has no netem, it limits their rate.
func (n *network) slow(i int) error {
	err := run("tc", "qdisc", "add", "dev", link(i), "root", "netem", "delay", "60ms", "40ms", "loss", "5%")
	if err == nil {
		return nil
	}
	return run("tc", "qdisc", "add", "dev", link(i), "root", "tbf", "rate", "200kbit", "burst", "4kb", "latency", "300ms")
}

// restoreSpeed undoes slow.
func (n *network) restoreSpeed(i int) error { return run("tc", "qdisc", "del", "dev", link(i), "root") }

func inOrder(commands ...[]string) error {
	for _, words := range commands {
		if err := ip(words...); err != nil {
			return err
		}
	}
	return nil
}

func ip(words ...string) error { return run("ip", words...) }

func run(name string, words ...string) error {
	output, err := exec.Command(name, words...).CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(words, " "), err, strings.TrimSpace(string(output)))
	}
	return err
}
