"""install.py - what is installed can be used: by pkg-config and CMake, all headers, compiled, run.

The build is installed into a folder of its own below the build folder and nothing is rebuilt. The
program includes every header that the tree has, so one that was not installed is found. Pages and
examples have to lie beside each other, and the examples have to compile where they lie. A Debian
package has to take each file, or packaging/debian/not-installed: else no package can be built.
"""
import fnmatch
import os
import re
import shlex
import shutil
import sys

import common
from common import Fault

PROGRAM = """%s
#include <stdio.h>
#include <string.h>

int main(void)
{
\tprintf("%%s\\n", tow_version());
\treturn strcmp(tow_version(), TOW_VERSION) != 0;
}
"""
PC = "towline.pc"


def stage(args, name="installed"):
    """Installs into a fresh folder; returns it."""
    staged = os.path.join(args.build, "tests", "check", name)
    shutil.rmtree(staged, ignore_errors=True)
    done = common.run([args.meson, "install", "--no-rebuild", "--quiet", "-C", args.build,
                       "--destdir", staged])
    if done.returncode != 0:
        return staged, Fault("meson.build", 1, "meson install: " + (done.stdout + done.stderr)
                             .strip()[-400:], "mend what it installs")
    return staged, None


def use(staged, headers, compiler):
    """Compiles and runs the program against what lies in `staged`; None when all is well."""
    folders = [d for d, _, files in os.walk(staged) if PC in files]
    if not folders:
        return Fault("meson.build", 1, f"{PC} is not installed", "import('pkgconfig').generate()")
    env = dict(os.environ, PKG_CONFIG_PATH=folders[0], PKG_CONFIG_SYSROOT_DIR=staged)
    flags = common.run(["pkg-config", "--cflags", "--libs", "towline"], env=env)
    if flags.returncode != 0:
        return Fault("meson.build", 1, "pkg-config: " + flags.stderr.strip(), "mend the .pc file")
    program = os.path.join(staged, "program")
    source = PROGRAM % "\n".join(f"#include <towline/{h}>" for h in headers)
    built = common.run([*compiler, "-std=c11", "-Wall", "-Werror", "-x", "c", "-", "-x", "none",
                        "-o", program, *shlex.split(flags.stdout)], input=source)
    if built.returncode != 0:
        return Fault("meson.build", 1, "a program does not build against the installed files: "
                     + built.stderr.strip()[:400], "install every public header, name every flag")
    env["LD_LIBRARY_PATH"] = os.path.dirname(folders[0])
    ran = common.run([program], env=env)
    if ran.returncode != 0:
        return Fault("meson.build", 1, f"the program ends with {ran.returncode}: "
                     f"{(ran.stdout + ran.stderr).strip()}", "library and headers must be of one "
                     "version, and the library must load from where it is installed")
    print(f"installed Towline {ran.stdout.strip()}, {len(headers)} headers")
    return None


def documents(tree, staged):
    """Faults: pages and examples of the tree that are not installed."""
    found = [d for d, _, _ in os.walk(staged) if d.endswith("/doc/towline")]
    if not found:
        return [Fault("meson.build", 1, "share/doc/towline is not installed", "install_data()")]
    wanted = tree.match(r"(docs/.*\.md|examples/.*\.c|[A-Z][^/]*\.md|LICENSE|NOTICE)$")
    return [Fault(name, 1, f"{name} is not installed", "look at the meson.build of its folder")
            for name in wanted if not os.path.isfile(os.path.join(found[0], name))]


def packaged(tree, staged):
    """Faults: installed files that no package takes. What is below the prefix is /usr there."""
    prefix = [d for d, folders, _ in os.walk(staged) if "include" in folders][0]
    lists = tree.match(r"packaging/debian/(.*\.files|not-installed)$")
    patterns = [line.split()[0] for name in lists for line in tree.text(name).split("\n") if line]
    faults = []
    for place, _, names in os.walk(prefix):
        for name in sorted(names):
            path = "usr/" + os.path.relpath(os.path.join(place, name), prefix)
            # Debian's folder of libraries has one more for the kind of machine.
            ways = [path, path.replace("usr/lib/", "usr/lib/kind/", 1)]
            if not any(fnmatch.fnmatch(way, pattern) or fnmatch.fnmatch(way, pattern + "/*")
                       for way in ways for pattern in patterns):
                faults.append(Fault("packaging/debian", 1, f"no package takes {path}",
                                    "name it in a list of files of packaging/debian"))
    return faults


def examples(staged, compiler):
    """Faults: installed examples that do not compile against what is installed."""
    include = [d for d, _, files in os.walk(staged) if "towline.h" in files][0]
    faults = []
    for place, _, names in os.walk(staged):
        for name in sorted(names):
            path = os.path.join(place, name)
            # The probes need the kernel's libraries; a test of their own builds them.
            if not place.endswith("/examples") or not name.endswith(".c") or "probes" in name:
                continue
            done = common.run([*compiler, "-std=gnu11", "-Wall", "-Werror", "-fsyntax-only",
                               "-I" + os.path.dirname(include), path])
            if done.returncode != 0:
                faults.append(Fault("examples/" + name, 1, "does not compile as it is installed: "
                                    + done.stderr.strip()[:300], "include public headers alone"))
    return faults


CMAKE = """cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(Towline %s REQUIRED)
add_executable(user user.c)
target_link_libraries(user PRIVATE Towline::%s)
"""


def by_cmake(staged, version, folder, target="towline", more=()):
    """find_package and a program, in a folder; a Fault, or None when it says the version."""
    os.makedirs(folder, exist_ok=True)
    package = [d for d, _, files in os.walk(staged) if "TowlineConfig.cmake" in files]
    if not package:
        return Fault("packaging/cmake", 1, "TowlineConfig.cmake is not installed", "install it")
    for name, text in (("CMakeLists.txt", CMAKE % (version, target)),
                       ("user.c", PROGRAM % "#include <towline/towline.h>")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    built = os.path.join(folder, "b")
    for command in (["cmake", "-S", folder, "-B", built, "-DTowline_DIR=" + package[0], *more],
                    ["cmake", "--build", built], [os.path.join(built, "user")]):
        done = common.run(command)
        if done.returncode != 0:
            return Fault("packaging/cmake", 1, " ".join(command[:2]) + ": " +
                         (done.stdout + done.stderr).strip()[-500:], "mend TowlineConfig.cmake.in")
    return None


def sample_library(tree):
    """Self-test: lays lib.c and the headers of a sample out as an installation would."""
    if "lib.c" in tree.names:
        common.run(["gcc", "-shared", "-fPIC", "-o", tree.path("usr/lib/libtowline.so"),
                    tree.path("lib.c")], check=True)
    return [n.split("/")[-1] for n in tree.match(r"include/towline/.*\.h$")]


def check(tree, args=None):
    for tool in ["pkg-config"] + ([] if args else ["gcc"]):
        if shutil.which(tool) is None:
            raise common.Skip(tool + " is missing")
    if args is None:
        fault = use(tree.root, sample_library(tree), ["gcc"])
        lists = not fault and tree.match(r"packaging/debian/.*\.files$")
        return packaged(tree, tree.path("usr")) if lists else [fault] if fault else []
    if args.sanitize not in (None, "none"):
        raise common.Skip(f"a library built with b_sanitize={args.sanitize} is not for others")
    if not args.meson:
        raise common.Skip("meson is not on PATH")
    staged, fault = stage(args)
    headers = [re.sub(r"\.in$", "", n.split("/")[-1])
               for n in tree.match(r"include/towline/[^/]+\.h(\.in)?$")]
    compiler = shlex.split(args.cc)
    fault = fault or use(staged, headers, compiler)
    faults = [fault] if fault else documents(tree, staged) + examples(staged, compiler) + \
        packaged(tree, staged)
    if not faults and shutil.which("cmake"):
        faults += [f for f in [by_cmake(staged, args.version, os.path.join(staged, "cmake"))] if f]
    elif not faults:
        print("note: cmake is missing, so its package file was not tried")
    if not faults:
        shutil.rmtree(staged, ignore_errors=True)
    return faults


def sample(version, loaded, installed=True):
    header = f'#define TOW_VERSION "{version}"\nconst char *tow_version(void);\n'
    files = {"include/towline/version.h": header,
             "usr/lib/pkgconfig/" + PC: "Name: t\nDescription: t\nVersion: 1\n"
             "Cflags: -I/usr/include\nLibs: -L/usr/lib -ltowline\n",
             "lib.c": f'const char *tow_version(void)\n{{\n\treturn "{loaded}";\n}}\n'}
    if installed:
        files["usr/include/towline/version.h"] = header
    return files


SAMPLES = [
    ("good", sample("1.2.3", "1.2.3"), None),
    ("two versions", sample("1.2.3", "1.2.4"), "the program ends with 1"),
    ("header not installed", sample("1.2.3", "1.2.3", False), "a program does not build"),
    ("all is packaged", sample("1.2.3", "1.2.3") | {
        "packaging/debian/a.files": "usr/include/towline\nusr/lib/*/libtowline.so\n"
                                    "usr/lib/*/pkgconfig/*.pc\n"}, None),
    ("no package takes it", sample("1.2.3", "1.2.3") | {
        "packaging/debian/a.files": "usr/include/towline\nusr/lib/*/libtowline.so\n"},
     "no package takes usr/lib/pkgconfig/towline.pc"),
    ("no pkg-config file", {"include/towline/version.h": "\n"}, "is not installed"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [
        ("build", "the build folder"), ("meson", "the meson program"),
        ("cc", "the C compiler"), ("sanitize", "the option b_sanitize"),
        ("version", "the version of the project")]))
