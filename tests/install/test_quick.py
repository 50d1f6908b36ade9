"""What takes a few seconds, so that each run has it: a 32 bit compiler is refused by a sentence,
and scripts/install-deps says and does what it should on a system whose packages are made up."""
import os

import lab

MACHINE = """[binaries]
c = ['cc', '-m32']
[properties]
skip_sanity_check = true
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
"""
# These stand for dpkg-query (nothing is installed, but what INSTALLED names), apt-get and sudo.
DPKG = """#!/bin/sh
for package; do :; done
case " $INSTALLED " in *" $package "*) echo installed ;; *) exit 1 ;; esac
"""
APT = """#!/bin/sh
echo "apt-get $*" >>"$SAID"
"""
ID = """#!/bin/sh
[ "$1" = -u ] && echo "$AS"
"""
NO_SUDO = """#!/bin/sh
exit 1
"""


def refuse_32_bits():
    if os.uname().machine != "x86_64" or lab.run(["cc", "-m32", "-c", "-x", "c", "/dev/null", "-o",
                                                  lab.place("x.o")]).returncode != 0:
        print("note: this compiler has no -m32")
        return
    done = lab.run(["meson", "setup", lab.place("b32"), lab.SOURCE, "--cross-file",
                    lab.write("32.ini", MACHINE)])
    lab.check(done.returncode != 0 and "Towline needs a 64 bit machine: " in done.stdout,
              f"a 32 bit compiler: {done.stdout[-500:]!r}")


def deps(words, user="1000", installed=""):
    """(status, what it printed, calls of apt-get)"""
    calls = lab.place("calls")
    if os.path.exists(calls):
        os.unlink(calls)
    done = lab.run([os.path.join(lab.SOURCE, "scripts", "install-deps"), *words],
                   {"PATH": lab.place("bin") + ":" + os.environ["PATH"], "SAID": calls, "AS": user,
                    "INSTALLED": installed})
    made = ""
    if os.path.exists(calls):
        with open(calls, encoding="utf-8") as f:
            made = f.read()
    return done.returncode, done.stdout, made


def check_deps():
    for name, text in (("dpkg-query", DPKG), ("apt-get", APT), ("id", ID), ("sudo", NO_SUDO)):
        os.chmod(lab.write("bin/" + name, text), 0o755)
    sets = {}
    for what in ("demo", "tests", "docs"):
        status, said, made = deps([what])
        last = said.strip().split("\n")[-1]
        lab.check(status == 1 and not made, f"{what} without root: {status}, {said}, {made}")
        lab.check(last.startswith("apt-get update && apt-get install -y --no-install-recommends "),
                  f"{what} without root prints {last!r}")
        sets[what] = set(last.split("--no-install-recommends ")[1].split())
    for heavy in ("clang", "clang-14", "chromium-headless-shell", "libcmocka-dev", "man-db"):
        lab.check(heavy not in sets["demo"], f"the demo pulls {heavy}")
    lab.check({"gcc", "libc6-dev", "meson", "curl"} <= sets["demo"], f"the demo has {sets['demo']}")
    lab.check({"clang-14", "libcmocka-dev", "abigail-tools"} <= sets["tests"], "tests lack one")
    lab.check("man-db" in sets["docs"] and "clang" not in sets["docs"], f"docs has {sets['docs']}")
    status, said, _ = deps([])
    lab.check(status == 1 and sets["demo"] | sets["tests"] == set(
        said.strip().split("\n")[-1].split("--no-install-recommends ")[1].split()), "the default")

    status, said, made = deps(["demo"], "0", "gcc meson")
    lab.check(status == 0 and "update\n" in made and "--no-install-recommends" in made and
              " meson " not in made, f"as root: {status}, {said}, {made}")
    status, said, made = deps(["demo"], "1000", " ".join(sets["demo"]))
    lab.check(status == 0 and f"all {len(sets['demo'])} packages are installed" in said and
              not made, f"with all installed: {status}, {said}, {made}")
    status, said, made = deps(["everything"])
    lab.check(status == 2 and "'everything' is none of demo, tests, docs" in said, said)


lab.need("meson", "cc", "sh")
refuse_32_bits()
check_deps()
print("quick: passed")
