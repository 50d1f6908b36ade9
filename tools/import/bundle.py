"""bundle.py OUT VERSION FILE... - lays the modules into one file that Python runs: a zip, with its
first line. So the program is installed as the others are, and finds its parts wherever it lies. The
version is a module of its own there, bundled.
"""
import os
import sys
import zipfile

STAMP = (1980, 1, 1, 0, 0, 0)  # the same modules make the same bytes


def main(out, version, files):
    with open(out, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr(zipfile.ZipInfo("bundled.py", STAMP), f'VERSION = "{version}"\n')
            for name in sorted(files, key=os.path.basename):
                entry = zipfile.ZipInfo(os.path.basename(name), STAMP)
                with open(name, "rb") as module:
                    bundle.writestr(entry, module.read(), zipfile.ZIP_DEFLATED)
    os.chmod(out, 0o755)


main(sys.argv[1], sys.argv[2], sys.argv[3:])
