"""The demo runs from a tree into which nothing can be written: its build folder lies elsewhere."""
import os
import shutil

import lab

lab.need("meson", "ninja", "unshare", "mount", "git")
tree, home = lab.place("tree"), lab.place("home")
os.makedirs(home)
os.makedirs(tree)
listed = lab.must(["git", "-c", "safe.directory=*", "-C", lab.SOURCE, "ls-files", "-z"])
for name in listed.split("\0"):
    source = os.path.join(lab.SOURCE, name)
    if os.path.isfile(source):
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        shutil.copy(source, os.path.join(tree, name))
inside = ("mount --bind {0} {0} && mount -o remount,ro,bind {0} && ! touch {0}/file 2>/dev/null && "
          "cd / && {0}/scripts/demo --steps 1 {1}")
namespace = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-m", "-U", "-r"]
if lab.run([*namespace, "true"]).returncode != 0:
    lab.skip("this system does not let us make a mount namespace")
env = {"HOME": home, "XDG_CACHE_HOME": ""}
said = lab.must([*namespace, "sh", "-c", inside.format(tree, "")], env)
built = os.path.join(home, ".cache", "towline-demo")
lab.check("averaged every gradient to the bit" in said, said[-2000:])
lab.check(lab.found(built, "tow-grads"), f"nothing was built in {built}")
# A folder that the user names, which is the same one, so that nothing is built again.
said = lab.must([*namespace, "sh", "-c", inside.format(tree, "--build " + built)], env)
lab.check("averaged every gradient to the bit" in said, said[-2000:])
refused = lab.run([*namespace, "sh", "-c", inside.format(tree, "--build " + tree + "/b")], env)
lab.check(refused.returncode == 1 and "name another folder by --build FOLDER" in refused.stdout,
          f"a folder in a read-only tree: {refused.stdout[-300:]!r}")
print("demo: passed")
