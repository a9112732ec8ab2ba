package report

import (
	"encoding/json"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := WriteJSON(&b, NewDocument(fixture(), everything())); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", b.String())
	var back Document
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err)
	}
	if got := back.Tenants[1].Name; got != `crazy|name,with\slash` {
		t.Errorf("a name came back as %q", got)
	}
	if n := len(back.Tenants); n != len(fixture().Tenants) {
		t.Errorf("%d tenants, want all %d", n, len(fixture().Tenants))
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a control character is written raw")
	}
}

// The keys of the schema are a promise: whoever changes them changes Schema.
func TestSchemaKeys(t *testing.T) {
	keys := map[string]bool{}
	collectKeys(reflect.TypeFor[Document](), "", keys)
	list := make([]string, 0, len(keys))
	for k := range keys {
		list = append(list, k)
	}
	sort.Strings(list)
	golden(t, "schema.txt", Schema+"\n"+strings.Join(list, "\n")+"\n")
}

func collectKeys(t reflect.Type, at string, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		collectKeys(t.Elem(), at, keys)
	case reflect.Slice:
		collectKeys(t.Elem(), at+"[]", keys)
	case reflect.Struct:
		if t.Implements(reflect.TypeFor[json.Marshaler]()) {
			keys[at] = true
			return
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			collectKeys(t.Field(i).Type, at+"."+name, keys)
		}
	default:
		keys[at] = true
	}
}

func TestHiddenTenantsTellNothing(t *testing.T) {
	secret := "secret-name"
	v := view(77, secret, model.Running, 0)
	v.Hidden = true
	v.Reg.User, v.Reason.Text, v.Reg.Account, v.Reg.Partition = secret, secret, secret, secret
	v.Terms.Notes, v.Terms.Policy, v.Exempt = []string{secret}, secret, secret
	s := &model.Snapshot{Tenants: []model.View{v, view(78, "mine", model.Running, 0)}}
	var b strings.Builder
	if err := WriteJSON(&b, NewDocument(s, everything())); err != nil {
		t.Fatal(err)
	}
	b.WriteString(render(t, "ALL", Rows(s, everything(), utc()), Layout{Parsable: true, NoHeader: true}))
	if strings.Contains(b.String(), secret) || strings.Contains(b.String(), "77") {
		t.Errorf("a hidden tenant shows in:\n%s", b.String())
	}
}
