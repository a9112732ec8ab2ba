package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
)

// slurmCommands is what the daemon asks of Slurm.
type slurmCommands struct {
	client *slurm.Client

	mu      sync.Mutex
	private bool // PrivateData names jobs
	asked   time.Time
	ruled   bool // a Slurm places jobs on this node
	looked  time.Time
	levels  map[string]level // of users, as accounting has them
}

// level is whether a user is an operator of Slurm's, and when that was asked.
type level struct {
	operator bool
	asked    time.Time
}

// Bounds of asking who is an operator: a user's status waits for it.
const (
	levelLimit = time.Second
	maxLevels  = 1024
)

// operator tells whether accounting has a user as an operator or administrator of
// Slurm. Where it does not answer he is none.
func (s *slurmCommands) operator(ctx context.Context, user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.levels[user]; ok && time.Since(l.asked) < privateFor {
		return l.operator
	}
	if s.levels == nil || len(s.levels) >= maxLevels {
		s.levels = map[string]level{}
	}
	ctx, cancel := context.WithTimeout(ctx, levelLimit)
	defer cancel()
	is, err := s.client.IsOperator(ctx, user)
	s.levels[user] = level{operator: err == nil && is, asked: time.Now()}
	return s.levels[user].operator
}

func newSlurm(c *config.Config) *slurmCommands {
	return &slurmCommands{client: slurm.New(slurm.Options{Bin: c.Slurm.Bin, Conf: c.Slurm.Conf, Timeout: c.Slurm.Timeout})}
}

// Evict hands a job back to Slurm: it is requeued where it may be, else
// cancelled, with the reason in its comment.
func (s *slurmCommands) Evict(ctx context.Context, r model.Registration, why string) error {
	err := s.client.Requeue(ctx, r.JobID)
	if err == nil {
		return nil
	}
	if err2 := s.client.Cancel(ctx, r.JobID, "gimbal: "+why); err2 != nil {
		return errors.Join(fmt.Errorf("requeue: %w", err), fmt.Errorf("cancel: %w", err2))
	}
	return nil
}

// Completing tells whether a job is ending, or over.
func (s *slurmCommands) Completing(ctx context.Context, job uint32) (bool, error) {
	return s.client.Completing(ctx, job)
}

// privateFor is how long an answer of Slurm's is good.
const privateFor = 5 * time.Minute

// hidesJobs tells whether Slurm's PrivateData hides jobs from other users. If
// Slurm does not answer, they are hidden.
func (s *slurmCommands) hidesJobs(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked.IsZero() && time.Since(s.asked) < privateFor {
		return s.private
	}
	words, err := s.client.PrivateData(ctx)
	s.private = err != nil || slices.Contains(words, "jobs")
	s.asked = time.Now()
	return s.private
}

// rules tells whether a Slurm places jobs on this node, as far as its commands
// know.
func (s *slurmCommands) rules(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.looked.IsZero() && time.Since(s.looked) < privateFor {
		return s.ruled
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := s.client.NodeName(ctx)
	s.ruled, s.looked = err == nil, time.Now()
	return s.ruled
}

// nodeName is Slurm's name of this node, or the host's.
func (s *slurmCommands) nodeName(ctx context.Context, configured string) string {
	if configured != "" {
		return configured
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	name, err := s.client.NodeName(ctx)
	if name != "" {
		return name
	}
	if host, hostErr := os.Hostname(); err != nil && hostErr == nil {
		return host
	}
	return "localhost"
}
