// Command gen writes the parts of gimbal-policy.5.md that the policy language
// itself tells: its keys, variables, functions and places. From the top folder:
//
//	go run ./contrib/man/gen
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/policy"
)

const page = "contrib/man/gimbal-policy.5.md"

func main() {
	if err := rewrite(page); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func rewrite(file string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	text, err := fill(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// fill puts each generated part between its two marks.
func fill(text string) (string, error) {
	for _, p := range []struct{ name, body string }{
		{"keys", keys()}, {"variables", variables()}, {"functions", functions()}, {"places", places()},
	} {
		begin, end := "<!-- generated: "+p.name+" -->\n", "<!-- end -->"
		head, rest, ok := strings.Cut(text, begin)
		if !ok {
			return "", fmt.Errorf("the mark of %s is missing", p.name)
		}
		_, tail, ok := strings.Cut(rest, end)
		if !ok {
			return "", errors.New("a part has no end")
		}
		text = head + begin + "\n" + p.body + end + tail
	}
	return text, nil
}

// entry is one entry of a definition list.
func entry(term, meaning string) string { return fmt.Sprintf("%s\n: %s\n\n", term, sentence(meaning)) }

// sentence makes one of a meaning, and keeps Markdown from reading it.
func sentence(s string) string {
	s = strings.NewReplacer("*", `\*`, "<", "&lt;", "[", `\[`).Replace(s)
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func keys() string {
	var b strings.Builder
	section := ""
	for _, k := range policy.Keys() {
		if s, _, ok := strings.Cut(k.Path, "."); ok && s != section {
			section = s
			fmt.Fprintf(&b, "## %s\n\n", header(s))
		}
		term := fmt.Sprintf("**%s** (%s", k.Path, k.Type)
		if k.Default != "" {
			term += fmt.Sprintf(", *%s*", k.Default)
		}
		b.WriteString(entry(term+")", k.Meaning))
	}
	return b.String()
}

// header is a table's header as a policy file has it.
func header(section string) string {
	if section == "guard" { // there may be several
		return "[[guard]]"
	}
	return "[" + section + "]"
}

func variables() string {
	var b strings.Builder
	group := ""
	for _, v := range policy.Variables() {
		if g, _, _ := strings.Cut(v.Name, "."); g != group {
			group = g
			fmt.Fprintf(&b, "## %s\n\n", g)
		}
		kind := v.Type
		if v.Unit != "" && v.Unit != "1" {
			kind += ", " + v.Unit
		}
		b.WriteString(entry(fmt.Sprintf("**%s** (%s)", v.Name, kind), v.Meaning))
	}
	return b.String()
}

func functions() string {
	var b strings.Builder
	for _, f := range policy.Functions() {
		b.WriteString(entry("**"+f.Form+"**", f.Meaning))
	}
	return b.String()
}

func places() string {
	var b strings.Builder
	for _, p := range policy.Places() {
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", p.Key, strings.Join(p.Groups, ", "))
	}
	return b.String()
}
