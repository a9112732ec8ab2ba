// Package bound proves how well any policy at all could do on a trace: no average
// completion time is shorter, no more deadlines are met, than it says.
//
// It holds for every policy under which at most four jobs compute on a GPU at a
// time, as fast beside each other as the model of sharing has it, and each pays
// its restart before it first computes. Where jobs are placed, whether they move,
// and in what order they start is left open, or, in a second set of bounds, as
// Slurm has it at the first moment. Turns, pauses and moves are taken to cost nothing.
//
// # The proofs
//
// A job computes at the earliest once it has arrived and paid its restart, and goes
// at most as fast as in the set of jobs in which it is fastest. So it takes at
// least its length.
//
// A price for each kind of work bounds what all GPUs together do. Let the prices be
// such that no set of jobs that can share a GPU earns more than 1 a second. Then the
// cluster earns at most as much as it has GPUs, whoever computes. What a job earns
// in all is known, its size; so sizes are GPU seconds that have to be found, and any
// prices prove something. Those that prove most are sought; how well does not matter
// for the proof.
//
// If every job is to end within a window, then of its work as much falls into any
// stretch of time as does not find room in its window outside of it at its greatest
// speed. If the sizes of that are more than the stretch has GPU seconds, no policy
// keeps the windows. That bounds the longest completion time (all windows are as
// long), the makespan (all end at once), and the finish-time ratio (they are as long
// as the ratio allows in the largest crowd that there could be). Where some jobs may
// miss their windows, as for the 99th percentile, those count for nothing that would
// count for most.
//
// A job ends no earlier than half of its length after the mean time of its work. The
// least sum of all mean times is a problem of transport of work to stretches of time;
// prices on the GPU seconds of each stretch bound it from below: each job pays the
// least that it can, less what all GPU seconds would cost.
//
// Of jobs that come after a time, those with deadlines up to another have to find
// their sizes between the two. How many can is found by leaving out the largest where
// there is too much (Moore and Hodgson).
package bound
