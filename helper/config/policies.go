package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is the text of one policy and where it came from. Name is the file's
// name without .toml; a policy's own name key must be the same.
type Source struct {
	Name, File, Text string
}

// maxPolicies is how many policies a site may have.
const maxPolicies = 256

// LoadPolicies reads the policies: those shipped, and over them the *.toml of
// policy.dir, where a file of the same name replaces the shipped one. They
// come sorted by name; Effective then shows them. A folder that is not there
// is an empty one. It is an error if a policy that [policy] names is missing.
func (c *Config) LoadPolicies(shipped fs.FS) ([]Source, error) {
	found := map[string]Source{}
	if err := readShipped(shipped, found); err != nil {
		return nil, err
	}
	if err := readSite(c.Policy.Dir, found); err != nil {
		return nil, err
	}
	c.policies = nil
	for _, s := range found {
		c.policies = append(c.policies, s)
	}
	slices.SortFunc(c.policies, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return c.policies, c.checkNames(found)
}

func readShipped(shipped fs.FS, found map[string]Source) error {
	if shipped == nil {
		return nil
	}
	files, err := fs.Glob(shipped, "*.toml")
	if err != nil {
		return fmt.Errorf("list the shipped policies: %w", err)
	}
	for _, f := range files {
		b, err := fs.ReadFile(shipped, f)
		if err != nil {
			return fmt.Errorf("read the shipped policy %s: %w", f, err)
		}
		add(found, "(shipped) "+f, string(b))
	}
	return nil
}

func readSite(dir string, found map[string]Source) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the site's policies: %w", err)
	}
	n := 0
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".toml" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if n++; n > maxPolicies {
			return &Error{File: dir, Msg: fmt.Sprintf("holds more than %d policies", maxPolicies)}
		}
		file := filepath.Join(dir, e.Name())
		text, err := readTrusted(file)
		if err != nil {
			return err
		}
		add(found, file, text)
	}
	return nil
}

func add(found map[string]Source, file, text string) {
	name := strings.TrimSuffix(filepath.Base(strings.TrimPrefix(file, "(shipped) ")), ".toml")
	found[name] = Source{Name: name, File: file, Text: text}
}

// checkNames reports a policy that gimbald.toml names and nobody wrote.
func (c *Config) checkNames(found map[string]Source) error {
	var names []string
	for n := range found {
		names = append(names, n)
	}
	slices.Sort(names)
	dec := &decoder{doc: c.document()}
	miss := func(key, name string) {
		if _, ok := found[name]; !ok {
			near, _ := nearest(name, names)
			dec.fail(key, "there is no policy %q; did you mean %q?", name, near)
		}
	}
	literal := func(key string, list []string) {
		for _, name := range list {
			if !isPattern(name) {
				miss(key, name)
			}
		}
	}
	literal("policy.allow", c.Policy.Allow)
	for i := range c.Bounds {
		literal(fmt.Sprintf("bound.%d.policies", i), c.Bounds[i].Policies)
	}
	miss("policy.default", c.Policy.Default)
	for gpu, name := range c.Policy.PerGPU {
		miss("policy.gpu."+gpu, name)
	}
	return dec.first()
}

// document is where the configuration came from.
func (c *Config) document() *document {
	if c.src == nil {
		return &document{file: "defaults"}
	}
	return c.src
}
