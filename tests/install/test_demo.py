"""The demo runs from a tree into which nothing can be written: its build folder lies elsewhere.
What it prints has nothing odd in it (demo_lines.py), and the page at its end is there. A second
run stands beside two processes that take the processors."""
import os
import shutil
import subprocess

import demo_lines
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
          "cd / && {0}/scripts/demo --steps 4 {1}")
namespace = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-m", "-U", "-r"]
if lab.run([*namespace, "true"]).returncode != 0:
    lab.skip("this system does not let us make a mount namespace")
env = {"HOME": home, "XDG_CACHE_HOME": ""}


def check_demo(arguments):
    said = lab.must([*namespace, "sh", "-c", inside.format(tree, arguments)], env)
    lab.check("averaged every gradient to the bit" in said, said[-2000:])
    found = demo_lines.odd(said)
    lab.check(not found, "\n".join(found))
    page = said.split("xdg-open ")[1].split("\n")[0]
    with open(page, encoding="utf-8") as f:
        text = f.read()
    lab.check(text.startswith("<!") and "Collectives: slack and stall" in text,
              f"{page} is no report: {text[:200]!r}")


built = os.path.join(home, ".cache", "towline-demo")
check_demo("")
lab.check(lab.found(built, "tow-grads"), f"nothing was built in {built}")
# A folder that the user names, which is the same one, so that nothing is built again.
load = [subprocess.Popen(["timeout", "120", "sh", "-c", "while :; do :; done"]) for _ in range(2)]
try:
    check_demo("--build " + built)
finally:
    for process in load:
        process.terminate()
        process.wait()
refused = lab.run([*namespace, "sh", "-c", inside.format(tree, "--build " + tree + "/b")], env)
lab.check(refused.returncode == 1 and "name another folder by --build FOLDER" in refused.stdout,
          f"a folder in a read-only tree: {refused.stdout[-300:]!r}")
print("demo: passed")
