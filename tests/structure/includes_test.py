"""Every #include of the tree goes along an arrow of arrows.txt, and the arrows make no cycle."""
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def read_arrows(path):
    """{room: rooms that it may include}, in the order of the page."""
    arrows = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            room, _, allowed = line.partition(":")
            arrows[room.strip()] = allowed.split()
    return arrows


def room_of(path, arrows):
    """The innermost room that holds `path`, or None."""
    parts = path.split("/")[:-1]
    for size in range(len(parts), 0, -1):
        if "/".join(parts[:size]) in arrows:
            return "/".join(parts[:size])
    return None


def covers(allowed, room):
    return room == allowed or room.startswith(allowed + "/")


def permits(allowed, room, target):
    """Whether an arrow from `room` to `allowed` reaches `target`: with all rooms inside `allowed`, unless `room` is one."""
    return target == allowed if covers(allowed, room) else covers(allowed, target)


def top_folders(root):
    """All folders of the tree but those of the build: a new one is found without a list that names it."""
    return sorted(path.name for path in root.iterdir()
                  if path.is_dir() and path.name not in ("build", "cmake") and path.name[0] != ".")


def wrong_includes(root, arrows):
    """A sentence for each #include below `root` that no arrow allows."""
    found = []
    tops = {room.split("/")[0] for room in arrows}
    for top in top_folders(root):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu"):
                continue
            name = path.relative_to(root).as_posix()
            room = room_of(name, arrows)
            if room is None:
                found.append(f"{name}: its folder is no room of tests/structure/arrows.txt; add it there")
                continue
            for include in INCLUDE.findall(path.read_text()):
                if include.split("/")[0] not in tops:
                    continue
                target = room_of(include, arrows)
                if target == room or any(permits(allowed, room, target or include) for allowed in arrows[room]):
                    continue
                found.append(f"{name} includes {include}: {room} may not include {target}; "
                             "move what is shared to where both may see it, or add the arrow to "
                             "tests/structure/arrows.txt")
    return found


class Includes(unittest.TestCase):
    arrows = read_arrows(HERE / "arrows.txt")

    def test_every_include_goes_along_an_arrow(self):
        self.assertEqual(wrong_includes(ROOT, self.arrows), [])

    def test_arrows_point_to_rooms_that_stand_before(self):
        above = []
        for room, allowed in self.arrows.items():
            for name in allowed:
                self.assertTrue(any(covers(name, other) for other in above), f"{room}: {name} stands below it, or is no room")
                self.assertTrue(not covers(name, room) or name in above, f"{room}: {name} holds it, and stands below it")
            above.append(room)

    def test_sessions_have_two_users_in_the_program(self):
        users = {path.relative_to(ROOT).as_posix() for path in (ROOT / "cli").rglob("*")
                 if path.suffix in (".h", ".cc") and '#include "dataflow/' in path.read_text()}
        self.assertEqual(users, {"cli/graph/place.cc", "cli/graph/worker.cc"})

    def test_rooms_are_folders(self):
        for room in self.arrows:
            self.assertTrue((ROOT / room).is_dir(), room)

    def test_the_architecture_page_tells_of_every_room(self):
        page = (ROOT / "docs/internals/architecture.md").read_text()
        page = page[page.index("## Rooms and arrows"):]
        told = set(re.findall(r"`([a-z_/]+)`", page))
        for room in self.arrows:
            top, _, rest = room.partition("/")
            # The engine's rooms and federated's stand in tables of their own, without their first word.
            if top != "proto":
                self.assertIn(rest if top in ("engine", "federated") else room, told, f"{room}: the page has no row of it")

    def test_a_planted_wrong_include_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, include in (("engine/graph/wrong.cc", "dataflow/session/session.h"),
                                  ("client/agent/wrong.cc", "coordinator/coordinator.h"),
                                  ("client/training/wrong.cc", "client/training/device/gpu_trainer.h"),
                                  ("client/training/device/right.cc", "client/training/trainer.h"),
                                  ("aggregator/wrong.cc", "setup/run_setup.h"),
                                  ("newcomer/new.cc", "engine/base/status.h"),
                                  ("engine/graph/right.cc", "engine/tensor/shape.h"),
                                  ("engine/nowhere/new.cc", "engine/base/status.h")):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(f'#include "{include}"\n')
            found = wrong_includes(root, self.arrows)
            self.assertEqual(len(found), 6, found)
            for sentence in ("engine/graph/wrong.cc includes dataflow/session/session.h: engine/graph may not",
                             "engine/nowhere/new.cc: its folder is no room",
                             "client/agent/wrong.cc includes coordinator/coordinator.h: client/agent may not include coordinator",
                             "client/training may not include client/training/device",
                             "aggregator/wrong.cc includes setup/run_setup.h: aggregator may not include setup",
                             "newcomer/new.cc: its folder is no room"):
                self.assertIn(sentence, " ".join(found))


if __name__ == "__main__":
    sys.exit(unittest.main())
