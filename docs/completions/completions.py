"""completions.py - what bash and zsh offer behind the name of a program, of what it says to --help.

    completions.py NAME BASH_FILE ZSH_FILE PROGRAM [ARGUMENT...]

A command of a program, such as `towstat top`, is a line of its help that begins with two blanks,
the program's name and the command's. It has options of its own where its --help is another text.
"""
import argparse
import re
import subprocess
import sys

FILES = ("FILE", "LOG", "PATH", "OUT", "SOCKET", "PROGRAM")
FOLDERS = ("DIR", "FOLDER")
WORD = re.compile(r"[a-z][a-z0-9_-]*\Z")


class Unreadable(Exception):
    """A program does not say what it can do."""


class Options:
    """The options of one help text: {option: (its argument or None, what it does)}."""

    def __init__(self, text, name):
        self.found = {}
        for row in text.split("\n"):
            head = re.match(r"\s{1,12}(-.*?)(?:\s{2,}(\S.*))?\Z", row)
            usage = re.match(rf"(?:usage:)?\s+{re.escape(name)}\b(.*?)(?:\s{{3,}}|\Z)", row)
            if head:
                self.note(head.group(1), head.group(2) or "", True)
            elif usage:
                self.note(usage.group(1), "", False)

    def note(self, head, says, same):
        """Enters the options of a part of a row; what was there before stays.

        `same`: they are names of one option, so the argument of one is that of all.
        """
        argument = None
        pattern = r"(?<![\w-])(--[a-z][\w-]*|-[A-Za-z]\b)(?:[ =](\{[^}]*\}|[A-Zon][\w|\[\]:,]*))?"
        rows = re.findall(pattern, head)
        for _, value in rows:
            argument = value or argument
        for option, value in rows:
            old = self.found.get(option, (None, ""))
            value = (argument if same else value) or None
            self.found[option] = (old[0] or value, old[1] or says)

    def names(self):
        return sorted(self.found)

    def choices(self, argument):
        """The words that an argument can be; [] where it is something else."""
        listed = re.fullmatch(r"\{([^}]*)\}", argument)
        words = listed.group(1).split(",") if listed else argument.split("|")
        return words if len(words) > 1 and all(WORD.match(w) for w in words) else []


def ask(command, needed=True):
    """What a program says to --help."""
    try:
        done = subprocess.run([*command, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Unreadable(f"{' '.join(command)} --help: {why}") from why
    if done.returncode != 0 and needed:
        raise Unreadable(f"{' '.join(command)} --help: status {done.returncode}")
    return done.stdout if done.returncode == 0 else ""


def find_commands(name, program, text):
    """{command: its Options}, those of the program where it has none of its own."""
    words = re.findall(rf"^  {re.escape(name)} ([a-z][a-z0-9-]*)\b", text, flags=re.M)
    common = Options(text, name)
    found = {}
    for word in sorted(set(words)):
        own = ask([*program, word], needed=False)
        found[word] = Options(own, f"{name} {word}") if own not in ("", text) else common
    return common, found


def bash_values(options):
    """The arms of a case: what the argument of an option can be."""
    arms = {}
    for option, (argument, _) in sorted(options.found.items()):
        if argument is None:
            continue
        words = options.choices(argument)
        if words:
            arms.setdefault(f'-W "{" ".join(words)}"', []).append(option)
        elif argument.strip("[]").split(":")[0] in FOLDERS:
            arms.setdefault("-d", []).append(option)
        elif argument.strip("[]").split(":")[0] in FILES:
            arms.setdefault("-f", []).append(option)
        else:
            arms.setdefault("", []).append(option)
    return arms


def bash(name, common, commands):
    """The file for bash."""
    function = "_" + re.sub(r"\W", "_", name)
    lines = [f"# bash completion of {name}, made of its --help", f"{function}()", "{",
             "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}",
             "\tlocal command='' offered=''"]
    if commands:
        lines += ["\tlocal at", "\tfor ((at = 1; at < COMP_CWORD; at++)); do",
                  "\t\tcase ${COMP_WORDS[at]} in",
                  f"\t\t{'|'.join(commands)})", "\t\t\tcommand=${COMP_WORDS[at]}",
                  "\t\t\tbreak", "\t\t\t;;", "\t\tesac", "\tdone"]
    lines += ["\tCOMPREPLY=()", "\tcase $command:$before in"]
    groups = [(f"{c}", o) for c, o in commands.items() if o is not common] + [("*", common)]
    for command, options in groups:
        for how, names in bash_values(options).items():
            lines += ["\t" + "|".join(f"{command}:{n}" for n in names) + ")"]
            if how:
                lines += [f'\t\tmapfile -t COMPREPLY < <(compgen {how} -- "$word")']
            lines += ["\t\treturn", "\t\t;;"]
    lines += ["\tesac", "\tcase $command in"]
    lines += ["\t'')", f"\t\toffered='{' '.join(common.names() + list(commands))}'", "\t\t;;"]
    for command, options in groups if commands else []:
        lines += [f"\t{command})", f"\t\toffered='{' '.join(options.names())}'", "\t\t;;"]
    lines += ["\tesac",
              "\tmapfile -t COMPREPLY < <(compgen -W \"$offered\" -- \"$word\")", "}",
              f"complete -o bashdefault -o default -F {function} {name}"]
    return "\n".join(lines) + "\n"


def zsh_words(options):
    """A list of options with what they do."""
    rows = []
    for option, (_, says) in sorted(options.found.items()):
        text = re.sub(r"['\\`$]", "", says).replace(":", "\\:")
        rows.append(f"\t\t'{option}:{text}'" if text else f"\t\t'{option}'")
    return rows


def zsh(name, common, commands):
    """The file for zsh."""
    lines = [f"#compdef {name}", f"# zsh completion of {name}, made of its --help",
             "local command='' word", "local -a offered"]
    if commands:
        lines += ["for word in ${words[2,CURRENT-1]}; do", "\tcase $word in",
                  f"\t({'|'.join(commands)})", "\t\tcommand=$word", "\t\tbreak", "\t\t;;", "\tesac",
                  "done"]
    lines += ["case $command in"]
    for command, options in [(c, o) for c, o in commands.items() if o is not common]:
        lines += [f"({command})", "\toffered=(", *zsh_words(options), "\t)", "\t;;"]
    lines += ["(*)", "\toffered=(", *zsh_words(common), "\t)", "\t;;", "esac"]
    if commands:
        lines += [f"[[ -z $command ]] && offered+=({' '.join(commands)})"]
    lines += ["if [[ $PREFIX == -* || -z $command && $#words -eq 2 ]]; then",
              f"\t_describe -o '{name}' offered", "else", "\t_files", "fi"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("name", "bash_file", "zsh_file"):
        parser.add_argument(name)
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    try:
        text = ask(args.program)
        common, commands = find_commands(args.name, args.program, text)
        if not common.found:
            raise Unreadable(f"{args.name} --help names no option")
        for path, made in ((args.bash_file, bash), (args.zsh_file, zsh)):
            with open(path, "w", encoding="utf-8") as f:
                f.write(made(args.name, common, commands))
    except (OSError, UnicodeDecodeError, Unreadable) as why:
        print(f"completions.py: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
