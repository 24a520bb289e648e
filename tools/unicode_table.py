#!/usr/bin/env python3
"""Writes src/text/unicode_data.inc from the tables that Python carries.

    tools/unicode_table.py > src/text/unicode_data.inc

Run by hand when a newer Python brings a newer Unicode; the result is kept in the source tree.
"""
import sys
import unicodedata

CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
              "Cc Cf Cs Co").split()
LAST = 0x10FFFF
HANGUL = range(0xAC00, 0xAC00 + 11172)


def runs(value_of):
    previous = None
    for code in range(LAST + 1):
        value = value_of(code)
        if value != previous:
            yield code, value
            previous = value


def emit(kind, name, rows):
    print(f"constexpr {kind} {name}[] = {{")
    line = ""
    for row in rows:
        if len(line) + len(row) > 96:
            print(" " + line)
            line = ""
        line += f" {row},"
    print(" " + line)
    print("};")


def main():
    print(f"// Written by tools/unicode_table.py from Unicode {unicodedata.unidata_version}; "
          "do not edit.")
    print("// clang-format off")
    emit("uint32_t", "kCategoryRuns",  # first code << 8 | index of the category
         (f"0x{code << 8 | CATEGORIES.index(value):X}"
          for code, value in runs(lambda c: unicodedata.category(chr(c)))))
    emit("uint32_t", "kCombiningRuns",  # first code << 8 | combining class
         (f"0x{code << 8 | value:X}" for code, value in runs(lambda c: unicodedata.combining(chr(c)))))
    decompositions, compositions = [], []
    for code in range(LAST + 1):
        form = unicodedata.decomposition(chr(code))
        if not form or form.startswith("<") or code in HANGUL:
            continue
        parts = [int(p, 16) for p in form.split()]
        first, second = parts[0], parts[1] if len(parts) > 1 else 0
        decompositions.append((code, first, second))
        if second != 0 and unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(code):
            compositions.append((first, second, code))
    emit("Decomposition", "kDecompositions", map(braces, decompositions))  # second 0: one part
    emit("Composition", "kCompositions", map(braces, sorted(compositions)))
    print("// clang-format on")


def braces(numbers):
    return "{" + ",".join(f"0x{n:X}" for n in numbers) + "}"


if __name__ == "__main__":
    sys.exit(main())
