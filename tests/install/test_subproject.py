"""Towline as a subproject of meson, found by the fallback of dependency(): the library alone is
built and installed, tools where they are asked for, and a program of the parent exchanges a
message."""
import json
import os

import lab

PARENT = """project('parent', 'c', default_options: [%s])
towline_dep = dependency('towline', version: '>=0.2', fallback: 'towline'%s)
executable('user', 'user.c', dependencies: towline_dep, install: true)
"""


def targets(build):
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as f:
        return {t["name"]: t for t in json.load(f)}


def parent(name, defaults="", more=""):
    folder = lab.place(name + ".source")
    os.makedirs(os.path.join(folder, "subprojects"))
    os.symlink(lab.SOURCE, os.path.join(folder, "subprojects", "towline"))
    lab.write(name + ".source/user.c", lab.PROGRAM)
    lab.write(name + ".source/meson.build", PARENT % (defaults, more))
    build = lab.place(name)
    lab.must(["meson", "setup", build, folder, *lab.PLAIN], {"PKG_CONFIG_PATH": ""})
    return build


lab.need("meson", "ninja", "cc")
build = parent("plain")
made = targets(build)
wrong = [t for t in made if t.startswith(("tow-", "towstat", "towrun", "coll_", "test_", "example_",
                                          "nccl", "mpi"))]
lab.check("towline" in made and not wrong, f"a subproject builds {wrong}")
lab.ninja(build)
lab.passes([os.path.join(build, "user")], lab.version())
prefix = lab.install(build)
lab.check(lab.found(prefix, "libtowline.so") and lab.found(prefix, "user"), "nothing is installed")
for name in ("towstat", "man1", "doc"):
    lab.check(not lab.found(prefix, name), f"a subproject installs {name}")

# Static, inside of the program; and tools, since they are asked for. (They are not built here.)
build = parent("asked", more=", default_options: ['default_library=static', 'tools=enabled']")
made = targets(build)
lab.check("towstat" in made and "test_unit_knob" not in made, "tools=enabled: not towstat alone")
lab.ninja(build, "user")
lab.check("libtowline" not in lab.must(["readelf", "-dW", os.path.join(build, "user")]),
          "the program asks for libtowline.so, though the subproject is static")
lab.passes([os.path.join(build, "user")], lab.version())

# Without tools, but no subproject.
build = lab.setup("bare", "-Dtools=disabled")
made = targets(build)
lab.check("towstat" not in made and "tow-perf" not in made, "-Dtools=disabled makes tools")
lab.check("nccl-net-towline" in made, "-Dtools=disabled has no plugins")
print("subproject: passed")
