package metrics

import (
	"testing"

	"stele.test/netns"
)

func TestMain(m *testing.M) { netns.Main(m) }
