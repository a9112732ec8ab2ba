package gpu

import (
	"maps"
	"strings"
)

// maxNotes bounds the notes that nobody has taken yet.
const maxNotes = 64

// notes says each cause once while it lasts.
type notes struct {
	told map[string]bool
	list []string
}

// set notes a cause that is on and was not before, and forgets one that is
// off.
func (n *notes) set(cause string, on bool, text func() string) {
	if !on {
		delete(n.told, cause)
		return
	}
	if n.told[cause] || len(n.told) >= maxNotes || len(n.list) >= maxNotes {
		return
	}
	n.told[cause] = true
	n.say(text())
}

// say notes something that does not last.
func (n *notes) say(text string) {
	if len(n.list) < maxNotes {
		n.list = append(n.list, text)
	}
}

// key names a cause that is a GPU's.
func key(uuid, cause string) string { return uuid + " " + cause }

// forget forgets all causes that are of a GPU.
func (n *notes) forget(uuid string) {
	maps.DeleteFunc(n.told, func(cause string, _ bool) bool { return strings.HasPrefix(cause, key(uuid, "")) })
}

func (n *notes) take() []string {
	list := n.list
	n.list = nil
	return list
}
