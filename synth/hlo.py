"""What a compiled program says about itself: its collectives and its largest arrays.

XLA's text is the only place where they can be had. It is a list of computations, each a list of
instructions; a loop, a branch or a fusion names the computations it calls.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)
_BITS = {"pred": 8, "c64": 64, "c128": 128}
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<= ]*)\]")
_CALLED = re.compile(
    r"\b(calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"\b(?:branch_computations|called_computations)=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\s*\{"n":\s*"?(\d+)')
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_HEAD = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s*\(.*->.*\{\s*$")
# Instructions that make no array of their own.
_NO_ARRAYS = ("parameter", "tuple", "get-tuple-element", "bitcast", "while", "conditional", "call")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line: `name = type opcode(operands), rest`."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    rest: str
    root: bool

    @property
    def source(self) -> str:
        """Where in the traced program it comes from, '' if the text does not say."""
        found = re.search(r'op_name="([^"]*)"', self.rest)
        return found[1] if found else ""


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Collectives of one kind.

    Attributes:
      count: of the instructions, an asynchronous start with its end as one.
      in_loops: how many of them stand in a loop.
      bytes: of the arrays they reduce, gather or move, of one device and one run of the program:
        in a loop as often as it turns, once where that is not known; of the branches of a
        condition the one that moves least.
      most_bytes: the same with the branch that moves most.
      unknown_loops: whether a loop with such a collective turns an unknown number of times.
    """

    count: int = 0
    in_loops: int = 0
    bytes: int = 0
    most_bytes: int = 0
    unknown_loops: bool = False

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.count + other.count,
            self.in_loops + other.in_loops,
            self.bytes + other.bytes,
            self.most_bytes + other.most_bytes,
            self.unknown_loops or other.unknown_loops,
        )


class Program:
    """The computations of a compiled program's text (`compiled.as_text()`)."""

    def __init__(self, text: str):
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        self._known: dict[str, dict[str, Traffic]] = {}
        body: dict[str, Instruction] = {}
        for line in text.splitlines():
            head = _HEAD.match(line)
            if head:
                body = self.computations[head[2]] = {}
                self.entry = head[2] if head[1] else self.entry
            elif line.startswith(" "):
                instruction = parse_instruction(line)
                if instruction is not None:
                    body[instruction.name] = instruction

    def collectives(self) -> dict[str, Traffic]:
        """Kind -> what the program moves between devices."""
        return dict(sorted(self._traffic(self.entry).items()))

    def _traffic(self, computation: str) -> dict[str, Traffic]:
        if computation not in self._known:
            self._known[computation] = self._sum(computation)
        return self._known[computation]

    def _sum(self, computation: str) -> dict[str, Traffic]:
        total: dict[str, Traffic] = {}
        instructions = self.computations.get(computation, {})
        for instruction in instructions.values():
            kind = instruction.opcode.removesuffix("-start")
            if kind in KINDS:
                size = _payload(kind, instruction, instructions)
                _add(total, {kind: Traffic(1, 0, size, size)})
            elif instruction.opcode == "while":
                self._add_loop(total, instruction)
            elif instruction.opcode == "conditional":
                branches = [self._traffic(name) for name in _called(instruction)]
                _add(total, _one_of(branches))
            elif instruction.opcode not in ("async-update", "async-done"):  # as at their start
                for name in _called(instruction):
                    _add(total, self._traffic(name))
        return total

    def _add_loop(self, total: dict[str, Traffic], loop: Instruction) -> None:
        found = _TRIPS.search(loop.rest)
        turns = int(found[1]) if found else 1
        for name in _called(loop):
            for kind, traffic in self._traffic(name).items():
                inside = Traffic(
                    traffic.count,
                    traffic.count,
                    traffic.bytes * turns,
                    traffic.most_bytes * turns,
                    traffic.unknown_loops or found is None,
                )
                _add(total, {kind: inside})

    def largest_arrays(self, count: int) -> list[tuple[int, str, str]]:
        """(bytes, type, where it comes from) of the largest arrays that a device computes.

        Each kind of array once. What fusions have inside is no array, nor are the program's
        arguments and results, nor what is kept in the chip's fast memory (`S(1)`).
        """
        found: dict[tuple[str, str], int] = {}
        for instructions in self._run_computations():
            results = {n for i in instructions.values() if i.root for n in i.operands}
            for instruction in instructions.values():
                plain = instruction.opcode.removesuffix("-start").removesuffix("-done")
                if plain in _NO_ARRAYS or instruction.root or instruction.name in results:
                    continue
                for array in _arrays(instruction.type):
                    if "S(" not in array:
                        key = array.partition("{")[0], instruction.source
                        found[key] = type_bytes(array)
        order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return [(size, array, source) for (array, source), size in order[:count]]

    def _run_computations(self) -> Iterator[dict[str, Instruction]]:
        """The entry and what it runs step by step: loops, branches and calls, not fusions."""
        waiting, seen = [self.entry], set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self.computations:
                continue
            seen.add(name)
            yield self.computations[name]
            for instruction in self.computations[name].values():
                if instruction.opcode in ("while", "conditional", "call"):
                    waiting += _called(instruction)


def parse_instruction(line: str) -> Instruction | None:
    """The instruction of a line, None if it holds none."""
    name, equals, rest = line.strip().partition(" = ")
    if not equals:
        return None
    root = name.startswith("ROOT ")
    end = _closing(rest) if rest.startswith("(") else rest.find(" ")
    opcode = _OPCODE.match(rest, end)
    if end < 0 or opcode is None:
        return None
    start = opcode.end() - 1
    close = start + _closing(rest[start:])
    return Instruction(
        name=name.removeprefix("ROOT ").lstrip("%"),
        type=rest[:end],
        opcode=opcode[1],
        operands=tuple(re.findall(r"%([\w.\-]+)", rest[start:close])),
        rest=rest[close:],
        root=root,
    )


def _closing(text: str) -> int:
    """The place after the parenthesis that closes the first character."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place + 1
    return len(text)


def _called(instruction: Instruction) -> list[str]:
    """Computations an instruction runs, but for the scalar ones of a reduction."""
    names = [
        name
        for key, name in _CALLED.findall(instruction.rest)
        if key != "to_apply" or instruction.opcode == "call"
    ]
    for group in _BRANCHES.findall(instruction.rest):
        names += [name.strip().lstrip("%") for name in group.split(",") if name.strip()]
    return names


def _arrays(type_text: str) -> list[str]:
    """The arrays of a type, a tuple's one by one, each with its layout."""
    return re.findall(r"\b[a-z]\w*\[[\d,<= ]*\](?:\{[^}]*\})?", type_text)


def type_bytes(type_text: str) -> int:
    """Bytes of all arrays of a type, without the padding of their layout."""
    total = 0
    for name, dims in _ARRAY.findall(type_text):
        found = re.match(r"[a-z]+(\d+)", name)
        bits = _BITS.get(name) or (int(found[1]) if found else 0)  # tokens have no bytes
        sizes = [int(size.strip().lstrip("<=")) for size in dims.split(",") if size.strip()]
        total += -(-math.prod(sizes) * bits // 8)
    return total


def _payload(kind: str, instruction: Instruction, known: dict[str, Instruction]) -> int:
    """Bytes of the whole array: what is gathered, or what is to be reduced or moved."""
    given = sum(type_bytes(known[name].type) for name in instruction.operands if name in known)
    made = type_bytes(instruction.type)
    if instruction.opcode.endswith("-start") and instruction.type.startswith("("):
        made -= given  # a start's tuple holds its operands, too
    if kind in ("collective-permute", "reduce-scatter"):
        return given
    return max(given, made)


def _one_of(branches: list[dict[str, Traffic]]) -> dict[str, Traffic]:
    """Of branches, all instructions, but the bytes of the one that moves least, and most."""
    if not branches:
        return {}
    least = min(branches, key=lambda b: sum(traffic.bytes for traffic in b.values()))
    most = max(branches, key=lambda b: sum(traffic.most_bytes for traffic in b.values()))
    nothing = Traffic()
    total: dict[str, Traffic] = {}
    for kind in {kind for branch in branches for kind in branch}:
        found = [branch.get(kind, nothing) for branch in branches]
        total[kind] = Traffic(
            sum(traffic.count for traffic in found),
            sum(traffic.in_loops for traffic in found),
            least.get(kind, nothing).bytes,
            most.get(kind, nothing).most_bytes,
            any(traffic.unknown_loops for traffic in found),
        )
    return total


def _add(total: dict[str, Traffic], more: dict[str, Traffic]) -> None:
    for kind, traffic in more.items():
        total[kind] = total.get(kind, Traffic()) + traffic
