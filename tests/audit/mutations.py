"""Ways to falsify an export, from a slip of the disk to the log's own operator. Each is drawn from a seed.

Three kinds of hands: who can write files; who can also sign a manifest, and puts right all that needs no new checkpoint; and
who holds the tenant's key and signs everything anew, which only an anchor outside their reach shows.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from gateway.audit.chain import Writer
from gateway.audit.layout import EARLIER, HEAD, MANIFEST, SIGNATURE
from tests.audit.forge import Forger, rechained
from tests.audit.written_log import OTHER, WrittenLog, event, write

COUNT = 60
ANCHORED = (16, 40)


@dataclass
class Case:
    """An export that is whole, and everything that a forger may have at hand. A mutation changes `folder` in place."""

    folder: Path
    key: Path
    anchor: Path | None
    log: WrittenLog
    other: Path
    """The export of another tenant's log."""
    old: Path
    """An export of the same log when it was shorter."""
    choose: random.Random

    def file(self) -> Path:
        return self.choose.choice(sorted(self.folder.iterdir()))

    def segment(self) -> Path:
        return self.choose.choice(sorted(self.folder.glob("events-*")))

    def forger(self) -> Forger:
        return Forger(self.folder, self.log)


Mutation = Callable[[Case], object]

# Who can write files


def flip_a_bit(case: Case) -> None:
    path = case.file()
    data = bytearray(path.read_bytes())
    data[case.choose.randrange(len(data))] ^= 1 << case.choose.randrange(8)
    path.write_bytes(data)


def change_a_letter(case: Case) -> None:
    path = case.file()
    text = path.read_text()
    at = case.choose.choice([at for at, letter in enumerate(text) if letter.isalnum()])
    other = case.choose.choice([one for one in "abcXYZ0189" if one != text[at]])
    path.write_text(text[:at] + other + text[at + 1 :])


def delete_bytes(case: Case) -> None:
    path = case.file()
    data = path.read_bytes()
    at = case.choose.randrange(len(data))
    path.write_bytes(data[:at] + data[at + case.choose.randint(1, 300) :])


def insert_bytes(case: Case) -> None:
    path = case.file()
    data = path.read_bytes()
    at = case.choose.randrange(len(data) + 1)
    path.write_bytes(data[:at] + case.choose.choice([b"\n", b" ", b"\0", b"{}", b"x" * 40]) + data[at:])


def cut_a_file(case: Case) -> None:
    path = case.file()
    data = path.read_bytes()
    path.write_bytes(data[: case.choose.randrange(len(data))])


def remove_a_file(case: Case) -> None:
    case.file().unlink()


def delete_lines(case: Case) -> None:
    forger = case.forger()
    at = case.choose.randrange(len(forger.lines))
    del forger.lines[at : at + case.choose.randint(1, 5)]
    forger.save()


def cut_the_tail(case: Case) -> None:
    forger = case.forger()
    del forger.lines[-case.choose.randint(1, 20) :]
    forger.save()


def double_a_line(case: Case) -> None:
    forger = case.forger()
    at = case.choose.randrange(len(forger.lines))
    forger.lines.insert(case.choose.randrange(len(forger.lines)), forger.lines[at])
    forger.save()


def swap_two_lines(case: Case) -> None:
    forger = case.forger()
    one, other = case.choose.sample(range(len(forger.lines)), 2)
    forger.lines[one], forger.lines[other] = forger.lines[other], forger.lines[one]
    forger.save()


def swap_two_files(case: Case) -> None:
    one, other = case.choose.sample(sorted(case.folder.glob("events-*")), 2)
    one_data, other_data = one.read_bytes(), other.read_bytes()
    one.write_bytes(other_data)
    other.write_bytes(one_data)


def put_in_another_tenants_events(case: Case) -> None:
    path = case.segment()
    path.write_bytes((case.other / path.name).read_bytes())


def put_in_another_tenants_file(case: Case) -> None:
    name = case.choose.choice([HEAD, MANIFEST, SIGNATURE, EARLIER])
    shutil.copy(case.other / name, case.folder / name)


def show_another_tenants_log(case: Case) -> None:
    shutil.rmtree(case.folder)
    shutil.copytree(case.other, case.folder)


def replay_an_old_checkpoint(case: Case) -> None:
    shutil.copy(case.old / HEAD, case.folder / HEAD)


def replay_old_files(case: Case) -> None:
    for name in case.choose.sample([HEAD, MANIFEST, SIGNATURE, EARLIER], 2):
        shutil.copy(case.old / name, case.folder / name)


def give_another_key(case: Case) -> None:
    case.key.write_text(WrittenLog(case.log.tenant, case.choose.randbytes(32)).key_line)


# Who can also sign a manifest


def change_an_event_and_its_hash(case: Case) -> None:
    forger = case.forger()
    at = case.choose.randrange(len(forger.bodies))
    fields = orjson.loads(forger.bodies[at])
    fields["ts"] += case.choose.randint(1, 10**6)
    forger.bodies[at] = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    forger.rewrite()


def change_an_event_and_its_writers_chain(case: Case) -> None:
    forger = case.forger()
    at = case.choose.randrange(len(forger.bodies))
    fields = orjson.loads(forger.bodies[at])
    fields["ts"] += case.choose.randint(1, 10**6)
    forger.bodies[at] = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    forger.bodies = rechained(forger.bodies)
    forger.rewrite()


def delete_an_event_and_close_the_gap(case: Case) -> None:
    forger = case.forger()
    del forger.bodies[case.choose.randrange(len(forger.bodies))]
    forger.bodies = case.choose.choice([forger.bodies, rechained(forger.bodies)])
    forger.rewrite()


def insert_an_event(case: Case) -> None:
    forger = case.forger()
    _, entry = Writer(f"{case.choose.getrandbits(96):024x}").next(event(case.choose.randrange(1000)))
    forger.bodies.insert(case.choose.randrange(len(forger.bodies) + 1), entry.body)
    forger.rewrite()


def double_an_event(case: Case) -> None:
    forger = case.forger()
    at = case.choose.randrange(len(forger.bodies))
    forger.bodies.insert(at, forger.bodies[at])
    forger.bodies = case.choose.choice([forger.bodies, rechained(forger.bodies)])
    forger.rewrite()


def move_an_event(case: Case) -> None:
    forger = case.forger()
    at = case.choose.randrange(1, len(forger.bodies))
    before, after = forger.bodies[at - 1], forger.bodies[at]
    forger.bodies[at - 1 : at + 1] = [after, before]
    forger.rewrite()


def cut_the_tail_of_events(case: Case) -> None:
    forger = case.forger()
    del forger.bodies[-case.choose.randint(1, 30) :]
    forger.rewrite()


def put_in_an_event_of_another_tenant(case: Case) -> None:
    forger = case.forger()
    forger.bodies[case.choose.randrange(len(forger.bodies))] = write(1, tenant=OTHER).bodies[0]
    forger.rewrite()


# Who holds the key: each leaves an export that is whole by itself


def _sign_anew(case: Case, bodies: list[bytes]) -> None:
    shutil.rmtree(case.folder)
    WrittenLog(case.log.tenant, case.log.seed, bodies).export(case.folder)


def fork_the_log(case: Case) -> None:
    bodies = list(case.log.bodies)
    at = case.choose.randrange(ANCHORED[-1])
    fields = orjson.loads(bodies[at])
    fields["ts"] += 1
    bodies[at] = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    _sign_anew(case, rechained(bodies))


def leave_out_an_anchored_event(case: Case) -> None:
    bodies = list(case.log.bodies)
    opened = next(at for at, body in enumerate(bodies) if b"writer.opened" in body)
    # The successor's opening names how many events the first writer had: those of the others can go.
    at = case.choose.choice([at for at in range(ANCHORED[-1]) if at > opened])
    del bodies[at]
    _sign_anew(case, rechained(bodies))


def cut_the_tail_across_an_anchored_checkpoint(case: Case) -> None:
    _sign_anew(case, case.log.bodies[: case.choose.randrange(1, ANCHORED[-1])])


def cut_before_a_later_event_of_the_same_writer(case: Case) -> None:
    """Above the newest anchored checkpoint, where only the writers' chains tell."""
    bodies = list(case.log.bodies)
    writers = [orjson.loads(body)["writer"] for body in bodies]
    at = case.choose.choice([at for at in range(ANCHORED[-1], COUNT) if writers[at] in writers[at + 1 :]])
    del bodies[at]
    _sign_anew(case, bodies)


def show_an_old_export(case: Case) -> None:
    shutil.rmtree(case.folder)
    shutil.copytree(case.old, case.folder)


FILES: tuple[Mutation, ...] = (
    flip_a_bit, change_a_letter, delete_bytes, insert_bytes, cut_a_file, remove_a_file, delete_lines, cut_the_tail,
    double_a_line, swap_two_lines, swap_two_files, put_in_another_tenants_events, put_in_another_tenants_file,
    show_another_tenants_log, replay_an_old_checkpoint, replay_old_files, give_another_key,
)  # fmt: skip
MANIFESTS: tuple[Mutation, ...] = (
    change_an_event_and_its_hash, change_an_event_and_its_writers_chain, delete_an_event_and_close_the_gap,
    insert_an_event, double_an_event, move_an_event, cut_the_tail_of_events, put_in_an_event_of_another_tenant,
)  # fmt: skip
KEYS: tuple[Mutation, ...] = (
    fork_the_log, leave_out_an_anchored_event, cut_the_tail_across_an_anchored_checkpoint,
    cut_before_a_later_event_of_the_same_writer, show_an_old_export,
)  # fmt: skip
EVERY = (*FILES, *MANIFESTS, *KEYS)
