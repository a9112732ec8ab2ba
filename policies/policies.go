// Package policies embeds the policies that Gimbal ships.
package policies

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed *.toml
var files embed.FS

// Shipped returns the shipped policies' texts by name.
func Shipped() map[string][]byte {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("read the embedded policies: %v", err)) // they are part of the program
	}
	all := make(map[string][]byte, len(entries))
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			panic(fmt.Sprintf("read the embedded policy %s: %v", e.Name(), err))
		}
		all[strings.TrimSuffix(e.Name(), path.Ext(e.Name()))] = text
	}
	return all
}
