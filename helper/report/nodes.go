package report

import (
	"encoding/json"
	"io"
	"time"
)

// NodesSchema names the form of the JSON that WriteNodesJSON writes, under the
// same terms as Schema.
const NodesSchema = "gimbal.status.nodes/1"

// NodesDocument is the JSON of a job on all of its nodes.
type NodesDocument struct {
	Schema string           `json:"schema"`
	Time   time.Time        `json:"time"`
	Nodes  []Document       `json:"nodes"`  // those that answered
	Silent []SilentDocument `json:"silent"` // those that did not, or whose gimbald did not
}

// SilentDocument is a node that did not answer, and why.
type SilentDocument struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// NewNodesDocument makes one without nodes.
func NewNodesDocument(at time.Time) NodesDocument {
	return NodesDocument{Schema: NodesSchema, Time: at, Nodes: []Document{}, Silent: []SilentDocument{}}
}

// WriteNodesJSON writes a document.
func WriteNodesJSON(w io.Writer, d NodesDocument) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
