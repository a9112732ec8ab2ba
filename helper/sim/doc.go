// Package sim replays a cluster's job history under a policy, on a virtual
// clock: who would have run when, and how long each job would have taken.
//
// A run is made of moments. A moment is a time at which jobs arrive, jobs end,
// or the policy asked to be woken; the world settles what each job has done
// since the last one, tells the policy, and lets it decide. Nothing is random
// but what a policy draws from the seed it was given, so a run with the same
// input gives the same output on any machine.
//
// The published baselines live in package baseline and implement [Scheduler].
package sim
