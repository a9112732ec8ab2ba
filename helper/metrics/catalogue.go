package metrics

import dto "github.com/prometheus/client_model/go"

// The metrics by name. Sizes are in bytes, times in seconds, shares from 0 to 1.
const (
	nodeInfo     = "gimbal_node_info"
	nodeDegraded = "gimbal_degraded"
	reloaded     = "gimbal_config_last_reload_successful"
	snapshotTime = "gimbal_snapshot_timestamp_seconds"
	tenants      = "gimbal_tenants"

	gpuInfo        = "gimbal_gpu_info"
	gpuFault       = "gimbal_gpu_fault"
	gpuTotal       = "gimbal_gpu_memory_total_bytes"
	gpuUsed        = "gimbal_gpu_memory_used_bytes"
	gpuReserved    = "gimbal_gpu_memory_reserved_bytes"
	gpuForeign     = "gimbal_gpu_memory_foreign_bytes"
	gpuUtilization = "gimbal_gpu_utilization_ratio"
	gpuTenants     = "gimbal_gpu_tenants"
	gpuIdle        = "gimbal_gpu_idle_tenants"
	gpuStrays      = "gimbal_gpu_stray_processes"

	jobInfo        = "gimbal_job_info"
	jobTenants     = "gimbal_job_tenants"
	jobProcesses   = "gimbal_job_processes"
	jobIdle        = "gimbal_job_idle_seconds"
	jobStateTime   = "gimbal_job_state_seconds"
	jobAttained    = "gimbal_job_attained_seconds"
	jobStops       = "gimbal_job_stops"
	jobGPUProcs    = "gimbal_job_gpu_processes"
	jobGPUUsed     = "gimbal_job_gpu_memory_used_bytes"
	jobGPUPeak     = "gimbal_job_gpu_memory_peak_bytes"
	jobGPUClaim    = "gimbal_job_gpu_memory_claim_bytes"
	jobGPUSM       = "gimbal_job_gpu_sm_ratio"
	daemonCounters = "gimbal_daemon_" // and the counter's name, and _total
)

const (
	gauge   = dto.MetricType_GAUGE
	counter = dto.MetricType_COUNTER
)

// catalogue lists the metrics. Times and counts of a
// job are gauges: they are those of what is live, and shrink when a step ends
// that was a tenant of its own.
func catalogue() []desc {
	return []desc{
		{nodeInfo, gauge, "Slurm's name of the node and the daemon's version, always 1."},
		{nodeDegraded, gauge, "Whether nothing may be stopped, as the driver or the journal cannot be used."},
		{reloaded, gauge, "Whether gimbald.toml was taken when it was last read."},
		{snapshotTime, gauge, "When this was measured, in Unix time."},
		{tenants, gauge, "Live tenants by state."},

		{gpuInfo, gauge, "A GPU or MIG instance with its policy, always 1."},
		{gpuFault, gauge, "Whether the GPU cannot be managed."},
		{gpuTotal, gauge, "Memory of the GPU."},
		{gpuUsed, gauge, "Memory of the GPU in use by processes."},
		{gpuReserved, gauge, "Memory of the GPU that the driver keeps for itself."},
		{gpuForeign, gauge, "Memory of the GPU in use by processes of no tenant."},
		{gpuUtilization, gauge, "Share of time in which a kernel ran on the GPU."},
		{gpuTenants, gauge, "Live tenants that were given the GPU, by state."},
		{gpuIdle, gauge, "Tenants that were given the GPU, may compute, and have no process on it."},
		{gpuStrays, gauge, "Processes on the GPU that belong to no tenant, by kind."},

		{jobInfo, gauge, "Whose job it is and what it is called, as far as the site shows it, always 1."},
		{jobTenants, gauge, "Live tenants of the job by state."},
		{jobProcesses, gauge, "Live processes of the job; 0 where only the allocation is left."},
		{jobIdle, gauge, "Time since the job was last seen computing."},
		{jobStateTime, gauge, "Time that the job's live tenants were held, running, withheld by a throttle, paused, swapped."},
		{jobAttained, gauge, "Time that the job's live tenants ran with a process on a GPU."},
		{jobStops, gauge, "How often the job's live tenants were held, throttled, paused, swapped."},
		{jobGPUProcs, gauge, "Processes of the job on the GPU."},
		{jobGPUUsed, gauge, "Memory of the GPU that the job uses."},
		{jobGPUPeak, gauge, "Most memory of the GPU that the job's live tenants used, added up."},
		{jobGPUClaim, gauge, "Memory of the GPU that the job may count on."},
		{jobGPUSM, gauge, "Share of time in which the job ran on the GPU's multiprocessors."},
	}
}
