package config

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestPrivateFolderIsTheUsersAlone: what another could have written into is not
// taken for a runtime folder.
func TestPrivateFolderIsTheUsersAlone(t *testing.T) {
	uid, dir := os.Getuid(), t.TempDir()
	env := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir}[name] }
	for mode, taken := range map[os.FileMode]bool{0o700: true, 0o755: false, 0o777: false, 0o710: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if got := PrivateSocket(env, uid); strings.HasPrefix(got, dir+"/") != taken {
			t.Errorf("mode %o: %s", mode, got)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := PrivateSocket(env, uid+1); got != filepath.Join("/tmp", "gimbal-"+strconv.Itoa(uid+1), "gimbal/gimbald.sock") {
		t.Errorf("for another user: %s", got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := MakePrivate(filepath.Join(link, "gimbal/gimbald.sock"), uid); err == nil {
		t.Error("a link is taken for the folder")
	}
	if err := MakePrivate(PrivateSocket(env, uid), uid); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(filepath.Join(dir, "gimbal")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
}
