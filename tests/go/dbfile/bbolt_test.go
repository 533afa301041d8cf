// Package dbfile checks, with bbolt, etcd and its tools, the database files that Stele writes.
package dbfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// shapes is the file of which crates/dbfile/tests/writer.rs checks that the writer writes exactly it.
const shapes = "../../../crates/dbfile/tests/golden/shapes.db"

// TestBboltAcceptsTheWritersFile lets bbolt check every page, change the file, and check it again.
func TestBboltAcceptsTheWritersFile(t *testing.T) {
	db, err := bolt.Open(copied(t, shapes), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if db.Info().PageSize != 4096 {
		t.Errorf("pages of %d bytes", db.Info().PageSize)
	}
	check(t, db, "as it was written")
	want := map[string]int{"a empty": 0, "b inline": 3, "c just inline": 1, "d just not inline": 1, "e page": 2,
		"f large": 3, "g branch": 300, "h deep": 20, "i long keys": 4}
	if got := counts(t, db); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("pairs %v, want %v", got, want)
	}
	for name := range want {
		err := db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(name))
			for n := range 50 {
				if err := b.Put(fmt.Appendf(nil, "new %d", n), bytes.Repeat([]byte("v"), 100)); err != nil {
					return err
				}
			}
			if first, _ := b.Cursor().First(); bytes.HasPrefix(first, []byte("k")) {
				return b.Delete(first)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("change %s: %v", name, err)
		}
		check(t, db, "after a change of "+name)
	}
}

// check fails the test with everything that bbolt finds wrong.
func check(t *testing.T, db *bolt.DB, when string) {
	t.Helper()
	err := db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("%s: %v", when, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// counts is the number of pairs in each bucket, read with a cursor.
func counts(t *testing.T, db *bolt.DB) map[string]int {
	t.Helper()
	found := map[string]int{}
	err := db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			found[string(name)] = 0
			return b.ForEach(func(key, _ []byte) error {
				found[string(name)]++
				if b.Get(key) == nil {
					return fmt.Errorf("%s: key %q is listed and not found", name, key[:20])
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// copied is the path of a copy that the test may change.
func copied(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
