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

// measure finds text that leaves the window, its box or its picture, short words
// of tables that are broken, and texts of a picture that meet. It runs in the page and tells the page around it.
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
  if (e.closest('td,th') && !e.closest('.many') && /^[^\s-]{1,16}$/.test(n.data.trim()) && range.getClientRects().length > 1) fault('broken word', e)
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
const light = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b }
const body = getComputedStyle(document.body), paper = light(body.backgroundColor)
for (const e of document.querySelectorAll('body,p,li,td,svg text')) {
  const s = getComputedStyle(e), ink = light(e.closest('svg') ? s.fill : s.color)
  if ((Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05) < 4.5) { fault('too little contrast', e); break }
}
const scheme = matchMedia('(prefers-color-scheme: dark)').matches && paper < .2 ? 'dark' : 'light'
parent.postMessage({name: window.name, texts: texts + ' ' + scheme, faults}, '*')
</script>`

// frames shows pages in frames: a window of its own would not be as narrow as
// a phone. What they measured is written below.
const frames = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><body>
<script>window.onmessage = m => { for (const f of ['texts ' + m.data.texts, ...m.data.faults]) {
const p = document.createElement('p'); p.className = 'found'; p.textContent = m.data.name + ' ' + f; document.body.append(p) } }</script>
%s</body>`

// look opens pages by name in the dark or in the light, each at the widths in
// pixels, and returns what was found in each, "texts N light" among it: how many
// texts were looked at.
func look(t *testing.T, browser string, dark bool, pages map[string]string, widths ...int) map[string][]string {
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
	dom, log := dumpDOM(t, browser, dark, dir, "frames.html")
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
func dumpDOM(t *testing.T, browser string, dark bool, dir, file string) (dom, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	scheme := map[bool]string{true: "0", false: "1"}[dark]
	cmd := exec.CommandContext(ctx, browser, "--headless", "--blink-settings=preferredColorScheme="+scheme, "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
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
const broken = `<!doctype html><body style="background:#888;color:#999"><p style="width:40px;white-space:nowrap">much too long for its box</p>
<svg class="chart" width="100" height="20"><text x="90" y="12">outside</text><text x="92" y="14">meets</text></svg>
<table style="width:10px;overflow-wrap:anywhere"><td>makespan<td>281000</table><div style="width:9000px">wide</div><script>console.error("broken")</script></body>`

// evaluationPage is the page of contrib/evaluation.
func evaluationPage(t *testing.T) string {
	text, err := os.ReadFile("../../../contrib/evaluation/RESULTS.html")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPageInBrowser opens pages of a small and of a large cluster, reports and the
// evaluation at the width of a phone, a tablet and a desk, in the light and in the
// dark, and one that is broken, whose faults must be found.
func TestPageInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: a browser takes its time")
	}
	browser := chromium(t)
	const policies = "exclusive,gandiva,muri-l,throughput"
	pages := map[string]string{"small": simulatedPage(t, "2", policies), "large": simulatedPage(t, "40", policies),
		"report": reportPage(t), "evaluation": evaluationPage(t), "timeline": timelinePage(t), "broken": broken}
	for scheme, dark := range map[string]bool{"light": false, "dark": true} {
		found := look(t, browser, dark, pages, 390, 850, 1280)
		for name := range pages {
			for _, at := range []string{name + "@390", name + "@850", name + "@1280"} {
				if ok := len(found[at]) == 1 && len(found[at][0]) >= len("texts 10 ") && strings.HasSuffix(found[at][0], scheme); !ok && name != "broken" {
					const most = 10 // faults; the rest is of the same kind
					t.Errorf("%s, page %s: %s", scheme, at, strings.Join(found[at][:min(len(found[at]), most)], "\n"))
				}
			}
		}
		all := strings.Join(found["broken@390"], "\n")
		for _, want := range []string{"outside its box: much", "broken word: makespan", "outside its picture: outside", "meets another text: meets", "the page is 9", `console: `, "too little contrast: "} {
			if !strings.Contains(all, want) {
				t.Errorf("%s: %q is not found in the broken page: %s", scheme, want, all)
			}
		}
	}
}
