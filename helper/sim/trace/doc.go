// Package trace reads job histories: the CSV described below, the output of
// `sacct -P`, and either of them compressed with gzip. The format is told from
// the header line.
//
// # The CSV
//
// One line a job, after a header that names the columns in any order. Needed:
//
//	job_id      a name that no other job has
//	submit_s    when it arrived, in seconds
//	gpus        whole GPUs over all its nodes, at least 1
//	duration_s  how long it ran alone, in seconds; may be blank where
//	            iterations and iter_ms are given
//
// Known, and used where they are filled:
//
//	nodes          nodes it asked for
//	shards         shards of one GPU that it asked for; gpus is 1 then
//	model, batch   what it trains; model is the name in the table of pairs
//	user           whose it is
//	iterations     work in iterations; total_steps is the same
//	iter_ms        milliseconds an iteration takes alone; with iterations it
//	               goes before duration_s
//	t_load_cpu_ms, t_gpu_ms, t_net_ms
//	               milliseconds an iteration spends on storage and CPU, on the
//	               GPU and on the network: all three or none
//	priority       0 guaranteed, 1 opportunistic
//	memory_mib     GPU memory on each of its GPUs, MiB
//	gpu_util       share of a GPU it keeps busy alone, 0 to 1
//	deadline_s     when it should have ended, in seconds
//	limit_s        its time limit in seconds
//	status         how it ended; not used
//
// # sacct
//
//	sacct -P -a -X -S 2025-10-01 -E 2025-11-01 \
//	    -o JobID,User,JobName,Submit,ElapsedRaw,Timelimit,NNodes,State,AllocTRES
//
// JobID or JobIDRaw, Submit, one of ElapsedRaw and Elapsed, and one of
// AllocTRES, ReqTRES, AllocGRES and ReqGRES are needed. TRES columns count GPUs
// over all nodes, GRES columns on each. Job steps, jobs that never ran, still
// run or had no GPU are left out, and a note says how many. Of several rows of
// one job, as sacct -D prints them of requeued ones, the last counts. Each part of
// a heterogeneous job is a job of its own. Bars within a field are taken to be
// in the one column that may hold them, such as JobName.
//
// # What is refused, what is assumed
//
// A missing column, a field that is not a number or out of bounds, a name that
// comes twice, an empty or truncated file is an error with file, line and
// column. What is assumed instead is said in [Trace.Notes].
package trace
