"""Where the hosts of a pod job meet: files in the folder that all of them see.

Host 0 decides and the others follow. A host that starts writes `hello-I.json` with a word of its
own; host 0 writes `attempt.json` with a new id and the words it has seen; a host that finds its own
word there answers with the id. So nobody obeys, or counts, what an earlier attempt left behind.
Below ATTEMPT/ lie the decisions `N.json`, what the hosts report of them, `N-I.json`, and
`stop-I.json` of one that was told to stop. Each host shows that it lives by rewriting
`alive-I.json`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from synth.errors import UserError
from synth.files import write_text
from synth.sweeps.children import Outcome
from synth.sweeps.hosts import Hosts

_ADVICE = (
    "start the same command on every host, with --folder on storage that all of them see; look at "
    "what the missing ones said last; --host_timeout=SECONDS gives them more time"
)


@dataclasses.dataclass(frozen=True)
class Report:
    """How a command ended on a host; `ended_by_us` if only because it had failed on another."""

    outcome: Outcome
    ended_by_us: bool = False


class Meeting:
    """One host's side of the meeting."""

    def __init__(self, folder: Path, hosts: Hosts, timeout: float, poll: float):
        """A meeting in `folder`; a host without a sign of life for `timeout` seconds is missing."""
        self.hosts, self.timeout, self.poll = hosts, timeout, poll
        self._path = folder / hosts.job
        self._path.mkdir(parents=True, exist_ok=True)
        self._attempt = self._path
        self._beats, self._next_beat = 0, 0.0
        self._seen: dict[int, tuple[Any, float]] = {}

    def open(self) -> None:
        """Waits until all hosts are there.

        Raises:
          UserError: naming those that do not come.
        """
        word = secrets.token_hex(8)
        self._write(self._path / f"hello-{self.hosts.process_id}.json", {"word": word})
        if self.hosts.process_id:
            self._enter(self._follow(word))
        else:
            self._gather(word)

    def _enter(self, attempt: str) -> None:
        self._attempt = self._path / attempt
        self._attempt.mkdir(exist_ok=True)

    def _gather(self, word: str) -> None:
        """Host 0: offers an attempt until every other host has taken it."""
        attempt, offered = secrets.token_hex(8), None
        others = range(1, self.hosts.num_processes)
        for old in self._path.iterdir():
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
        self._enter(attempt)
        end = time.monotonic() + self.timeout
        while True:
            hellos = {host: self._read(self._path / f"hello-{host}.json") for host in others}
            words = {str(host): hello.get("word") for host, hello in hellos.items()} | {"0": word}
            if words != offered:
                self._write(self._path / "attempt.json", {"id": attempt, "words": words})
                offered = words
            missing = [host for host in others if hellos[host].get("attempt") != attempt]
            if not missing:
                return
            if time.monotonic() > end:
                raise self._absent(missing)
            time.sleep(self.poll)

    def _follow(self, word: str) -> str:
        """Another host: takes the attempt that is offered to it."""
        me = self.hosts.process_id
        end = time.monotonic() + self.timeout
        while True:
            offer = self._read(self._path / "attempt.json")
            if offer.get("words", {}).get(str(me)) == word:
                answer = {"word": word, "attempt": offer["id"]}
                self._write(self._path / f"hello-{me}.json", answer)
                return offer["id"]
            if time.monotonic() > end:
                raise self._absent([0])
            time.sleep(self.poll)

    def decide(self, number: int, decision: dict[str, Any]) -> None:
        """Host 0: what all hosts do next."""
        self._write(self._attempt / f"{number}.json", decision)

    def decision(self, number: int) -> dict[str, Any]:
        """What host 0 has decided; waits for it as long as host 0 lives."""
        path = self._attempt / f"{number}.json"
        return self._until(lambda: self._read(path), lambda: [0])

    def report(self, number: int, report: Report) -> None:
        """How the command of decision `number` ended here."""
        path = self._attempt / f"{number}-{self.hosts.process_id}.json"
        self._write(path, dataclasses.asdict(report))

    def reports(self, number: int) -> dict[int, Report]:
        """What hosts have reported so far."""
        found, there = {}, _names(self._attempt)
        for host in range(self.hosts.num_processes):
            name = f"{number}-{host}.json"
            if name in there and (values := self._read(self._attempt / name)):
                found[host] = Report(Outcome(**values["outcome"]), values["ended_by_us"])
        return found

    def all_reports(self, number: int) -> dict[int, Report]:
        """What all hosts have reported; waits for those that live."""

        def missing() -> list[int]:
            there = self.reports(number)
            return [host for host in range(self.hosts.num_processes) if host not in there]

        self._until(lambda: not missing(), missing)
        return self.reports(number)

    def ask_to_stop(self) -> None:
        """Tells all hosts that the job is to stop."""
        self._write(self._attempt / f"stop-{self.hosts.process_id}.json", {})

    def is_to_stop(self) -> bool:
        """Whether a host was told to stop."""
        return any(name.startswith("stop-") for name in _names(self._attempt))

    def beat(self) -> None:
        """Shows that this host lives; to be called again and again."""
        if time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + self.timeout / 10
        self._beats += 1
        path = self._attempt / f"alive-{self.hosts.process_id}.json"
        with contextlib.suppress(OSError):  # a full disk: others wait longer than this
            self._write(path, {"beats": self._beats})

    def _until(self, found: Callable[[], Any], awaited: Callable[[], list[int]]) -> Any:
        """Waits for something from hosts, as long as they live."""
        start = time.monotonic()
        while not (value := found()):
            self.beat()
            if silent := self._silent(awaited(), start):
                raise self._absent(silent)
            time.sleep(self.poll)
        return value

    def _silent(self, hosts: Iterable[int], start: float) -> list[int]:
        """Those of the hosts whose sign of life has not changed for too long since `start`."""
        clock, silent = time.monotonic(), []
        for host in hosts:
            sign = self._read(self._attempt / f"alive-{host}.json")
            before, since = self._seen.get(host, (None, start))
            if sign != before:
                self._seen[host] = sign, clock
            elif clock - max(since, start) > self.timeout:
                silent.append(host)
        return silent

    def _absent(self, hosts: list[int]) -> UserError:
        names = ", ".join(map(str, hosts))
        of = f"this is host {self.hosts.process_id} of {self.hosts.num_processes}"
        return UserError(
            f"no sign of life from host{'s' * (len(hosts) > 1)} {names} for {self.timeout:g} s "
            f"({of}): {_ADVICE}"
        )

    def _write(self, path: Path, values: dict[str, Any]) -> None:
        write_text(path, json.dumps(values))

    def _read(self, path: Path) -> dict[str, Any]:
        """The file's contents, {} if it is not there."""
        try:
            _names(path.parent)
            return json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}


def _names(directory: Path) -> set[str]:
    """What is in a directory.

    Listing it makes a network's file system look again for a file that it remembers as missing.
    """
    return {path.name for path in directory.iterdir()}
