package manual

import "testing"

func TestABlockThatNoTestTookIsKnown(t *testing.T) {
	p, err := Open("backup.md")
	if err != nil || len(p.blocks) < 5 {
		t.Fatalf("%d blocks: %v", len(p.blocks), err)
	}
	if len(p.notRun()) != len(p.blocks) {
		t.Error("a block counts as run before any was")
	}
	if _, err := p.Block("stele utl backup verify"); err != nil {
		t.Error(err)
	}
	if len(p.notRun()) != len(p.blocks)-1 {
		t.Error("a block that was taken does not count as run")
	}
	if _, err := p.Block("verify"); err == nil {
		t.Error("a text within a line is taken for its beginning")
	}
}
