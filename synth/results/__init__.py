"""The run store (`results/runs.jsonl`) and the tables made of it and the paper's figures."""

from synth.results.pages import BEGIN, check, render
from synth.results.store import Record, ResultsError, append, load, row_key

__all__ = ["BEGIN", "Record", "ResultsError", "append", "check", "load", "render", "row_key"]
