package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
)

// stops keeps the node's stops in a stop set. A guard that took the set over
// has continued everything in it: the next stop takes it back.
type stops struct {
	path string
	told func(generation uint64) // of each new generation

	mu  sync.Mutex
	set *journal.StopSet
}

func openStops(path string, told func(uint64)) (*stops, error) {
	s := &stops{path: path, told: told}
	return s, s.open()
}

func (s *stops) open() error {
	set, err := journal.OpenStopSet(s.path, "")
	if err != nil {
		return err
	}
	s.set = set
	s.told(set.Generation())
	return nil
}

// Put writes a stop down. What it leaves out of an earlier one of the same
// tenant stays: to continue a process twice is harmless.
func (s *stops) Put(stop node.Stop) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.add(stop)
	if !errors.Is(err, journal.ErrFenced) {
		return err
	}
	if stop.Begun {
		return err // the guard continued it meanwhile
	}
	if err := s.reopen(); err != nil {
		return fmt.Errorf("take the stop set back from the guard: %w", err)
	}
	return s.add(stop)
}

func (s *stops) add(stop node.Stop) error {
	if stop.Held {
		return s.set.AddHeld(stop.Tenant, stop.IDs, stop.Cgroups)
	}
	return s.set.Add(stop.Tenant, stop.IDs, stop.Cgroups)
}

func (s *stops) reopen() error {
	old := s.set
	if err := s.open(); err != nil {
		return err
	}
	_ = old.Close() // fenced: nothing more can be written to it
	for id := range s.set.Tenants() {
		if err := s.set.Remove(id); err != nil {
			return err
		}
	}
	return nil
}

// Drop writes down that nothing of the tenant is stopped.
func (s *stops) Drop(id model.TenantID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.set.Remove(id); !errors.Is(err, journal.ErrFenced) {
		return err
	}
	return nil // the guard's next reading starts from its own
}

// Check tells whether what was stopped is still ours to keep stopped.
func (s *stops) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Check()
}

func (s *stops) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set.Close()
}
