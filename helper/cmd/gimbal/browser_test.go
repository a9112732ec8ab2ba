package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// chromium is the browser's path; without one the test is skipped.
func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: the page is opened in no browser: scripts/install-deps browser installs one")
	}
	return path
}

// measure finds text that leaves the window, its box or its picture, and texts
// of a picture that meet. It runs in the page and tells the page around it.
const measure = `<script>
const faults = [], wide = document.documentElement.clientWidth
const fault = (what, e) => faults.push(what + ': ' + e.textContent.trim().slice(0, 40))
window.onerror = m => { faults.push('error: ' + m) }
if (document.documentElement.scrollWidth > wide) faults.push('the page is ' + document.documentElement.scrollWidth + ' wide')
let texts = 0
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
for (let n; n = walk.nextNode();) {
  const e = n.parentElement
  if (!n.data.trim() || e.closest('script,title,style,svg')) continue
  const range = document.createRange(); range.selectNodeContents(n)
  const r = range.getBoundingClientRect(), box = e.getBoundingClientRect()
  if (r.width === 0) continue
  texts++
  if (r.left < -1 || r.right > wide + 1) fault('outside the window', e)
  if (getComputedStyle(e).display !== 'inline' && (r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1)) fault('outside its box', e)
}
for (const svg of document.querySelectorAll('svg.chart')) {
  const box = svg.getBoundingClientRect(), seen = []
  for (const e of svg.querySelectorAll('text')) {
    const r = e.getBoundingClientRect()
    texts++
    if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) fault('outside its picture', e)
    for (const s of seen) if (r.left < s.right && s.left < r.right && r.top + 3 < s.bottom && s.top + 3 < r.bottom) fault('meets another text', e)
    seen.push(r)
  }
}
parent.postMessage({name: window.name, texts, faults}, '*')
</script>`

// frames shows pages in frames: a window of its own would not be as narrow as
// a phone. What they measured is written below.
const frames = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body>
<script>window.onmessage = m => { for (const f of ['texts ' + m.data.texts, ...m.data.faults]) {
const p = document.createElement('p'); p.className = 'found'; p.textContent = m.data.name + ' ' + f; document.body.append(p) } }</script>
%s</body>`

// look opens pages by name, each at the widths in pixels, and returns what was
// found in each, "texts N" among it: how many texts were looked at.
func look(t *testing.T, browser string, pages map[string]string, widths ...int) map[string][]string {
	t.Helper()
	dir, list := t.TempDir(), ""
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, page := range pages {
		write(name+".html", strings.Replace(page, "</body>", measure+"</body>", 1))
		for _, width := range widths {
			list += fmt.Sprintf(`<iframe name="%s@%d" src="%s.html" width="%d" height="2000" style="border:0"></iframe>`, name, width, name, width)
		}
	}
	write("frames.html", fmt.Sprintf(frames, list))
	dom, log := dumpDOM(t, browser, dir, "frames.html")
	found := make(map[string][]string)
	for _, m := range regexp.MustCompile(`<p class="found">(\S+) ([^<]*)</p>`).FindAllStringSubmatch(dom, -1) {
		found[m[1]] = append(found[m[1]], html.UnescapeString(m[2]))
	}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "CONSOLE") {
			continue
		}
		for name := range found {
			if page, _, _ := strings.Cut(name, "@"); strings.Contains(line, "/"+page+".html") {
				found[name] = append(found[name], "console: "+line)
			}
		}
	}
	return found
}

// dumpDOM opens a file in a browser without a window.
func dumpDOM(t *testing.T, browser, dir, file string) (dom, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1400,2200", "--virtual-time-budget=5000",
		"--dump-dom", "file://"+filepath.Join(dir, file))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 5*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("open %s: %v\n%s", file, err, errs.String())
	}
	return out.String(), errs.String()
}

// broken is a page with a fault of each kind.
const broken = `<!doctype html><body><p style="width:40px;white-space:nowrap">much too long for its box</p>
<svg class="chart" width="100" height="20"><text x="90" y="12">outside</text><text x="92" y="14">meets</text></svg>
<div style="width:9000px">wide</div><script>console.error("broken")</script></body>`

// TestPageInBrowser opens pages of a small and of a large cluster at the width
// of a phone and of a desk, and one that is broken, whose faults must be found.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: a browser takes its time")
	}
	browser := chromium(t)
	const policies = "exclusive,gandiva,muri-l,throughput"
	found := look(t, browser, map[string]string{
		"small": simulatedPage(t, "2", policies), "large": simulatedPage(t, "40", policies), "broken": broken,
	}, 390, 1280)
	for _, name := range []string{"small@390", "small@1280", "large@390", "large@1280"} {
		if len(found[name]) != 1 || len(found[name][0]) < len("texts 100") {
			t.Errorf("page %s: %s", name, strings.Join(found[name], "\n"))
		}
	}
	all := strings.Join(found["broken@390"], "\n")
	for _, want := range []string{"outside its box: much", "outside its picture: outside", "meets another text: meets", "the page is 9", `console: `} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not found in the broken page: %s", want, all)
		}
	}
}
