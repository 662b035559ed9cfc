"""The report of `synth.compile_for` as JSON and for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from synth.compile_for import gib

_SHORT = 60  # characters of the name that an array has in the traced program


def to_json(report: dict[str, Any]) -> str:
    """The report as JSON text."""
    return json.dumps(report, indent=2)


def to_text(report: dict[str, Any]) -> str:
    """The report as tables."""
    mesh = " x ".join(f"{axis} {size}" for axis, size in report["mesh"].items())
    parts = [
        f"{report['task']}, attention {report['variant']}: a training step on {report['topology']}",
        f"{report['chips']} chips, {report['devices']} devices ({report['device_kind']}); mesh "
        f"{mesh}; {report['dtype']}; remat={report['remat']}",
        _programs(report),
        *(text for program in report["programs"] for text in _details(program)),
        _state(report),
        "\n".join(_notes(report)),
        "\n".join(_verdict(report)),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(rows: Sequence[Sequence[str]], *headers: str, left: int = 1) -> str:
    from tabulate import tabulate

    align = ("left",) * left + ("right",) * (len(headers) - left)
    return tabulate(rows, headers, colalign=align, disable_numparse=True)


def _programs(report: dict[str, Any]) -> str:
    """Memory, operations and seconds; a column for each program."""
    programs = report["programs"]

    def row(name: str, tell: Any) -> list[str]:
        return [name, *(tell(program) for program in programs)]

    def arrays(program):
        return ", ".join(f"{n} {a} x {b}" for n, (a, b) in program["arrays"].items())

    def memory(part):
        return lambda p: gib(p["memory"][part]) if part in p["memory"] else "-"

    def count(key, unit, scale):
        return lambda p: f"{p[key] / scale:,.1f} {unit}" if key in p else "-"

    rows = [
        row("batch", arrays),
        row("rows a device", lambda p: str(p["rows_per_device"])),
        row("memory: arguments", memory("arguments")),
        row("  outputs", memory("outputs")),
        row("  of them in the arguments' place", memory("aliased")),
        row("  temporaries", memory("temporaries")),
        row("  code", memory("code")),
        row("  total", memory("total")),
        row("  limit", memory("limit")),
        row("fits", lambda p: "yes" if p["fits"] else "NO"),
        row("operations (XLA)", count("flops", "GFLOP", 1e9)),
        row("bytes read and written (XLA)", count("bytes", "GB", 1e9)),
        row("seconds to trace, to compile", lambda p: " + ".join(map(str, p["seconds"].values()))),
    ]
    lengths = (f"length {program['length']}" for program in programs)
    return _table(rows, "of one device", *lengths)


def _details(program: dict[str, Any]) -> list[str]:
    """Collectives and the largest arrays of a program that was compiled."""
    if "collectives" not in program:
        return []
    title = f"length {program['length']}"
    moved = [
        (kind, str(t["count"]), str(t["in_loops"]), _megabytes(t))
        for kind, t in program["collectives"].items()
    ]
    collectives = _table(moved, f"collectives, {title}", "count", "in loops", "MB a step")
    found = [
        (a["type"], _short(a["source"]), f"{a['bytes'] / 2**20:,.0f}")
        for a in program["largest_arrays"]
    ]
    arrays = _table(found, f"largest temporaries, {title}", "made by", "MiB", left=2)
    return [collectives if moved else f"no collectives, {title}", arrays]


def _megabytes(traffic: dict[str, Any]) -> str:
    text = f"{traffic['bytes'] / 1e6:,.1f}"
    if traffic["most_bytes"] > traffic["bytes"]:
        text += f" to {traffic['most_bytes'] / 1e6:,.1f}"
    return text + ("+" if traffic["unknown_loops"] else "")


def _short(source: str) -> str:
    return source if len(source) <= _SHORT else f"...{source[-_SHORT:]}"


def _state(report: dict[str, Any]) -> str:
    rows = [
        (
            a["name"],
            " x ".join(map(str, a["shape"])),
            " x ".join(map(str, a["on_a_device"])),
            f"{a['bytes'] / 2**20:,.1f}",
        )
        for a in report["largest_in_state"]
    ]
    title = f"largest of the state ({gib(report['state'])} a device)"
    return _table(rows, title, "shape", "on a device", "MiB", left=3)


def _notes(report: dict[str, Any]) -> list[str]:
    compiled = [program["length"] for program in report["programs"]]
    others = [length for length in report["lengths"] if length not in compiled]
    seconds = report["model_flops"] / report["peak_flops"]
    notes = [
        f"- The model's products are {report['model_flops'] / 1e9:,.1f} GFLOP a device at the "
        f"longest length (--describe): at least {1e3 * seconds:,.1f} ms at its bfloat16 peak of "
        f"{report['peak_flops'] / 1e12:,.0f} TFLOP/s. XLA counts a loop's body once.",
    ]
    if others:
        notes.append(
            f"- Not compiled, for they need less: lengths {', '.join(map(str, others))}, of no "
            "more tokens."
        )
    collectives = [t for p in report["programs"] for t in p.get("collectives", {}).values()]
    if any(traffic["unknown_loops"] for traffic in collectives):
        notes.append("- +: a loop turns an unknown number of times; it is counted once.")
    copied = sum(program["rematerialised"] for program in report["programs"])
    if copied:
        notes.append(
            f"- The partitioner copies {copied} arrays whole to split them anew (XLA warns of "
            "involuntary full rematerialization): this mesh is slow for this model."
        )
    notes.append(
        "- Compiled with XLA's least effort, in a tenth of the time; a run's program may need more "
        "memory (5.9 for 5.2 GiB in the one case compared)."
    )
    notes.append("- Checked: sizes, memory, collectives. Not checked: speed, values, data.")
    return notes


def _verdict(report: dict[str, Any]) -> list[str]:
    worst = max(report["programs"], key=lambda program: program["memory"]["total"])
    sizes = f"{gib(worst['memory']['total'])} of {gib(report['memory_limit'])} a device"
    if report["fits"]:
        return [f"fits: {sizes}"]
    return [f"does not fit: {sizes}. What makes it smaller:", *(f"  {a}" for a in report["advice"])]
