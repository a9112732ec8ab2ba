package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/gpu"
	"github.com/gimbal-hpc/gimbal/policies"
)

// Driver releases from which the memory of a process can leave the GPU, and
// from which that works with PyTorch.
const (
	driverSwaps   = 570
	driverPyTorch = 575
)

// nvmlLimit is how long the driver may take; it can hang for ever.
const nvmlLimit = 10 * time.Second

// checkDriver looks at the GPUs through the driver.
func (d *doctor) checkDriver() {
	if d.gpus == nil {
		d.readGPUs()
	}
	smi := d.smi()
	release := d.driverRelease(smi)
	if d.gpus.Fault != "" {
		d.problem("driver", "Load the driver, or install it anew and reboot; see 'nvidia-smi' and dmesg", "NVML (%s): %s", d.cfg.Sample.NVML, d.gpus.Fault)
	} else {
		text := "of unknown release"
		if release != "" {
			text = release
		}
		d.ok("driver", "%s, NVML shows %s", text, plural(len(d.minors()), "GPU"))
	}
	for _, g := range d.gpus.GPUs {
		if g.Fault != "" {
			d.problem("driver", "Reset the GPU or reboot; drain the node first", "GPU %d (%s): %s", g.Index, g.UUID, g.Fault)
		}
	}
	d.checkPersistence(smi)
	d.checkMPS()
	d.checkMIG()
	d.checkSwap(release)
}

// readGPUs takes one look at the driver.
func (d *doctor) readGPUs() {
	start := time.Now()
	s := gpu.Watch(gpu.Open(d.cfg.Sample.NVML), time.Hour, func() time.Duration { return time.Since(start) })
	select {
	case <-s.News():
	case <-time.After(nvmlLimit):
	}
	r, ok := s.Report(nvmlLimit)
	if !ok {
		r.Fault = "the driver does not answer"
	}
	d.gpus = &r
	if err := s.Close(time.Second); err != nil && r.Fault == "" {
		d.gpus.Fault = err.Error()
	}
}

// smi is what nvidia-smi says of each GPU's driver and persistence mode, nil
// where it says nothing.
func (d *doctor) smi() [][]string {
	out, err := d.ask("nvidia-smi", "--query-gpu=driver_version,persistence_mode", "--format=csv,noheader")
	if err != nil {
		return nil
	}
	var rows [][]string
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSpace(line), ", "); len(f) == 2 {
			rows = append(rows, f)
		}
	}
	return rows
}

var releasePattern = regexp.MustCompile(`\b(\d{3,})\.\d+(\.\d+)?\b`)

// driverRelease is the driver's release, such as 570.86.15, "" if unknown.
func (d *doctor) driverRelease(smi [][]string) string {
	for _, f := range []string{"/proc/driver/nvidia/version", "/sys/module/nvidia/version"} {
		if b, err := os.ReadFile(d.path(f)); err == nil {
			if v := releasePattern.FindString(string(b)); v != "" {
				return v
			}
		}
	}
	if len(smi) > 0 {
		return smi[0][0]
	}
	return ""
}

func (d *doctor) checkPersistence(smi [][]string) {
	off := 0
	for _, row := range smi {
		if !strings.EqualFold(row[1], "enabled") {
			off++
		}
	}
	_, err := os.Stat(d.path("/run/nvidia-persistenced/socket"))
	switch {
	case len(smi) == 0 && err == nil:
		d.ok("persistence", "nvidia-persistenced runs")
	case len(smi) == 0:
		d.unknown("persistence", "nvidia-smi does not tell the persistence mode")
	case off > 0:
		d.warn("persistence", "systemctl enable --now nvidia-persistenced", "persistence mode is off on %s: the driver unloads between jobs, and swapping is slow", plural(off, "GPU"))
	default:
		d.ok("persistence", "on")
	}
}

func (d *doctor) checkMPS() {
	// comm holds 15 characters: the control daemon and the server look alike.
	if len(d.processes("nvidia-cuda-mps")) == 0 {
		d.ok("mps", "not running: the GPU gives its time in slices")
		return
	}
	d.warn("mps", "Expect it: killing one client with work under way can end the others",
		"MPS runs: what computes together shares one server, and its faults")
}

func (d *doctor) checkMIG() {
	switch {
	case d.gpus.Fault != "":
		d.unknown("mig", "the driver does not tell")
		return
	case !partitioned(d.gpus):
		d.ok("mig", "no GPU is partitioned")
		return
	}
	d.warn("mig", "Leave MIG off on GPUs that are to be packed", "a GPU is partitioned: its instances are managed, but their utilisation is unknown and nothing is swapped")
}

func (d *doctor) checkSwap(release string) {
	major, err := strconv.Atoi(strings.SplitN(release, ".", 2)[0])
	switch {
	case err != nil:
		d.unknown("swap", "the driver's release is not known")
	case major < driverSwaps:
		d.warn("swap", fmt.Sprintf("Install driver %d or newer", driverPyTorch), "driver %s cannot move the memory of a process to host RAM: paused jobs keep theirs", release)
	case major < driverPyTorch:
		d.warn("swap", fmt.Sprintf("Install driver %d or newer", driverPyTorch), "driver %s can move memory to host RAM, but not that of PyTorch", release)
	default:
		d.ok("swap", "driver %s can move the memory of a process to host RAM", release)
	}
}

// checkPolicies compiles every policy as gimbald would.
func (d *doctor) checkPolicies() {
	sources, err := d.cfg.LoadPolicies(policies.FS())
	if err != nil {
		d.problem("policies", "", "%v", err)
		return
	}
	_, notes, err := d.cfg.Compile(sources)
	if err != nil {
		d.problem("policies", "'gimbal policies check FILE' tells all mistakes", "%v", err)
		return
	}
	d.ok("policies", "%d are valid, %s rules by default", len(sources), d.cfg.Policy.Default)
	for _, n := range notes { // the node's limits hold, as they are meant to
		d.ok("policies", "%s", n)
	}
}

// watchdog is the longest pause that NCCL's two-minute heartbeat bears.
const watchdog = 110 * time.Second

// checkPauses compares the longest pause with the watchdogs of training jobs.
func (d *doctor) checkPauses() {
	most := config.FormatDuration(d.cfg.Limits.MaxPause)
	if d.cfg.Limits.MaxPause > watchdog {
		d.warn("pauses", `Set limits.max_pause = "60s" in gimbald.toml`,
			"max_pause is %s: NCCL's 2-minute heartbeat in PyTorch ends jobs that pause for longer than %s", most, config.FormatDuration(watchdog))
		return
	}
	d.ok("pauses", "at most %s, which NCCL's watchdogs bear", most)
}
