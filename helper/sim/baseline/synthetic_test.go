package baseline

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// synthetic makes up n jobs that ask for load times the GPUs there are: many
// short ones, a few long ones, on 1 to 32 GPUs, of eight kinds.
func synthetic(seed uint64, n, gpus int, load float64) []sim.Job {
	r := rand.New(rand.NewPCG(seed, 1))
	sizes := [...]int{1, 1, 1, 1, 1, 1, 2, 2, 4, 8, 16, 32}
	kinds := [...]sim.Stages{{82, 75, 66}, {84, 85, 73}, {723, 113, 73}, {703, 62, 17}, {.5, 163, 18}, {.6, 413, 20}, {502, 10, .3}, {440, 8, .4}}
	jobs, asked := make([]sim.Job, n), 0.0
	for i := range jobs {
		k := r.IntN(len(kinds))
		s := kinds[k]
		for x := range s {
			s[x] /= 1000
		}
		seconds := min(4*86400, math.Exp(8.5+1.5*r.NormFloat64()))
		jobs[i] = sim.Job{
			ID: strconv.Itoa(i), Model: string(rune('a' + k)), GPUs: sizes[r.IntN(len(sizes))],
			IterTime: s.Sum(), Iterations: math.Ceil(seconds / s.Sum()), Stages: s,
			Opportunistic: r.IntN(2) == 1, Deadline: sim.Never,
		}
		jobs[i].GPUs = min(jobs[i].GPUs, gpus)
		asked += jobs[i].Work() * float64(jobs[i].GPUs)
	}
	span, at := asked/(load*float64(gpus)), 0.0
	for i := range jobs {
		at += r.ExpFloat64() * span / float64(n)
		jobs[i].Submit = at
	}
	return jobs
}
