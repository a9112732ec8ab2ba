package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/lockfile"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
)

// moves keeps on disk whose GPU memory is in host RAM: a folder with a file for
// each tenant. It lies beside the stop set, and like it is lost at a reboot,
// which leaves no process. A lock beside the folder is held by the daemon whose
// it is.
type moves struct {
	dir  string
	lock *os.File
}

// openMoves waits a moment for the lock: a helper of the daemon before looks at it
// now and then.
func openMoves(dir string) (*moves, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of what is swapped: %w", err)
	}
	lock, err := lockfile.Take(dir+".lock", lockfile.Wait)
	if err != nil {
		return nil, fmt.Errorf("own what is swapped in %s: %w", dir, err)
	}
	return &moves{dir: dir, lock: lock}, nil
}

// file is where a tenant's record lies. Ids hold no slash; none leads out.
func (m *moves) file(id model.TenantID) string {
	return filepath.Join(m.dir, strings.ReplaceAll(string(id), "/", "_"))
}

// Put writes a tenant down, whole or not at all.
func (m *moves) Put(v node.Moved) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write down that %s is swapped: %w", v.Tenant, err)
	}
	tmp := m.file(v.Tenant) + ".new"
	if err := os.WriteFile(tmp, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write down that %s is swapped: %w", v.Tenant, err)
	}
	failpoint.At("moves.written")
	if err := os.Rename(tmp, m.file(v.Tenant)); err != nil {
		return fmt.Errorf("write down that %s is swapped: %w", v.Tenant, err)
	}
	return nil
}

// Drop writes down that nothing of a tenant is in host RAM.
func (m *moves) Drop(id model.TenantID) error {
	if err := os.Remove(m.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write down that %s is restored: %w", id, err)
	}
	failpoint.At("moves.dropped")
	return nil
}

func (m *moves) list() ([]node.Moved, error) { return listMoves(m.dir) }

// listMoves reads what is written down. A file that is not whole is left out
// and told of.
func listMoves(dir string) ([]node.Moved, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is swapped: %w", err)
	}
	var all []node.Moved
	var errs []error
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".new") {
			continue // nothing had been moved yet
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		v, err := parseMoved(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("read what is swapped, %s: %w", f.Name(), err))
			continue
		}
		all = append(all, v)
	}
	return all, errors.Join(errs...)
}

func parseMoved(text []byte) (node.Moved, error) {
	var v node.Moved
	if err := json.Unmarshal(text, &v); err != nil {
		return v, err
	}
	if v.Tenant == "" || v.Proc.PID <= 1 || v.Proc.Start == 0 || v.Memory < 0 {
		return v, fmt.Errorf("names no process: %.80q", text)
	}
	return v, nil
}

func (m *moves) close() error { return m.lock.Close() }
