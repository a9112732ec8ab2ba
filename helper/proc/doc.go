// Package proc is the only part of Gimbal that touches processes: it reads
// /proc and the cgroup trees, follows the descendants of registered tasks,
// and is the only one that sends signals or freezes cgroups.
//
// A process is always named by an ID, its pid with its start time, so that a
// pid that the kernel has given to another process is never mistaken for the
// one that was meant. Signals go through pidfds, and the start time is checked
// after the pidfd was opened.
//
//   - Tracker knows which processes descend from a registered root, through the
//     kernel's process connector where that can be had, else by scans of /proc.
//   - Tracker.Pause and Host.Resume stop and continue them by signals.
//   - Host.Freeze and Host.Thaw do the same by cgroup freezer.
//   - Host.Inspect, Host.Meaningful and Host.Catches say what a process
//     is doing and which signals wait for it.
//
// Slurm's own processes (slurmstepd, srun and the other clients) are never
// stopped, wherever they stand in a tree.
package proc
