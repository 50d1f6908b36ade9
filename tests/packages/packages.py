"""packages.py - the suite packages: what packaging/ makes, on a clean Debian 12.

It builds the packages and the wheels, unpacks a minimal Debian 12 into a folder, and runs
packaging/try-packages in there, with namespaces of its own for mounts and processes. It needs root,
and a network that has Debian's packages, from which it also installs what it needs itself. Where it
has not got these it is skipped (77), with the reason.

The minimal Debian is fetched once: TOW_TEST_BASES/bookworm.tar, by default in
~/.cache/towline-bases. TOW_TEST_DEBS names a folder of packages that are built already.
"""
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(os.environ["TOW_TEST_SOURCE"])
BUILD = pathlib.Path(os.environ["TOW_TEST_BUILD"])
BASES = pathlib.Path(os.environ.get("TOW_TEST_BASES")
                     or pathlib.Path(os.environ.get("HOME", "/tmp")) / ".cache/towline-bases")
# Programs, and Debian's packages of them.
TOOLS = {"mmdebstrap": "mmdebstrap", "dh": "debhelper", "dh_python3": "dh-python",
         "dpkg-buildpackage": "dpkg-dev", "lintian": "lintian", "unshare": "util-linux"}
FETCH_S, BUILD_S, TRY_S = 600, 2400, 900

# In a mount namespace of its own: $1 is the folder of the system, then what is tried in it.
INSIDE = """
set -e
root=$1
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind -o ro /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/mnt/debs" "$root/mnt/tree" "$root/mnt/wheels"
mount --bind -o ro "$2" "$root/mnt/debs"
mount --bind -o ro "$3" "$root/mnt/tree"
mount --bind -o ro "$4" "$root/mnt/wheels"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ chroot "$root" \\
	/mnt/tree/packaging/try-packages /mnt/debs /mnt/tree /mnt/wheels
"""


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def run(command, limit_s, **options):
    """Runs it in a process group of its own, all of which ends when the time is over."""
    print("+", " ".join(str(word) for word in command if "\n" not in str(word)), flush=True)
    with subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, start_new_session=True,
                          **options) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            print(f"it did not end within {limit_s} s", flush=True)
            return 124


def install_tools():
    """What the usual tests do without: it is fetched for this suite alone."""
    if not any(shutil.which(tool) is None for tool in TOOLS):
        return
    install = ["apt-get", "-q", "-y", "--no-install-recommends", "install", *TOOLS.values()]
    if run(["apt-get", "-q", "update"], FETCH_S) != 0 or run(install, FETCH_S) != 0:
        skip("apt-get could not install " + " ".join(sorted(set(TOOLS.values()))))


def base():
    """The archive of a minimal Debian 12."""
    archive = BASES / "bookworm.tar"
    if archive.exists():
        return archive
    BASES.mkdir(parents=True, exist_ok=True)
    half, log = BASES / "half.tar", BASES / "mmdebstrap.log"
    with log.open("w") as out:
        done = run(["mmdebstrap", "--variant=minbase", "--format=tar", "bookworm", half], FETCH_S,
                   stdout=out, stderr=subprocess.STDOUT)
    if done != 0:
        half.unlink(missing_ok=True)
        lines = [line for line in log.read_text().splitlines() if line.strip()]
        skip(f"a minimal Debian could not be fetched: {lines[-1] if lines else 'no reason said'}")
    half.rename(archive)
    return archive


def make_wheels(debs, folder):
    """The wheel for all platforms, and the one that has the packages' library in it."""
    with tempfile.TemporaryDirectory() as unpacked:
        [library] = [file for file in glob.glob(f"{debs}/libtowline*.deb")
                     if "-dev_" not in file and "-dbgsym_" not in file]
        subprocess.run(["dpkg-deb", "-x", library, unpacked], check=True)
        [bundle] = glob.glob(f"{unpacked}/usr/lib/*/libtowline.so.[0-9]")
        python = folder.parent / "venv"
        subprocess.run([sys.executable, "-m", "venv", python], check=True)
        wheel = [python / "bin/pip", "wheel", "--quiet", "--no-index", "--no-deps", "--wheel-dir",
                 folder, TREE / "plugins/torch"]
        for more in ({}, {"TOWLINE_BUNDLE": bundle}):
            if run(wheel, 120, env=os.environ | more) != 0:
                sys.exit("pip wheel failed")


def try_packages(archive, debs, wheels, work):
    root = work / "root"
    root.mkdir()
    subprocess.run(["tar", "-x", "-f", archive, "-C", root, "--numeric-owner",
                    "--exclude=./dev/*"], check=True)
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)
    return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh",
                root, debs, TREE, wheels], TRY_S)


def main():
    if os.geteuid() != 0:
        skip("only root can make a chroot")
    install_tools()
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        skip("no mount namespace can be made here")
    archive = base()
    debs = pathlib.Path(os.environ.get("TOW_TEST_DEBS") or BUILD / "debs")
    if "TOW_TEST_DEBS" not in os.environ and \
            run([TREE / "packaging/make-debs", "--out", debs], BUILD_S) != 0:
        sys.exit("the packages could not be built")
    with tempfile.TemporaryDirectory(prefix="towline-packages-") as folder:
        work = pathlib.Path(folder)
        (work / "wheels").mkdir()
        make_wheels(debs, work / "wheels")
        status = try_packages(archive, debs, work / "wheels", work)
    sys.exit(status)


if __name__ == "__main__":
    main()
