package main

import "strings"

// memoryOf is the GPU memory of a model of the traces in MiB, as it was
// measured on an A100 of 40 GB (model_profiles.csv, source miso), at the batch
// size of the trace or the nearest one that was measured. Models that were not
// measured take the figure of the measured one that is most like them: vgg of
// resnet, shufflenet of mobilenet, gpt2 of bert, the recurrent LM and
// Recommendation of embedding, and a2c, A3C and dqn of the smallest, gnn.
func memoryOf(model string) float64 {
	name, batch, _ := strings.Cut(model, " (batch size ")
	batch = strings.TrimSuffix(batch, ")")
	switch name {
	case "Transformer":
		return map[string]float64{"16": 3535, "32": 5615, "64": 9711, "128": 17903, "256": 17903}[batch]
	case "Recommendation":
		return map[string]float64{"512": 6105, "1024": 6105, "2048": 6105, "4096": 6105, "8192": 6105}[batch]
	}
	return measured[name]
}

var measured = map[string]float64{
	"ResNet-18": 9933, "ResNet-50": 9933, "resnet18": 9933, "vgg16": 9933, "vgg19": 9933,
	"shufflenet_v2_x1_0": 5613,
	"bert":               10443, "gpt2": 10443,
	"CycleGAN": 5581, "LM": 2777,
	"A3C": 2223, "a2c": 2223, "dqn": 2223,
}
