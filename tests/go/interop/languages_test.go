package interop

import (
	"flag"
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
			c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{"--log-level=error"}})
			var addresses []string
			for _, endpoint := range c.Endpoints() {
				addresses = append(addresses, strings.TrimPrefix(endpoint, "http://"))
			}
			RunProgram(t, language, "interop", addresses...)
		})
	}
}
