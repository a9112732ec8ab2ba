package gpu

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
	n.list = append(n.list, text())
}

func (n *notes) take() []string {
	list := n.list
	n.list = nil
	return list
}
