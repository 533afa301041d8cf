package corruption

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// Of the format of segments (docs/internals/log.md): a header with the incarnation, then records at multiples of 8.
const (
	fileHeaderBytes   = 64
	incarnationOffset = 32
	recordHeadBytes   = 28
	bodyLengthOffset  = 8
	bodySumOffset     = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rewriteLog replaces a text by another one of the same length in all entries of a member that does not run, with the
// checksums that belong to the new text: as if this member alone had been told something else.
func rewriteLog(t *testing.T, dataDir, before, after string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dataDir, "member", "wal", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments in %s: %v", dataDir, err)
	}
	changed := 0
	for _, path := range segments {
		segment, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if here := rewriteRecords(segment, []byte(before), []byte(after)); here > 0 {
			changed += here
			if err := os.WriteFile(path, segment, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if changed == 0 {
		t.Fatalf("no entry in %s has %q", dataDir, before)
	}
}

// rewriteRecords does so in the bytes of one segment, and counts the records that it changed.
func rewriteRecords(segment, before, after []byte) int {
	salt := crc32.Checksum(segment[incarnationOffset:incarnationOffset+8], castagnoli)
	number := segment[12:16]
	changed := 0
	for at := fileHeaderBytes; at+recordHeadBytes <= len(segment); {
		head := segment[at : at+recordHeadBytes]
		end := at + recordHeadBytes + int(binary.LittleEndian.Uint32(head[bodyLengthOffset:]))
		if !bytes.Equal(head[4:8], number) || end > len(segment) {
			break
		}
		body := segment[at+recordHeadBytes : end]
		if bytes.Contains(body, before) {
			copy(body, bytes.ReplaceAll(body, before, after))
			binary.LittleEndian.PutUint32(head[bodySumOffset:], crc32.Checksum(body, castagnoli))
			binary.LittleEndian.PutUint32(head, crc32.Update(salt, castagnoli, head[4:]))
			changed++
		}
		at = (end + 7) &^ 7
	}
	return changed
}
