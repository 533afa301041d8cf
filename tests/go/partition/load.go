package partition

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// clientsEach is how many clients each member has; each knows that member only.
	clientsEach = 2
	// keysAtOnce is how many keys all clients fight for.
	keysAtOnce = 4
	// operationsAKey is about how many operations a key sees before others replace it: the search for an order
	// grows with the operations of one key whose outcome is unknown.
	operationsAKey = 80
	// askTimeout is when the outcome of an operation counts as unknown: below an election, so that many do.
	askTimeout = 700 * time.Millisecond
	// pause between two operations of a client leaves the machine some time for the members.
	pause = 2 * time.Millisecond
	// keepAlive is when a connection that says nothing is tried and given up.
	keepAlive = time.Second
)

// load is what clients do and what came of it.
type load struct {
	began    time.Time
	sent     atomic.Int64
	cancel   context.CancelFunc
	wait     sync.WaitGroup
	mu       sync.Mutex
	all      []operation
	answered atomic.Int64
}

// configs are those of one client for each member.
func configs(endpoints []string) []clientv3.Config {
	var all []clientv3.Config
	for _, endpoint := range endpoints {
		all = append(all, clientv3.Config{
			Endpoints: []string{endpoint}, Logger: zap.NewNop(),
			DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive,
		})
	}
	return all
}

// startLoad begins to send, until stop.
func startLoad(clients []*clientv3.Client, seed uint64) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{began: time.Now(), cancel: cancel}
	for i := range clientsEach * len(clients) {
		w := worker{load: l, number: i, client: clients[i%len(clients)], random: rand.New(rand.NewPCG(seed, uint64(i)))}
		l.wait.Go(func() { w.run(ctx) })
	}
	return l
}

// stop ends the clients and returns everything they did.
func (l *load) stop() []operation {
	l.cancel()
	l.wait.Wait()
	return l.all
}

func (l *load) now() int64 { return int64(time.Since(l.began)) }

// worker is one client: it does one thing after the other.
type worker struct {
	load   *load
	number int
	client *clientv3.Client
	random *rand.Rand
	values int
	// last is what was found at each key, for swaps.
	last map[string]string
}

func (w *worker) run(ctx context.Context) {
	w.last = map[string]string{}
	for ctx.Err() == nil {
		r := w.draw()
		o := operation{client: w.number, request: r, called: w.load.now(), ending: never}
		if a, err := w.ask(ctx, r); err == nil {
			o.answer, o.ending = a, w.load.now()
			w.last[r.key] = a.found
			w.load.answered.Add(1)
		}
		w.load.mu.Lock()
		w.load.all = append(w.load.all, o)
		w.load.mu.Unlock()
		time.Sleep(pause)
	}
}

// draw decides what is next.
func (w *worker) draw() request {
	generation := w.load.sent.Add(1) / (keysAtOnce * operationsAKey)
	r := request{key: fmt.Sprintf("%05d/%d", generation, w.random.IntN(keysAtOnce))}
	switch w.random.IntN(10) {
	case 0, 1, 2, 3:
		r.kind = get
	case 4, 5, 6:
		r.kind = put
	case 7:
		r.kind = remove
	default:
		r.kind = swap
		r.expected = w.last[r.key]
	}
	if r.kind == put || r.kind == swap {
		w.values++
		r.value = fmt.Sprintf("%d-%d", w.number, w.values)
	}
	return r
}

// ask sends a request; an error says that its outcome is unknown.
func (w *worker) ask(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	switch r.kind {
	case put:
		response, err := w.client.Put(ctx, r.key, r.value, clientv3.WithPrevKV())
		if err != nil {
			return answer{}, err
		}
		a := answer{known: true, header: response.Header.Revision}
		if response.PrevKv != nil {
			a.found, a.revision = string(response.PrevKv.Value), response.PrevKv.ModRevision
		}
		return a, nil
	case remove:
		response, err := w.client.Delete(ctx, r.key, clientv3.WithPrevKV())
		if err != nil {
			return answer{}, err
		}
		a := answer{known: true, header: response.Header.Revision}
		for _, kv := range response.PrevKvs {
			a.found, a.revision = string(kv.Value), kv.ModRevision
		}
		return a, nil
	case swap:
		return w.swap(ctx, r)
	default:
		response, err := w.client.Get(ctx, r.key)
		if err != nil {
			return answer{}, err
		}
		return answered(response), nil
	}
}

// swap puts a value if the key holds the expected one, and reads the key before.
func (w *worker) swap(ctx context.Context, r request) (answer, error) {
	compare := clientv3.Compare(clientv3.Value(r.key), "=", r.expected)
	if r.expected == "" {
		compare = clientv3.Compare(clientv3.CreateRevision(r.key), "=", 0)
	}
	read := clientv3.OpGet(r.key)
	response, err := w.client.Txn(ctx).If(compare).Then(read, clientv3.OpPut(r.key, r.value)).Else(read).Commit()
	if err != nil {
		return answer{}, err
	}
	a := answered((*clientv3.GetResponse)(response.Responses[0].GetResponseRange()))
	a.header, a.swapped = response.Header.Revision, response.Succeeded
	return a, nil
}

// answered reads what a read found.
func answered(response *clientv3.GetResponse) answer {
	a := answer{known: true}
	if response.Header != nil {
		a.header = response.Header.Revision
	}
	for _, kv := range response.Kvs {
		a.found, a.revision = string(kv.Value), kv.ModRevision
	}
	return a
}
