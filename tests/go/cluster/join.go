package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Layout prepares one more member on loopback, and starts nothing. It is no member of the cluster yet.
func (c *Cluster) Layout(binary string, args ...string) (*Member, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("m%d", len(c.Members)+1)
	first := c.Members[0]
	scheme := func(url string) string { return url[:strings.Index(url, ":")] }
	m := &Member{
		Name:      name,
		ClientURL: fmt.Sprintf("%s://127.0.0.1:%d", scheme(first.ClientURL), ports[0]),
		PeerURL:   fmt.Sprintf("%s://127.0.0.1:%d", scheme(first.PeerURL), ports[1]),
		tls:       first.tls,
		DataDir:   filepath.Join(c.dir, name),
		binary:    binary,
		logPath:   filepath.Join(c.dir, name+".log"),
		extra:     args,
	}
	c.Members = append(c.Members, m)
	return m, nil
}

// JoinExisting sets the flags of a member that joins: `peers` are the peer URLs by name, its own among them.
func (m *Member) JoinExisting(peers map[string]string) {
	pairs := make([]string, 0, len(peers))
	for name, url := range peers {
		pairs = append(pairs, name+"="+url)
	}
	m.args = append(m.flags(strings.Join(pairs, ","), "joins"), "--initial-cluster-state=existing")
	m.args = append(m.args, m.extra...)
}

// UseBinary makes the next run one of another server. The two must take the same flags.
func (m *Member) UseBinary(binary string) {
	if subcommand := subcommand(m.binary); len(subcommand) > 0 {
		m.args = m.args[len(subcommand):]
	}
	m.binary = binary
	m.args = append(subcommand(binary), m.args...)
}

// AddFlag adds a flag to the member's next runs.
func (m *Member) AddFlag(flag string) { m.args = append(slices.Clone(m.args), flag) }

// RemoveFlag removes a flag from the member's next runs.
func (m *Member) RemoveFlag(flag string) {
	m.args = slices.DeleteFunc(slices.Clone(m.args), func(arg string) bool { return arg == flag })
}
