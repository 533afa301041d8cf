package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"stele.test/wire"
)

// soon bounds an attack that is meant to stop by itself, because the server does not read on.
func soon() time.Time { return time.Now().Add(time.Second) }

// putLarge writes a value of a MiB.
func (at *target) putLarge() {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := at.other.client.Put(ctx, "large", strings.Repeat("v", 1<<20)); err != nil {
		at.t.Fatal(err)
	}
}

// TestAnswersWithoutAWindow asks for large values and gives no window for them, or a byte at a time.
func TestAnswersWithoutAWindow(t *testing.T) {
	calls := sized(60, 1000)
	for name, steps := range map[string]int{"no window": 0, "a byte at a time": sized(20_000, 1_000_000)} {
		t.Run(name, func(t *testing.T) {
			besiege(t, 200, func(at *target) {
				at.putLarge()
				c := at.open(uint32(wire.InitialWindowSize), 0)
				for i := range calls {
					if err := c.Send(get(uint32(2*i+1), "large")); err != nil {
						t.Fatal(err)
					}
				}
				at.waitForHeaders(c, calls)
				var data []byte
				for i := range steps {
					data = wire.AppendWord(data[:0], wire.WindowUpdate, uint32(2*(i%calls)+1), 1)
					if err := c.Send(data); err != nil {
						at.logf("ended after %d bytes", i)
						break
					}
				}
			})
		})
	}
}

// waitForHeaders reads until so many answers have begun.
func (at *target) waitForHeaders(c *wire.Conn, answers int) {
	at.t.Helper()
	for begun := 0; begun < answers; {
		f, err := c.Next()
		if err != nil {
			at.logf("%d of %d answers have begun: %v", begun, answers, err)
			return
		}
		if f.Type == wire.Headers {
			begun++
		}
	}
}

// TestLargeAnswersAreNotRead gives windows, but does not read what comes.
func TestLargeAnswersAreNotRead(t *testing.T) {
	besiege(t, 200, func(at *target) {
		at.putLarge()
		c := at.open(uint32(wire.InitialWindowSize), 1<<31-1)
		c.SetReceiveBuffer(4096)
		c.SetDeadline(soon())
		data, calls := wire.AppendWord(nil, wire.WindowUpdate, 0, 1<<31-1-65535), 0
		for calls < sized(60, 1000) {
			if err := c.Send(append(data, get(uint32(2*calls+1), "large")...)); err != nil {
				break
			}
			data = nil
			calls++
		}
		at.logf("%d answers of a MiB asked for", calls)
	})
}

// TestWindowsThatOverflow opens the window past what it may be, and makes it negative and positive in turn.
func TestWindowsThatOverflow(t *testing.T) {
	besiege(t, 48, func(at *target) {
		c := at.open()
		if err := c.Send(get(1, "key")); err != nil {
			t.Fatal(err)
		}
		frames := wire.AppendWord(nil, wire.WindowUpdate, 0, 1<<31-1)
		for i := range 100 {
			frames = wire.AppendSettings(frames, uint32(wire.InitialWindowSize), []uint32{0, 1<<31 - 1}[i%2])
			frames = wire.AppendWord(frames, wire.WindowUpdate, 1, 1<<31-1)
		}
		at.flood(c, frames, sized(100, 10_000))
	})
}

// TestSlowBeginnings leaves connections at every point of their beginning. They cost little, and in the end they are
// closed.
func TestSlowBeginnings(t *testing.T) {
	greeting := string(wire.AppendSettings([]byte(wire.Preface)))
	head := wire.Append(nil, wire.Headers, 0, 1, wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...))
	beginnings := []string{
		"", "P", wire.Preface[:10], wire.Preface, greeting[:len(greeting)-1], greeting + string(head[:5]), greeting + string(head[:20]),
		greeting + string(head), "GET /health HTT",
	}
	besiege(t, 48, func(at *target) {
		var held []*wire.Conn
		for i := range sized(450, 4500) {
			c, err := wire.Dial(at.address, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Send([]byte(beginnings[i%len(beginnings)])); err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		at.other.get()
		if !*long {
			return
		}
		for i, c := range held[len(held)-len(beginnings):] {
			c.SetDeadline(time.Now().Add(2 * patience))
			if v := judged(c); v.late {
				at.t.Errorf("a connection that said %q and no more is not closed", fmt.Sprintf("%.30s", beginnings[(len(held)-len(beginnings)+i)%len(beginnings)]))
			}
		}
	})
}
