package sim

import "math"

// Never is a time that does not come.
var Never = math.Inf(1)

// Job is one job of a trace: what it asked for and how much work it has.
// Times are seconds from the start of the trace.
type Job struct {
	ID        string
	User      string
	Account   string  // Slurm account; "" when unknown
	Partition string  // Slurm partition; "" when unknown
	Model     string  // what it trains, as the table of pairs and the cost file name it; "" when unknown
	Batch     string  // batch size as written in the trace; "" when unknown
	Submit    float64 // when it arrives

	GPUs   int     // whole GPUs over all its nodes
	Nodes  int     // nodes that it asked for; 0 when it did not say
	Shards int     // shards of one GPU that it asked for instead of GPUs; GPUs is 1 then
	Memory float64 // MiB of GPU memory on each of its GPUs; 0 when unknown
	Util   float64 // share of a GPU that it keeps busy alone, 0 to 1; 0 when unknown

	Iterations float64 // work, in iterations
	IterTime   float64 // seconds an iteration takes alone
	Stages     Stages  // where an iteration spends its time; zero when unknown

	Opportunistic bool    // may be slowed down for guaranteed jobs
	Weight        float64 // share of time relative to its mates; 0 for 1
	Deadline      float64 // when it should have ended; Never when it has none

	Limit float64 // time limit that it was given, in seconds; 0 when unknown

	Line, Column int // where the trace says how many GPUs it wants; 0 when made up
}

// Stages is what an iteration spends on each kind of resource, in seconds:
// storage and CPU, GPU, network.
type Stages [3]float64

// Sum is the time of all stages one after the other, in seconds.
func (s Stages) Sum() float64 { return s[0] + s[1] + s[2] }

// Work is how long the job takes alone, in seconds.
func (j *Job) Work() float64 { return j.Iterations * j.IterTime }

// PerNode is how many GPUs the job takes on each of its nodes, where a node has
// per: as many nodes as it asked for, else as few as can be.
func (j *Job) PerNode(per int) []int {
	var out []int
	left := j.GPUs
	if spreads(j) {
		for k := j.Nodes; k > 0; k-- {
			n := (left + k - 1) / k
			out, left = append(out, n), left-n
		}
		return out
	}
	for ; left > per; left -= per {
		out = append(out, per)
	}
	return append(out, left)
}

// Expected is how long a scheduler must think that the job runs alone, in
// seconds: its time limit where it has one, and never less than its work.
func (j *Job) Expected() float64 { return max(j.Limit, j.Work()) }

// StagesOrPrior is the job's stages where they are known. Otherwise the GPU is
// taken to be busy for the job's utilisation, or all the time where that is
// unknown too, and storage and CPU for the rest.
func (j *Job) StagesOrPrior() Stages {
	if j.Stages.Sum() > 0 {
		return j.Stages
	}
	busy := j.Util
	if busy == 0 {
		busy = 1
	}
	return Stages{(1 - busy) * j.IterTime, busy * j.IterTime, 0}
}
