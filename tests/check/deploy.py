"""deploy.py - units, Kubernetes' YAML and the Containerfile name what exists, and keep few rights.

systemd-analyze judges the units where it is installed; where python3-yaml is not, the YAML is left
out. Neither says whether a service or a pod really starts: docs/packaging.md has what was run.
"""
import os
import re
import shutil
import sys
import tempfile

import common
from common import Fault

try:
    import yaml
except ImportError:
    yaml = None

# Without one of these a service has rights that no exporter needs.
HARDENED = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ReadOnlyPaths": "/",
            "PrivateDevices": "yes", "ProtectKernelModules": "yes", "RestrictNamespaces": "yes",
            "MemoryDenyWriteExecute": "yes", "SystemCallArchitectures": "native"}
# Of capabilities the exporter of all users has this one, that of one user none.
CAPABILITIES = {"", "CAP_DAC_OVERRIDE"}
EXPOSURE = 30  # of 100, as systemd-analyze reckons it
OPTION_SOURCES = r"tools/towstat/.*\.c$"


def options_known(tree):
    text = "".join(tree.text(name) for name in tree.match(OPTION_SOURCES))
    return set(re.findall(r'"([a-z][a-z-]+)", (?:no|required)_argument', text)) | \
        set(re.findall(r'"--([a-z-]+)"', text))


def variables_known(tree):
    names = set()
    for name in tree.match(r"diag/knob/.*\.def$"):
        text = tree.text(name)
        names |= set(re.findall(r'TWI_ENVIRONMENT\("(\w+)"', text))
        names |= {"TOW_" + knob.upper() for knob in re.findall(r"^TWI_KNOB\((\w+)", text, re.M)}
    return names


def judge_command(name, words, known):
    """The options of a towstat command that there are not."""
    for word in words:
        if word.startswith("--") and word[2:] not in known:
            yield Fault(name, 1, f"towstat has no option {word}", "see towstat export --help")


def settings(text):
    """Of a unit: {setting: [values]}, with lines that go on joined."""
    found = {}
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        row = re.match(r"(\w+)=(.*)$", line)
        if row:
            found.setdefault(row[1], []).append(row[2].strip())
    return found


def judge_unit(tree, name, known):
    rows = settings(tree.text(name))
    command = rows.get("ExecStart", [""])[0].split()
    if not command or command[0] != "/usr/bin/towstat":
        yield Fault(name, 1, "ExecStart is not /usr/bin/towstat", "say which program runs")
    yield from judge_command(name, command, known)
    for setting, wanted in HARDENED.items():
        if rows.get(setting) != [wanted]:
            yield Fault(name, 1, f"{setting} is {rows.get(setting)}", f"{setting}={wanted}")
    if not set(rows.get("CapabilityBoundingSet", ["all"])) <= CAPABILITIES:
        yield Fault(name, 1, "CapabilityBoundingSet has more than CAP_DAC_OVERRIDE", "take it out")
    own = ["/run/" + folder for folder in rows.get("RuntimeDirectory", [])]
    if rows.get("ReadWritePaths") != own:
        yield Fault(name, 1, f"ReadWritePaths is not {own}", "it writes into its own folder alone")


def analyze_unit(tree, name):
    """What systemd says of a copy whose program is there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, os.path.basename(name).replace("@.", "@daemon."))
        with open(copy, "w", encoding="utf-8") as out:
            out.write(tree.text(name).replace("/usr/bin/towstat", "/usr/bin/true"))
        done = common.run(["systemd-analyze", "verify", "--man=no", copy])
        # Of a template's own user it says that it is special.
        said = [line for line in done.stderr.splitlines()
                if os.path.basename(copy) in line and "Special user" not in line]
        if done.returncode != 0 or said:
            yield Fault(name, 1, f"systemd-analyze verify: {' '.join(said)[:300]}", "mend the unit")
        done = common.run(["systemd-analyze", "security", "--offline=true",
                           f"--threshold={EXPOSURE}", copy])
        if done.returncode != 0 and "Overall exposure" in done.stdout:
            worst = done.stdout.strip().splitlines()[-1]
            yield Fault(name, 1, f"systemd-analyze security: {worst}", "take rights away")


def pods_in(document):
    """Every specification of a pod below a document."""
    if isinstance(document, dict):
        if "containers" in document:
            yield document
        for value in document.values():
            yield from pods_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from pods_in(value)


def judge_pod(name, pod, known, variables):
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod["containers"]:
        rights = container.get("securityContext", {})
        if rights.get("capabilities", {}).get("drop") != ["ALL"] or \
                rights.get("allowPrivilegeEscalation") is not False:
            yield Fault(name, 1, f"container {container['name']} keeps rights",
                        "drop: [ALL], allowPrivilegeEscalation: false")
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        for volume in mounted ^ volumes:
            yield Fault(name, 1, f"volume {volume} is mounted or there, not both", "name it twice")
        for row in container.get("env", []):
            if row["name"].startswith("TOW_") and row["name"] not in variables:
                yield Fault(name, 1, f"there is no variable {row['name']}", "towstat knobs")
        command = container.get("command", [])
        if command[:1] == ["towstat"]:
            yield from judge_command(name, command, known)


def judge_yaml(tree, name, known, variables):
    try:
        documents = list(yaml.safe_load_all(tree.text(name)))
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        yield Fault(name, mark.line + 1 if mark else 1, f"no YAML: {wrong.__class__.__name__}",
                    "mend it")
        return
    for document in documents:
        for key in ("apiVersion", "kind", "metadata"):
            if not (document or {}).get(key):
                yield Fault(name, 1, f"a document has no {key}", "Kubernetes wants it")
    for pod in pods_in(documents):
        yield from judge_pod(name, pod, known, variables)


def judge_container(tree, name):
    text = tree.text(name)
    for path in set(re.findall(r"\bpackaging/[\w/-]+", text)):
        if path not in tree.names and not tree.match(re.escape(path) + "/"):
            yield Fault(name, 1, f"there is no {path}", "name what is there")
    # What the suite packages runs, and nothing else, is what is known to work.
    for path in ("packaging/make-debs", "packaging/try-packages"):
        if not re.search(rf"^RUN \S*{path}\b", text, re.M):
            yield Fault(name, 1, f"it does not run {path}", "run what tests/packages runs")


def check(tree):
    faults = []
    known, variables = options_known(tree), variables_known(tree)
    for name in tree.match(r"packaging/.*\.service$"):
        faults += judge_unit(tree, name, known)
        if shutil.which("systemd-analyze"):
            faults += analyze_unit(tree, name)
    for name in tree.match(r"packaging/.*\.ya?ml$"):
        if yaml is not None:
            faults += judge_yaml(tree, name, known, variables)
    for name in tree.match(r"packaging/.*Containerfile$"):
        faults += judge_container(tree, name)
    for what, there in (("systemd-analyze", shutil.which("systemd-analyze")),
                        ("python3-yaml", yaml)):
        if not there:
            print(f"note: {what} is missing, and with it a part of this check")
    return faults


UNIT = "".join(f"{setting}={value}\n" for setting, value in HARDENED.items())
UNIT = ("[Service]\nExecStart=/usr/bin/towstat export --wait\nRuntimeDirectory=t\n"
        "ReadWritePaths=/run/t\nCapabilityBoundingSet=\nRestrictAddressFamilies=AF_UNIX\n"
        "PrivateNetwork=yes\nPrivateUsers=yes\nProtectHome=yes\nUser=daemon\nUMask=0077\n"
        "ProtectClock=yes\nProtectControlGroups=yes\nProtectHostname=yes\nProtectKernelLogs=yes\n"
        "ProtectKernelTunables=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes\n"
        "LockPersonality=yes\nSystemCallFilter=@system-service\n" + UNIT)
SOURCE = {"tools/towstat/t.c": '{ "wait", no_argument, NULL, 1 },\n',
          "diag/knob/knob.def": "TWI_KNOB(lanes, TEXT)\n"}
POD = ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n"
       "      command: [towstat, export, --wait]\n      env: [{name: TOW_LANES, value: a}]\n"
       "      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n")
CONTAINER = "FROM a\nRUN packaging/make-debs\nRUN /s/packaging/try-packages\n"
SCRIPTS = {"packaging/make-debs": "\n", "packaging/try-packages": "\n"}


def unit(old="", new=""):
    return SOURCE | {"packaging/a.service": UNIT.replace(old, new)}


def pod(old="", new=""):
    return SOURCE | {"packaging/a.yaml": POD.replace(old, new)}


SAMPLES = [
    ("good unit", unit(), None),
    ("option", unit("--wait", "--wat"), "towstat has no option --wat"),
    ("another program", unit("/usr/bin/towstat", "/bin/towstat"), "ExecStart is not"),
    ("soft", unit("NoNewPrivileges=yes\n", ""), "NoNewPrivileges is None"),
    ("capabilities", unit("BoundingSet=", "BoundingSet=CAP_SYS_ADMIN"), "more than CAP_DAC"),
    ("writes", unit("Paths=/run/t", "Paths=/var"), "ReadWritePaths is not"),
    ("good container", SCRIPTS | {"packaging/c/Containerfile": CONTAINER}, None),
    ("no trial", SCRIPTS | {"packaging/c/Containerfile": CONTAINER.replace("try", "rm")},
     "it does not run packaging/try-packages"),
    ("no such script", {"packaging/c/Containerfile": CONTAINER}, "there is no packaging/make-debs"),
]
if yaml is not None:
    SAMPLES += [
        ("good pod", pod(), None),
        ("no YAML", pod("metadata: {", "metadata: {{"), "packaging/a.yaml:"),
        ("no kind", pod("kind: Pod", "sort: Pod"), "a document has no kind"),
        ("rights", pod("drop: [ALL]", "drop: []"), "container a keeps rights"),
        ("variable", pod("TOW_LANES", "TOW_LANE"), "there is no variable TOW_LANE"),
        ("its option", pod("--wait", "--wat"), "towstat has no option --wat"),
        ("volume", pod("      env:", "      volumeMounts: [{name: v, mountPath: /v}]\n      env:"),
         "volume v is mounted or there"),
    ]
if shutil.which("systemd-analyze"):
    SAMPLES += [("nonsense", unit("[Service]\n", "[Service]\nType=nonsense\n"),
                 "systemd-analyze verify: ")]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES))
