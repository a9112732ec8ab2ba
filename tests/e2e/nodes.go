package e2e

// A stack whose every node has a gimbald of its own, told apart as slurmd tells
// its own files apart: by %n in paths.

// everyNode stands for the node's name in the paths of such a stack.
const everyNode = "%n"

// At is the stack as one of its nodes sees it: with that node's gimbald.
func (s *Stack) At(node string) *Stack { return s.daemons[node] }

// startDaemons starts a gimbald for each node.
func (s *Stack) startDaemons() {
	s.t.Helper()
	s.daemons = map[string]*Stack{}
	for _, node := range s.Nodes {
		one := *s
		one.node = node
		one.StartDaemon()
		s.daemons[node] = &one
	}
}
