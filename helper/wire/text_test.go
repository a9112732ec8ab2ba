package wire

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
)

// letter is a result with a text beside it.
type letter struct {
	Head string `json:"head"`
	body string
}

func (l letter) Carry() (string, any) { return l.body, letter{Head: l.Head} }
func (l *letter) Receive(text string) { l.body = text }

// TestTextFollowsTheLine: a text comes back as it was, whatever it holds, next
// to what JSON tells; one that is too long is refused, and the connection goes
// on.
func TestTextFollowsTheLine(t *testing.T) {
	bodies := []string{"", "one\ntwo\n", "\x00\xff{\"v\":1}\n", strings.Repeat("x", MaxReply-200), strings.Repeat("x", MaxReply), "last"}
	n := 0
	path := serve(t, Options{}, func(context.Context, Peer, Request) (any, error) {
		n++
		return letter{Head: strconv.Itoa(n), body: bodies[n-1]}, nil
	})
	c := dial(t, path)
	for i, body := range bodies {
		var got letter
		err := c.Call(context.Background(), OpStatus, nil, &got)
		var refused *Error
		if len(body) == MaxReply {
			if !errors.As(err, &refused) || refused.Code != CodeTooLarge {
				t.Errorf("a text of %d bytes: %v", len(body), err)
			}
			continue
		}
		if err != nil || got.body != body || got.Head != strconv.Itoa(i+1) {
			t.Fatalf("text %d: %v, %d bytes for %d, head %q", i, err, len(got.body), len(body), got.Head)
		}
	}
}
