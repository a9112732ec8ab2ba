package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

// The orders of tenants on a GPU, in the turn of the s key.
var topSorts = []string{"job", "state", "memory", "sm", "time", "user"}

// place is a line that can be chosen: a tenant on a GPU. The views of others'
// jobs have no name, so they go by their place in the list.
type place struct {
	gpu, tenant string
}

// topLane is one GPU with the tenants on it.
type topLane struct {
	gpu     *model.GPU // nil: those on no GPU that the driver shows
	tenants []*model.View
}

// screen is what gimbal top shows: plain values and what the keys make of them.
type screen struct {
	snap    model.Snapshot
	trouble string // why snap is old, "" if it is not
	now     time.Time
	sort    string
	user    string // only this user's tenants, "" everybody's
	chosen  place
	news    []news
	known   map[model.TenantID]time.Time // when each tenant's last news happened

	asking  bool // a user's name is being typed
	typed   string
	message string   // said once at the bottom
	history []string // lines of a tenant's story; nil: the list is shown
	offset  int      // first line of the story, or of the list, that is shown
}

// news is something that happened to a tenant.
type news struct {
	at   time.Time
	text string
	user string
	uid  uint32
}

// maxNews is how much is kept to be shown.
const maxNews = 50

func newScreen(sort, user string) *screen {
	return &screen{sort: sort, user: user, known: map[model.TenantID]time.Time{}}
}

// take shows a new snapshot; with an error the old one stays.
func (s *screen) take(snap model.Snapshot, err error, now time.Time) {
	s.now = now
	if err != nil {
		s.trouble = err.Error()
		return
	}
	s.snap, s.trouble = snap, ""
	s.remember()
}

// remember notes what is new since the snapshot before.
func (s *screen) remember() {
	alive := map[model.TenantID]time.Time{}
	for i := range s.snap.Tenants {
		v := &s.snap.Tenants[i]
		if v.Hidden || v.SinceWall.IsZero() {
			continue
		}
		// The wall clock of a view is worked out anew each time.
		since := v.SinceWall.Truncate(time.Second)
		alive[v.ID] = since
		if old, ok := s.known[v.ID]; !ok || since.Sub(old).Abs() > time.Second {
			s.news = append(s.news, news{v.SinceWall, v.Name() + " " + because(strings.ToLower(v.Word()), v.Reason), v.Reg.User, v.Reg.UID})
		} else {
			alive[v.ID] = old
		}
	}
	s.known = alive
	slices.SortStableFunc(s.news, func(a, b news) int { return b.at.Compare(a.at) })
	s.news = s.news[:min(len(s.news), maxNews)]
}

// lanes sorts the tenants onto the GPUs.
func (s *screen) lanes() []topLane {
	var out []topLane
	placed := map[*model.View]bool{}
	for i := range s.snap.GPUs {
		l := topLane{gpu: &s.snap.GPUs[i]}
		for k := range s.snap.Tenants {
			if v := &s.snap.Tenants[k]; v.Uses(l.gpu.UUID) {
				placed[v] = true
				if s.shows(v) {
					l.tenants = append(l.tenants, v)
				}
			}
		}
		s.order(l)
		out = append(out, l)
	}
	var rest topLane
	for k := range s.snap.Tenants {
		if v := &s.snap.Tenants[k]; !placed[v] && s.shows(v) {
			rest.tenants = append(rest.tenants, v)
		}
	}
	if len(rest.tenants) > 0 {
		s.order(rest)
		out = append(out, rest)
	}
	return out
}

func (s *screen) shows(v *model.View) bool {
	if v.State == model.Gone {
		return false
	}
	return s.user == "" || !v.Hidden && s.isUser(v.Reg.User, v.Reg.UID)
}

// isUser tells whether somebody is the one whose tenants are shown alone.
func (s *screen) isUser(name string, uid uint32) bool {
	return s.user == "" || name == s.user || fmt.Sprint(uid) == s.user
}

// order sorts a lane as the s key says; others' jobs come last.
func (s *screen) order(l topLane) {
	use := func(v *model.View) model.Usage {
		if l.gpu == nil {
			return model.Usage{}
		}
		return v.Use[l.gpu.UUID]
	}
	slices.SortStableFunc(l.tenants, func(a, b *model.View) int {
		c := 0
		switch s.sort {
		case "state":
			c = cmp.Compare(a.State, b.State)
		case "memory":
			c = cmp.Compare(use(b).Memory.Or(-1), use(a).Memory.Or(-1))
		case "sm":
			c = cmp.Compare(use(b).SM.Or(-1), use(a).SM.Or(-1))
		case "time":
			c = b.SinceWall.Compare(a.SinceWall)
		case "user":
			c = cmp.Compare(a.Reg.User, b.Reg.User)
		}
		return cmp.Or(cmp.Compare(b2i(a.Hidden), b2i(b.Hidden)), c, cmp.Compare(a.Reg.JobID, b.Reg.JobID), cmp.Compare(a.ID, b.ID))
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// placeOf names the i-th tenant of a lane.
func placeOf(l topLane, i int) place {
	p := place{tenant: string(l.tenants[i].ID)}
	if l.gpu != nil {
		p.gpu = l.gpu.UUID
	}
	if p.tenant == "" {
		p.tenant = fmt.Sprintf("#%d", i)
	}
	return p
}

// places lists the lines that can be chosen, from top to bottom.
func (s *screen) places() []place {
	var out []place
	for _, l := range s.lanes() {
		for i := range l.tenants {
			out = append(out, placeOf(l, i))
		}
	}
	return out
}

// selected is the tenant of the chosen line, nil where none is chosen.
func (s *screen) selected() *model.View {
	for _, l := range s.lanes() {
		for i, v := range l.tenants {
			if placeOf(l, i) == s.chosen {
				return v
			}
		}
	}
	return nil
}

// deed is what a key asks of the world around the screen.
type deed int

const (
	deedNone    deed = iota
	deedQuit         // end
	deedSuspend      // stop, as ^Z does
	deedHistory      // get the chosen tenant's story
)

// press takes a key: a character, or the name of one ("up", "enter", "esc").
func (s *screen) press(key string) deed {
	s.message = ""
	switch {
	case key == "ctrl-c":
		return deedQuit
	case key == "ctrl-z":
		return deedSuspend
	case s.asking:
		s.typeKey(key)
		return deedNone
	case s.history != nil:
		s.pressInHistory(key)
		return deedNone
	}
	return s.pressInList(key)
}

func (s *screen) pressInList(key string) deed {
	switch key {
	case "q":
		return deedQuit
	case "s":
		s.sort = topSorts[(slices.Index(topSorts, s.sort)+1)%len(topSorts)]
	case "f":
		s.asking, s.typed = true, s.user
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "pgup":
		s.move(-10)
	case "pgdn":
		s.move(10)
	case "home":
		s.move(-1 << 20)
	case "end":
		s.move(1 << 20)
	case "enter":
		switch v := s.selected(); {
		case v == nil:
			s.message = "choose a tenant with the arrows first"
		case v.Hidden:
			s.message = "that is another user's job"
		default:
			return deedHistory
		}
	}
	return deedNone
}

// move chooses another line; the first time, the first one.
func (s *screen) move(by int) {
	all := s.places()
	if len(all) == 0 {
		return
	}
	i := slices.Index(all, s.chosen)
	if i < 0 {
		i = min(max(by, -1), 0) // down: the first, up: the first as well
		by = 0
	}
	s.chosen = all[min(max(i+by, 0), len(all)-1)]
}

func (s *screen) pressInHistory(key string) {
	switch key {
	case "q", "esc", "enter", "left", "backspace":
		s.history, s.offset = nil, 0
	case "up", "k":
		s.offset--
	case "down", "j":
		s.offset++
	case "pgup":
		s.offset -= 10
	case "pgdn", " ":
		s.offset += 10
	case "home":
		s.offset = 0
	case "end":
		s.offset = len(s.history)
	}
	s.offset = min(max(s.offset, 0), max(len(s.history)-1, 0))
}

// maxTyped is longer than a login name.
const maxTyped = 64

func (s *screen) typeKey(key string) {
	r := []rune(key)
	switch {
	case key == "enter":
		s.asking, s.user = false, strings.TrimSpace(s.typed)
	case key == "esc":
		s.asking = false
	case key == "backspace" && s.typed != "":
		t := []rune(s.typed)
		s.typed = string(t[:len(t)-1])
	case len(r) == 1 && r[0] > ' ' && len(s.typed) < maxTyped:
		s.typed += key
	}
}

// quantumPattern finds the quantum in the reason of who has the turn.
var quantumPattern = regexp.MustCompile(`quantum ([0-9.]+(ms|s|m|h)[0-9a-z.]*)`)

// clock says how long a tenant's turn still lasts where its reason tells, else
// for how long it has been in its state.
func (s *screen) clock(v *model.View) string {
	if v.SinceWall.IsZero() {
		return "-"
	}
	if left, ok := turnLeft(v, s.snap.At); ok {
		return shortTime(left) + " left"
	}
	return shortTime(max(s.snap.At.Sub(v.SinceWall), 0))
}

// turnLeft is what is left of a tenant's turn, where its reason tells.
func turnLeft(v *model.View, now time.Time) (time.Duration, bool) {
	m := quantumPattern.FindStringSubmatch(v.Reason.Text)
	if m == nil || v.State != model.Running {
		return 0, false
	}
	q, err := time.ParseDuration(m[1])
	left := q - max(now.Sub(v.SinceWall), 0)
	return left, err == nil && left > 0
}

// shortTime writes a length of time in at most six columns.
func shortTime(d time.Duration) string {
	sec := int64(d / time.Second)
	switch {
	case sec < 60:
		return fmt.Sprintf("%ds", sec)
	case sec < 3600:
		return fmt.Sprintf("%dm%02ds", sec/60, sec%60)
	case sec < 100*3600:
		return fmt.Sprintf("%dh%02dm", sec/3600, sec/60%60)
	}
	return fmt.Sprintf("%dd%02dh", sec/86400, sec/3600%24)
}

// fit cuts a text to n columns, with a + where something is missing, or fills
// it up with blanks.
func fit(text string, n int) string {
	text = report.Printable(text)
	w := report.Width(text)
	if w <= n {
		return text + strings.Repeat(" ", n-w)
	}
	var b strings.Builder
	w = 0
	for _, r := range text {
		rw := report.Width(string(r))
		if w+rw > n-1 {
			break
		}
		b.WriteRune(r)
		w += rw
	}
	if n > 0 {
		b.WriteByte('+')
		w++
	}
	return b.String() + strings.Repeat(" ", max(n-w, 0))
}
