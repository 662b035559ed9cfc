"""The run store (`results/runs.jsonl`) and the tables made of it and the paper's figures."""

from synth.results.pages import BEGIN, check, render, write_html
from synth.results.runs import Text
from synth.results.significance import p_records
from synth.results.store import Record, ResultsError, append, last_line, load, row_key

__all__ = [
    "BEGIN",
    "Record",
    "ResultsError",
    "Text",
    "append",
    "check",
    "last_line",
    "load",
    "p_records",
    "render",
    "row_key",
    "write_html",
]
