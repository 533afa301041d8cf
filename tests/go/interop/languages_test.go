package interop

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stele.test/cluster"
)

var languages = flag.String("languages", "", "other languages to run the cases with: python, node, java; their libraries are fetched")

// TestOtherLanguages runs the programs of tests/interop against three members: those that can connect to a list of
// addresses do.
func TestOtherLanguages(t *testing.T) {
	if *languages == "" {
		t.Skip("needs -languages, and the network")
	}
	for _, language := range strings.Split(*languages, ",") {
		t.Run(language, func(t *testing.T) {
			RunProgram(t, language, "interop", threeMembers(t, *bin)...)
		})
	}
}

// TestOtherLanguagesLockAndElect runs jetcd, whose locks and elections are calls of the services, against etcd and Stele.
func TestOtherLanguagesLockAndElect(t *testing.T) {
	if !slices.Contains(strings.Split(*languages, ","), "java") {
		t.Skip("needs -languages java, and the network")
	}
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		t.Run(filepath.Base(binary), func(t *testing.T) {
			RunProgram(t, "java", "locks", threeMembers(t, binary)...)
		})
	}
}

// threeMembers are the addresses of a new cluster.
func threeMembers(t *testing.T, binary string) []string {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Size: 3, Args: []string{"--log-level=error"}})
	var addresses []string
	for _, endpoint := range c.Endpoints() {
		addresses = append(addresses, strings.TrimPrefix(endpoint, "http://"))
	}
	return addresses
}
