package sim

// Cost says what running, sharing and restarting jobs costs.
type Cost struct {
	Name string

	// Solo is the time of an iteration alone over what the trace says.
	Solo float64

	// Staged is the time of an iteration that several jobs run stage by stage,
	// over the sum of the longest stages, by how many they are (2, 3, 4).
	// Entries 0 and 1 are not used.
	Staged [5]float64

	// EveryMoment is the model of Muri's simulator: the whole cluster is placed
	// anew at each moment, and each running job that does not end by the next
	// one loses its restart time first. Under a scheduler whose wakes move no
	// task (World.Stays) only arrivals and ends are such moments: turns on a node
	// restart nobody. Where it is false a job stays where it is, and pays only
	// when it starts.
	EveryMoment bool

	Restart Times // what a start costs
	Pause   Times // what one turn costs a job that shares its GPUs in turns
}

// Times is times in seconds by model and number of GPUs.
type Times struct {
	By    map[TimesKey]float64
	Other float64 // for what is not in By
}

// TimesKey names an entry of Times.
type TimesKey struct {
	Model string
	GPUs  int
}

// At is the time of a model on a number of GPUs, in seconds.
func (t *Times) At(model string, gpus int) float64 {
	if s, ok := t.By[TimesKey{model, gpus}]; ok {
		return s
	}
	return t.Other
}

// NoCost is a cluster on which nothing costs anything.
func NoCost() *Cost {
	return &Cost{Name: "none", Solo: 1, Staged: [5]float64{1, 1, 1, 1, 1}}
}

// MuriCost is the cost model of Muri's published simulator (SIGCOMM 2022): its
// measured restart times, 10 s for what was not measured, and the overheads of
// iterations that share.
func MuriCost() *Cost {
	return &Cost{
		Name:        "muri",
		Solo:        1.015,
		Staged:      [5]float64{1, 1, 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015},
		EveryMoment: true,
		Restart:     Times{By: muriRestarts(), Other: 10},
	}
}

func muriRestarts() map[TimesKey]float64 {
	gpus := [...]int{1, 2, 4, 8, 16, 32}
	times := make(map[TimesKey]float64)
	for model, seconds := range map[string][len(gpus)]float64{
		"vgg16":              {7, 7, 8, 9, 9, 10},
		"vgg19":              {7, 7, 8, 9, 10, 10},
		"resnet18":           {4, 5, 5, 7, 7, 7},
		"shufflenet_v2_x1_0": {4, 4, 5, 5, 7, 8},
		"bert":               {10, 10, 10, 10, 10, 10},
		"gpt2":               {10, 10, 10, 10, 10, 10},
		"a2c":                {38, 39, 39, 46, 46, 46},
		"dqn":                {5, 5, 6, 6, 8, 8},
	} {
		for i, n := range gpus {
			times[TimesKey{model, n}] = seconds[i]
		}
	}
	return times
}
