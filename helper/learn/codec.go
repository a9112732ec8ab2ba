package learn

import (
	"encoding/json"
	"fmt"
)

// MaxFile is the longest text that Decode takes.
const MaxFile = 8 << 20

// schema is the version of the text.
const schema = 1

type file struct {
	Schema int    `json:"schema"`
	Jobs   []Kept `json:"jobs"`
}

// Encode writes what is kept as JSON.
func Encode(kept []Kept) ([]byte, error) {
	text, err := json.Marshal(file{schema, kept})
	if err != nil {
		return nil, fmt.Errorf("write what was learnt: %w", err)
	}
	return append(text, '\n'), nil
}

// Decode reads what Encode wrote. What is not plausible in it New leaves out.
func Decode(text []byte) ([]Kept, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("read what was learnt: %d bytes are more than %d", len(text), MaxFile)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("read what was learnt: %w", err)
	}
	if f.Schema != schema {
		return nil, fmt.Errorf("read what was learnt: it is of version %d, this program reads %d", f.Schema, schema)
	}
	return f.Jobs, nil
}
