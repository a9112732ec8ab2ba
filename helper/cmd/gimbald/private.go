package main

// slurmPrivate tells whether Slurm's PrivateData hides jobs from other users.
func (d *daemon) slurmPrivate() bool { return false }
