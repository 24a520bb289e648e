#!/usr/bin/env python3
"""Mutation run over the tandem's state machine and its limits: does a test notice each small change?

Changes one thing at a time in the code of the machine: every comparison (its boundary and its sense),
every && and ||, every !, every + and -, every ++, every min and max, every number by one, every early
return and single statement (left out). Builds the machine with its tests and reports the mutants that survive. Those that cannot be
told from the original are listed in tools/mutate_tandem.txt with the reason; any other survivor makes
the exit status 1.

usage: tools/mutate_tandem.py [--jobs N] [--only TEXT] [--every N] [--list]
  --jobs N    mutants at a time (default: one a processor)
  --only T    only mutants whose line of the report holds T
  --every N   only each N-th mutant (a sample)
  --list      print the mutants and stop
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ["machine.cpp", "guest.cpp", "stepper.h", "lag.h", "limits.cpp"]
OBJECTS = ["machine.cpp", "guest.cpp", "limits.cpp"]  # what is compiled anew for a mutant of a header
TESTS = ["lag_test.cpp", "limits_test.cpp", "machine_test.cpp", "machine_boundary_test.cpp", "machine_random_test.cpp", "machine_explore_test.cpp"]
OTHERS = ["src/tandem/machine_names.cpp", "src/base/result.cpp",
          "src/base/clock.cpp"]
STAGES = [("TandemMachine*:TandemLimits*:TandemLag*", 20), ("TandemRandom*", 60), ("TandemExplore*", 300)]  # and seconds
FLAGS = ["-std=c++20", "-O1", "-w", f'-DOUTRIDER_SOURCE_DIR="{ROOT}"']
INCLUDES = [f"-I{ROOT}/src", f"-I{ROOT}/include", f"-I{ROOT}/tests"]

RULES = [  # pattern, replacements
    (r"(?<![<>=!-])<=(?!>)", ["<", ">"]),
    (r"(?<![<>=!-])>=", [">", "<"]),
    (r"(?<= )<(?= )", ["<=", ">="]),
    (r"(?<= )>(?= )", [">=", "<="]),
    (r"==", ["!="]),
    (r"!=", ["=="]),
    (r"&&", ["||"]),
    (r"\|\|", ["&&"]),
    (r"(?<![\w)])!(?=[\w(])", [""]),
    (r"(?<= )\+(?= )", ["-"]),
    (r"(?<= )-(?= )", ["+"]),
    (r"\+\+(?=\w)", ["--"]),
    (r"(?<=\w)\+\+", ["--"]),
    (r"\bstd::min\b", ["std::max"]),
    (r"\bstd::max\b", ["std::min"]),
    (r"(?<= )\*= 2\b", ["*= 3"]),
    (r"\btrue\b", ["false"]),
    (r"\bfalse\b", ["true"]),
    (r"(?<![\w.])\d+(?![\w.'])", ["+1"]),
]
NUMBER = RULES[-1][0]
# Statements of one line that can go without the rest ceasing to compile.
LEFT_OUT = re.compile(r"\s*(if \(.*\) )?(return\b.*|(\+\+)?s_\.[^;]*|(act|fail|wait|hand_back|retire|"
                      r"close_lead|forget_lead|change|note_drops|retry|make_ready|hold)\(.*\));$")


def code_of(line):
    return line.split("//")[0]


def skipped(line):
    bare = code_of(line).strip()
    return (not bare or bare.startswith("#") or "template" in bare or "operator==" in bare or
            bare.startswith(("namespace", "class ", "struct ", "const char*")))


def mutants():
    for name in FILES:
        lines = (ROOT / "src/tandem" / name).read_text().splitlines()

        def changed(number, line):
            return "\n".join(lines[:number] + [line] + lines[number + 1:]) + "\n"

        for number, line in enumerate(lines):
            if skipped(line):
                continue
            code = code_of(line)
            for pattern, replacements in RULES:
                for found in re.finditer(pattern, code):
                    for new in replacements:
                        old = found.group(0)
                        text = str(int(old) + 1) if pattern == NUMBER else new
                        yield (f"{name}:{number + 1}: {old} -> {text or 'nothing'} at "
                               f"{found.start()} | {line.strip()}", name,
                               changed(number, line[:found.start()] + text + line[found.end():]))
            if LEFT_OUT.match(code.rstrip()):
                yield (f"{name}:{number + 1}: left out at 0 | {line.strip()}", name,
                       changed(number, ""))


def compile_to(target, source, folders=()):
    extra = [f"-I{folder}" for folder in folders]
    return subprocess.run(["c++", *extra, *FLAGS, *INCLUDES, "-c", source, "-o", target],
                          capture_output=True).returncode == 0


def verdict(job):
    label, name, text, objects = job
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "tandem"
        place.mkdir()
        for file in FILES:
            (place / file).write_text((ROOT / "src/tandem" / file).read_text())
        (place / name).write_text(text)
        built = dict(objects)
        for source in OBJECTS:
            if name == source or not name.endswith(".cpp"):
                built[source] = os.path.join(folder, source + ".o")
                if not compile_to(built[source], place / source, [folder]):
                    return label, "does not compile"
        if name == "lag.h":  # a part of the state; only one test calls its functions itself
            layout = "array" in label or "static constexpr" in label
            for test in TESTS if layout else ["lag_test.cpp"]:
                built[test] = os.path.join(folder, test + ".o")
                if not compile_to(built[test], ROOT / "tests/tandem" / test, [folder]):
                    return label, "does not compile"
        program = os.path.join(folder, "test")
        subprocess.run(["c++", *built.values(), "-lgtest", "-lgtest_main", "-lpthread", "-o", program],
                       check=True, capture_output=True)
        for stage, seconds in STAGES:
            try:
                # The first failure ends the test: a broken machine fails thousands of times.
                ran = subprocess.run([program, f"--gtest_filter={stage}", "--gtest_fail_fast=1",
                                      "--gtest_throw_on_failure=1"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, timeout=seconds)
            except subprocess.TimeoutExpired:
                return label, "killed (never ends)"
            if ran.returncode != 0:
                return label, "killed by " + stage.split("*")[0]
    return label, "SURVIVED"


def equivalents():
    rows = (ROOT / "tools/mutate_tandem.txt").read_text().splitlines()
    rows = [row for row in rows if row and not row.startswith("#")]
    return dict(tuple(part.strip() for part in row.split(" ### ", 1)) for row in rows)


def without_place(label):
    """Lines move: what is compared is the change, its column and the line of code."""
    return re.sub(r":\d+: ", ": ", label, count=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    chosen = [m for m in mutants() if args.only in m[0]][::args.every]
    if args.list:
        print("\n".join(label for label, _, _ in chosen))
        print(f"{len(chosen)} mutants")
        return 0
    known = equivalents()
    survivors, equal, unused = 0, 0, set(known)
    with tempfile.TemporaryDirectory() as folder:
        objects = {}
        for source in [f"tests/tandem/{test}" for test in TESTS] + OTHERS + \
                      [f"src/tandem/{source}" for source in OBJECTS]:
            name = pathlib.Path(source).name
            objects[name] = os.path.join(folder, name + ".o")
            if not compile_to(objects[name], ROOT / source):
                print(f"{source} does not compile", file=sys.stderr)
                return 2
        jobs = [(label, name, text, objects) for label, name, text in chosen]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(verdict, job) for job in jobs]):
                label, result = done.result()
                key = without_place(label)
                if key in known:
                    unused.discard(key)
                    if result == "SURVIVED":
                        equal += 1
                        result = f"equivalent: {known[key]}"
                    else:
                        result += " (listed as equivalent)"
                elif result == "SURVIVED":
                    survivors += 1
                print(f"{result:26} {label}", flush=True)
    for key in sorted(unused) if args.every == 1 and not args.only else []:
        print(f"listed and not found: {key}")
    print(f"{len(chosen)} mutants, {equal} equivalent, {survivors} survived unexplained")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
