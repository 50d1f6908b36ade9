"""torch_after.py FOLDER - what tests/fetch_runtime does after it has fetched torch.

torch's wheel is linked to CUDA's libraries, 5 GB of packages that nothing on a CPU calls. Of these
only the runtime (libcudart) is fetched, which torch calls when it is loaded. In place of the others
empty libraries of their names are made, with the versions and the data that the linker asks for;
their functions are looked for when they are called, which is never. Needs cc and readelf.
"""
import collections
import pathlib
import re
import subprocess
import sys

CUDA = r"lib(?:cu|nv|nccl)\S*"
REAL = "libcudart"
HOST = "libnvshmem_host.so.3"


def asked_for(folder):
    """Of CUDA's libraries: their names, versions of their symbols, and data that must be there."""
    needed, versions, data = set(), collections.defaultdict(set), collections.defaultdict(set)
    for path in folder.glob("lib*.so"):
        said = subprocess.run(["readelf", "--wide", "-d", "-V", "-r", path], capture_output=True,
                              text=True, check=False).stdout
        needed |= set(re.findall(r"\(NEEDED\).*\[(" + CUDA + r")\]", said))
        library = ""
        for line in said.split("\n"):
            found = re.search(r"Version: \d+\s+File: (\S+)", line)
            library = found[1] if found else library
            found = re.search(r"Name: (\S+)\s+Flags", line)
            if found:
                versions[library].add(found[1])
            found = re.search(r"R_X86_64_(?:GLOB_DAT|64)\s+\S+ (nvshmem_\w+)@", line)
            if found:
                data[HOST].add(found[1])
    return needed, versions, data


def main():
    site = next((pathlib.Path(sys.argv[1]) / "lib").glob("python3*/site-packages"))
    folder = site / "torch" / "lib"
    needed, versions, data = asked_for(folder)
    script = folder / "empty.map"
    for name in sorted(needed):
        if name.startswith(REAL):
            continue
        nodes = sorted(versions[name])
        script.write_text("".join(f"{node} {{ global: *; }};\n" if i == 0 else f"{node} {{ }};\n"
                                  for i, node in enumerate(nodes)))
        source = "".join(f"char {symbol}[64];\n" for symbol in sorted(data[name]))
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{name}", "-o",
                        folder / name] + ([f"-Wl,--version-script={script}"] if nodes else []),
                       input=source, text=True, check=True)
    script.unlink(missing_ok=True)
    # Python binds all functions of a module when it loads it, unless it is told not to.
    (site / "torch_lazy.pth").write_text("import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n")
    said = subprocess.run([f"{sys.argv[1]}/bin/python3", "-c", "import torch; print("
                           "torch.__version__, torch.distributed.is_gloo_available())"],
                          capture_output=True, text=True, check=False)
    print(said.stdout, said.stderr)
    sys.exit(said.returncode)


main()
