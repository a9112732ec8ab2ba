package policies

import "io/fs"

// FS is the folder of the shipped policies.
func FS() fs.FS { return files }
