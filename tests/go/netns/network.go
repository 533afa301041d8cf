// Package netns gives each member of a cluster a network namespace of its own, with a router between them that cuts links in
// one direction at a time and makes them slow. It needs root and iproute2; where it may not, tests are skipped.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"stele.test/cluster"
)

// Network is a router with one link to each member, which runs in a network namespace of its own. Links are cut in the
// router, one direction at a time, so that packets are dropped without a notice to either end. The clients run on the
// router: no cut between members separates a member from its clients.
type Network struct {
	members int
	cut     map[Direction]bool
}

// Direction is a way from one member to another, both counted from 0.
type Direction struct{ From, To int }

// New makes the namespaces and links of so many members. A process has one network; its tests must run within [Main].
func New(members int) (*Network, error) {
	if notPermitted != "" {
		return nil, errors.New(notPermitted)
	}
	n := &Network{members: members, cut: map[Direction]bool{}}
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

// From are the ways from a member to all others.
func (n *Network) From(member int) []Direction {
	var ways []Direction
	for other := range n.members {
		if other != member {
			ways = append(ways, Direction{member, other})
		}
	}
	return ways
}

// To are the ways to a member from all others.
func (n *Network) To(member int) []Direction {
	ways := n.From(member)
	for i, way := range ways {
		ways[i] = Direction{way.To, way.From}
	}
	return ways
}

// Hosts are the network namespaces of the members.
func (n *Network) Hosts() []cluster.Host {
	var hosts []cluster.Host
	for i := range n.members {
		hosts = append(hosts, cluster.Host{Address: address(i), Prefix: []string{"ip", "netns", "exec", space(i)}})
	}
	return hosts
}

// Drop drops all packets in these directions.
func (n *Network) Drop(ways ...Direction) error {
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

// Restore ends all drops.
func (n *Network) Restore() error {
	for way := range n.cut {
		if err := rule("del", way); err != nil {
			return err
		}
		delete(n.cut, way)
	}
	return nil
}

// rule adds or deletes a routing rule that drops what arrives on one link for the member of the other.
func rule(verb string, way Direction) error {
	preference := fmt.Sprint(100 + 10*way.From + way.To)
	return ip("rule", verb, "preference", preference, "iif", link(way.From), "to", address(way.To), "blackhole")
}

// Plug connects or disconnects a member completely, from its clients too.
func (n *Network) Plug(i int, in bool) error {
	return ip("link", "set", link(i), map[bool]string{true: "up", false: "down"}[in])
}

// Slow delays and loses packets to a member; if the kernel has no netem, it limits their rate.
func (n *Network) Slow(i int) error {
	err := run("tc", "qdisc", "add", "dev", link(i), "root", "netem", "delay", "60ms", "40ms", "loss", "5%")
	if err == nil {
		return nil
	}
	return run("tc", "qdisc", "add", "dev", link(i), "root", "tbf", "rate", "200kbit", "burst", "4kb", "latency", "300ms")
}

// RestoreSpeed undoes Slow.
func (n *Network) RestoreSpeed(i int) error { return run("tc", "qdisc", "del", "dev", link(i), "root") }

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
