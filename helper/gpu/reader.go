// Package gpu reads the GPUs of a node from NVIDIA's management library. It is
// the only room that knows NVML: it hands out plain values of package model,
// keyed by UUID, in which every reading is known or unknown.
package gpu

import (
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// library is the part of NVML that is used. nvml.Interface has it.
type library interface {
	Init() nvml.Return
	Shutdown() nvml.Return
	DeviceGetCount() (int, nvml.Return)
	DeviceGetHandleByIndex(int) (nvml.Device, nvml.Return)
	DeviceGetHandleByUUID(string) (nvml.Device, nvml.Return)
	Extensions() nvml.ExtendedInterface
}

// How long a library that failed is left alone, and how long a GPU that is no
// longer there is still shown.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
	keepGone   = time.Hour
	maxGone    = 64
)

// Reader reads all GPUs of the node. It is for one goroutine at a time: a call
// may hang for as long as the driver does (see Sampler).
type Reader struct {
	path  string
	lib   library
	probe func(path string) error // tells whether the file is NVML at all
	wall  func() time.Time        // the driver's samples carry the wall clock

	up    bool            // initialised
	fault string          // why it is not
	retry time.Duration   // not to be initialised again before
	pause time.Duration   // between the last two tries
	has   map[string]bool // symbols that were looked up
	index []string        // UUID that stood at each index
	units map[string]*unit
	notes notes
}

// unit is what is kept of one GPU between two looks.
type unit struct {
	seen     model.GPU                  // as last shown
	at       time.Duration              // when that was
	since    uint64                     // stamp of its last utilisation sample, microseconds
	reserved model.Reading[model.Bytes] // estimated where the driver does not tell it
}

// Open makes a reader of the library at a path, or of a name that the dynamic
// linker finds; "" is libnvidia-ml.so.1. It never fails: a library or a driver
// that is not there yet is the fault of each report until it comes.
func Open(libraryPath string) *Reader {
	if libraryPath == "" {
		libraryPath = "libnvidia-ml.so.1"
	}
	return newReader(libraryPath, nvml.New(nvml.WithLibraryPath(libraryPath)), probe)
}

func newReader(path string, lib library, probe func(string) error) *Reader {
	return &Reader{path: path, lib: lib, probe: probe, wall: time.Now,
		has: map[string]bool{}, units: map[string]*unit{}, notes: notes{told: map[string]bool{}}}
}

// Close gives the library back.
func (r *Reader) Close() {
	if r.up {
		_ = r.lib.Shutdown()
		r.up = false
	}
}

// Notes returns what was odd since it was last called, each cause once until
// it has been away: "GPU-1b2c: the list of processes is implausible".
func (r *Reader) Notes() []string { return r.notes.take() }

// Read looks at every GPU. now is the caller's monotonic clock; the report
// carries it. The utilisation of a process is that since the Read before.
func (r *Reader) Read(now time.Duration) model.GPUReport {
	report := model.GPUReport{At: now}
	if report.Fault = r.start(now); report.Fault != "" {
		return report
	}
	gpus, ret := r.readAll(now)
	if fatal(ret) {
		r.stop(now, ret)
		report.Fault = r.fault
		return report
	}
	report.GPUs = append(gpus, r.gone(gpus, now)...)
	for _, g := range report.GPUs {
		r.noteFault(g.UUID, g.Fault)
	}
	return report
}

// start initialises the library where it is not; it returns why it cannot.
func (r *Reader) start(now time.Duration) string {
	if r.up {
		return ""
	}
	if r.fault != "" && now < r.retry {
		return r.fault
	}
	if err := r.probe(r.path); err != nil {
		r.failed(now, err.Error())
		return r.fault
	}
	if ret := r.lib.Init(); ret != nvml.SUCCESS {
		r.failed(now, r.explain(ret))
		return r.fault
	}
	r.up, r.fault, r.pause = true, "", 0
	clear(r.has)
	return ""
}

// failed notes why the library cannot be used, and when to try again.
func (r *Reader) failed(now time.Duration, why string) {
	r.fault = why
	r.pause = min(max(2*r.pause, firstRetry), lastRetry)
	r.retry = now + r.pause
}

// stop gives up a library that answers nothing any more; the next look but a
// little later initialises it anew.
func (r *Reader) stop(now time.Duration, ret nvml.Return) {
	_ = r.lib.Shutdown()
	r.up = false
	r.failed(now, r.explain(ret))
}

// explain words a fault of the library as a whole.
func (r *Reader) explain(ret nvml.Return) string {
	text := describe(ret)
	if ret == nvml.ERROR_LIB_RM_VERSION_MISMATCH && replaced(r.path) {
		text += "; the library on disk is another one by now: restart gimbald to use it"
	}
	return text
}

// readAll looks at all GPUs in the driver's order. Handles are never kept: a
// GPU reset or a new MIG layout makes them void.
func (r *Reader) readAll(now time.Duration) ([]model.GPU, nvml.Return) {
	if !r.can("nvmlDeviceGetCount") || !r.can("nvmlDeviceGetHandleByIndex") || !r.can("nvmlDeviceGetUUID") {
		return nil, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	count, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	r.resize(count)
	var all []model.GPU
	for i := range count {
		gpus, ret := r.readIndex(i, now)
		if fatal(ret) {
			return nil, ret
		}
		all = append(all, gpus...)
	}
	return all, nvml.SUCCESS
}

func (r *Reader) resize(count int) {
	for len(r.index) < count {
		r.index = append(r.index, "")
	}
	r.index = r.index[:count]
}

// readIndex looks at one GPU: itself, or its instances where it is
// partitioned. One that does not answer is shown as it was, with its fault.
func (r *Reader) readIndex(i int, now time.Duration) ([]model.GPU, nvml.Return) {
	dev, uuid, ret := r.handle(i)
	if ret == nvml.SUCCESS {
		r.index[i] = uuid
		r.noteFault(unnamed(i), "")
		var gpus []model.GPU
		gpus, ret = r.readDevice(dev, uuid, i, now)
		if dead(ret) { // its handle may have died under us
			if dev, ret = r.byUUID(uuid); ret == nvml.SUCCESS {
				gpus, ret = r.readDevice(dev, uuid, i, now)
			}
		}
		if ret == nvml.SUCCESS || fatal(ret) {
			return gpus, ret
		}
	}
	if fatal(ret) {
		return nil, ret
	}
	lost := r.lost(i, ret, now)
	if len(lost) == 0 {
		r.noteFault(unnamed(i), describe(ret))
	}
	return lost, ret
}

// unnamed is what a GPU is called that has not answered yet.
func unnamed(i int) string { return fmt.Sprintf("GPU %d", i) }

func (r *Reader) handle(i int) (nvml.Device, string, nvml.Return) {
	dev, ret := r.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		return nil, "", ret
	}
	uuid, ret := dev.GetUUID()
	return dev, uuid, ret
}

func (r *Reader) byUUID(uuid string) (nvml.Device, nvml.Return) {
	if !r.can("nvmlDeviceGetHandleByUUID") {
		return nil, nvml.ERROR_FUNCTION_NOT_FOUND
	}
	return r.lib.DeviceGetHandleByUUID(uuid)
}

// lost shows what stood at an index that no longer answers, without readings.
func (r *Reader) lost(i int, ret nvml.Return, now time.Duration) []model.GPU {
	var out []model.GPU
	for uuid, u := range r.units {
		if uuid == r.index[i] || r.index[i] != "" && u.seen.Parent == r.index[i] {
			u.at = now
			out = append(out, blank(u.seen, describe(ret)))
		}
	}
	sortGPUs(out)
	return out
}

// gone lists the GPUs that were shown before and are no longer there.
func (r *Reader) gone(shown []model.GPU, now time.Duration) []model.GPU {
	here := map[string]bool{}
	for _, g := range shown {
		here[g.UUID] = true
	}
	var out []model.GPU
	for uuid, u := range r.units {
		if here[uuid] {
			continue
		}
		if now-u.at > keepGone || len(r.units) > maxGone+len(here) {
			delete(r.units, uuid)
			r.notes.forget(uuid)
			continue
		}
		out = append(out, blank(u.seen, "device gone"))
	}
	sortGPUs(out)
	return out
}

// blank is a GPU of which nothing is known but who it is.
func blank(g model.GPU, fault string) model.GPU {
	return model.GPU{UUID: g.UUID, Index: g.Index, Minor: g.Minor, Name: g.Name,
		MIG: g.MIG, Parent: g.Parent, Fault: fault}
}

// can tells whether the library has a function, in any of its versions. A call
// of one that is missing would end the process: the linker binds it lazily.
func (r *Reader) can(symbol string) bool {
	ok, known := r.has[symbol]
	if !known {
		ext := r.lib.Extensions()
		for _, version := range []string{"", "_v2", "_v3"} {
			ok = ok || ext.LookupSymbol(symbol+version) == nil
		}
		r.has[symbol] = ok
	}
	return ok
}

// canExactly is can for one version alone.
func (r *Reader) canExactly(symbol string) bool {
	ok, known := r.has[symbol+"!"]
	if !known {
		ok = r.lib.Extensions().LookupSymbol(symbol) == nil
		r.has[symbol+"!"] = ok
	}
	return ok
}

// noteOn keeps a note about a GPU while its cause lasts.
func (r *Reader) noteOn(uuid, cause string, on bool, format string, args ...any) {
	r.notes.set(key(uuid, cause), on, func() string {
		return uuid + ": " + fmt.Sprintf(format, args...)
	})
}

// noteFault notes that a GPU as a whole does not answer, and why, and that one of
// which that was said answers again: "".
func (r *Reader) noteFault(uuid, fault string) {
	if fault == "" && r.notes.told[key(uuid, "fault")] {
		r.notes.say(uuid + ": answers again")
	}
	r.noteOn(uuid, "fault", fault != "", "%s; nothing on it is stopped", fault)
}
