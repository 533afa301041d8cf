package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestRightFramesAreRight reads what this package writes with a library that knows the rules: what tests break should
// be broken on purpose.
func TestRightFramesAreRight(t *testing.T) {
	fields := append(Request("/service/method"), Field{"x-long", strings.Repeat("l", 5000)})
	data := Append(nil, Headers, EndHeaders, 1, Block(fields...))
	data = Append(data, Data, EndStream, 1, Message(0, []byte("body")))
	data = AppendSettings(data, uint32(InitialWindowSize), 7)
	data = AppendPing(AppendWord(AppendWord(data, RstStream, 1, Cancel), WindowUpdate, 0, 9), 0, 11)
	framer := http2.NewFramer(io.Discard, bytes.NewReader(data))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	next := func() http2.Frame {
		t.Helper()
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		return frame
	}
	for i, field := range next().(*http2.MetaHeadersFrame).Fields {
		if field.Name != fields[i].Name || field.Value != fields[i].Value {
			t.Fatalf("field %d is %v", i, field)
		}
	}
	if body := next().(*http2.DataFrame); !body.StreamEnded() || string(body.Data()) != "\x00\x00\x00\x00\x04body" {
		t.Fatalf("%v %q", body, body.Data())
	}
	if window, found := next().(*http2.SettingsFrame).Value(http2.SettingInitialWindowSize); !found || window != 7 {
		t.Fatalf("window %d", window)
	}
	if reset := next().(*http2.RSTStreamFrame); reset.ErrCode != http2.ErrCodeCancel {
		t.Fatalf("reset %v", reset)
	}
	if update := next().(*http2.WindowUpdateFrame); update.Increment != 9 {
		t.Fatalf("update %v", update)
	}
	if ping := next().(*http2.PingFrame); ping.Data != [8]byte{7: 11} {
		t.Fatalf("ping %v", ping)
	}
}
