// Package cuda moves a process's GPU memory to host RAM and back with the
// driver's checkpoint calls (R570 and newer, x86-64).
//
// The calls can block for as long as the driver likes, so they are made in a
// helper process: Serve is that process, Client is the daemon's end of it.
// Command does the same with the cuda-checkpoint command, where the library
// cannot. Both are Drivers. A Mover carries out the sequence over a Driver:
// lock, checkpoint, stop; and back: continue, restore, unlock. It goes by the
// state that the driver reports after each step, never by a result alone.
package cuda
