"""The build backend of the wheel (PEP 517): a wheel is a zip file, so nothing has to be fetched.

    pip wheel --no-deps plugins/torch

It adds what the public headers declare (towline/_declare.py). With TOWLINE_BUNDLE=PATH it lays that
libtowline.so beside the package, and the wheel is for this platform alone.
"""
from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import os
import pathlib
import re
import sysconfig
import tarfile
import zipfile

_HERE = pathlib.Path(__file__).resolve().parent
_TREE = _HERE.parents[1]
_STAMP = (1980, 1, 1, 0, 0, 0)  # the same tree makes the same wheel


def _version() -> str:
    made = _HERE / "VERSION"
    if made.exists():
        return made.read_text().strip()
    found = re.search(r"version: '([\d.]+)'", (_TREE / "meson.build").read_text())
    if found is None:
        raise RuntimeError("meson.build names no version")
    return found[1]


def _declarations() -> str:
    made = _HERE / "towline" / "declarations.txt"
    if made.exists():
        return made.read_text()
    spec = importlib.util.spec_from_file_location("declare", _HERE / "towline" / "_declare.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("towline/_declare.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.declarations(_TREE)
    return text


def _metadata() -> str:
    return (f"Metadata-Version: 2.1\nName: towline\nVersion: {_version()}\n"
            "Summary: Zero-copy tensor transport: Python package, and backend for PyTorch\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: cffi>=1.15\n"
            "Requires-Dist: numpy>=1.23\n")


_ENTRIES = "[torch.distributed.backends]\ntowline = towline.torch:register\n"


def _platform() -> str:
    if not os.environ.get("TOWLINE_BUNDLE"):
        return "any"
    return re.sub(r"\W", "_", sysconfig.get_platform())


def _files() -> dict[str, bytes]:
    """What the package is made of, by its name in the wheel."""
    found = {path.relative_to(_HERE).as_posix(): path.read_bytes()
             for path in sorted((_HERE / "towline").rglob("*"))
             if path.suffix == ".py" or path.name == "py.typed"}
    found["towline/declarations.txt"] = _declarations().encode()
    return found


def build_wheel(wheel_directory: str, config_settings: object = None,
                metadata_directory: object = None) -> str:
    """Makes the wheel, and returns its name."""
    tag = f"py3-none-{_platform()}"
    info = f"towline-{_version()}.dist-info"
    files = _files()
    bundle = os.environ.get("TOWLINE_BUNDLE")
    if bundle:
        files["towline/libtowline.so.0"] = pathlib.Path(bundle).read_bytes()
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/entry_points.txt"] = _ENTRIES.encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: towline\n"
                              f"Root-Is-Purelib: {'false' if bundle else 'true'}\n"
                              f"Tag: {tag}\n").encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    made = f"towline-{_version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, made), "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            row = zipfile.ZipInfo(name, _STAMP)
            row.compress_type = zipfile.ZIP_DEFLATED
            row.external_attr = 0o644 << 16
            out.writestr(row, data)
    return made


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Makes an archive that a wheel can be built from without the rest of the tree."""
    base = f"towline-{_version()}"
    files = _files()
    for name in ("wheel.py", "pyproject.toml"):
        files[name] = (_HERE / name).read_bytes()
    files["VERSION"] = _version().encode()
    files["PKG-INFO"] = _metadata().encode()
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as out:
        for name, data in files.items():
            row = tarfile.TarInfo(f"{base}/{name}")
            row.size, row.mode = len(data), 0o644
            out.addfile(row, io.BytesIO(data))
    return base + ".tar.gz"


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """Nothing."""
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel
