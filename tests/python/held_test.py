"""Finished work of a client in Python is on its disk until its version is: whoever is killed, it is not done again."""

import logging
import os
import stat
import types

import packaged
import harness
from client_test import LAYERS, Federation

# Big enough for an upload of two blocks, of which one is staged when its client is killed.
WIDE = harness.SCENARIO.replace('[model]\npreset = "logistic_regression"\n', LAYERS)

CLIENT = """
import logging, os, sys, time
import numpy as np
import rivulet

coordinator, name, _, folder = sys.argv[1:]

class Adds(rivulet.Client):
    examples = 3

    def fit(self, params, context):
        with open(f"{folder}/{name}.fits", "a") as file:
            print(context.round, file=file)
        while os.path.exists(f"{folder}/{name}.stands-{context.round}"):
            time.sleep(0.01)
        # What it keeps goes into what it sends: another state would be another model.
        seen = np.append(context.state.get("seen", []), context.round)
        context.state["seen"] = seen
        draws = np.random.default_rng([context.seed, *seen.astype(int)])
        change = {name: draws.normal(0, 0.01, array.shape).astype(np.float32) for name, array in params.items()}
        return rivulet.Delta(change, examples=3)

logging.basicConfig(level=logging.INFO, format="%(message)s", filename=f"{folder}/{name}.log")
print(rivulet.run_client(Adds(), coordinator, name=name, state_dir=f"{folder}/kept"))
"""


@packaged.needs_grpc
class Killed(Federation):
    """Each run is one of three rounds by two clients, and is to end at the model of a run in which nobody was killed."""

    wanted = ()  # each round's digest

    def setUp(self):
        super().setUp()
        self.program = self.write("adds.py", CLIENT)

    def begin_runs(self):
        """The undisturbed one, where no test has seen it yet, and the one whose members are killed."""
        if not self.wanted:
            self.begin_run("undisturbed")
            self.end_run([self.client(name) for name in self.names])
            type(self).wanted = self.digests()
            self.assertEqual(len(self.wanted), 3)
        self.begin_run("killed")

    def begin_run(self, where):
        self.where = self.folder / where
        self.where.mkdir()
        self.begin(2, "run.rounds=3", scenario=WIDE)

    def end_run(self, processes):
        for process in [self.coordinator, *processes]:
            self.assertEqual(process.wait(120), 0)
        for name in self.names:
            self.assertEqual(self.held(name), [], "what is durable is held no longer")

    def client(self, name):
        return self.start_python(name, self.program, str(self.where))

    def fits(self, name):
        return [int(line) for line in (self.where / f"{name}.fits").read_text().split()]

    def resent(self, name):
        log = (self.where / f"{name}.log").read_text()
        return [round for round in (1, 2, 3) if f"round {round}: sent the stored update, " in log]

    def held(self, name):
        from rivulet._held import digits

        return sorted((self.where / "kept" / digits(name) / "updates").glob("*"))

    def stands_in_round_2(self, name):
        (self.where / f"{name}.stands-2").touch()
        return self.client(name)

    def goes_on(self, name):
        (self.where / f"{name}.stands-2").unlink()

    def acknowledged(self, name):
        log = self.where / f"{name}.log"
        self.wait_for(lambda: log.exists() and "round 2: examples 3, " in log.read_text(), f"{name} to be acknowledged")
        # Of round 1 it may not have heard yet.
        (held,) = [path for path in self.held(name) if path.name.endswith("-r2-a1-update-0")]
        self.assertEqual(stat.S_IMODE(held.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(held.parent.stat().st_mode), 0o700)

    def kill(self, process):
        process.kill()
        process.wait()

    def test_a_client_in_the_middle_of_its_upload(self):
        self.begin_runs()
        killed, other = self.names
        self.relay.stall_uploads(killed, 1 << 20)
        victim, survivor = self.client(killed), self.client(other)
        self.assertTrue(self.relay.stalled.wait(120))
        self.kill(victim)
        self.assertEqual(len(self.held(killed)), 1)
        self.relay.stall_uploads("", 0)
        self.end_run([survivor, self.client(killed)])
        self.assertEqual(self.digests(), self.wanted)
        self.assertEqual((self.fits(killed), self.resent(killed)), ([1, 2, 3], [1]))
        (first,) = self.query("SELECT task_id FROM client_rounds WHERE round = 1 AND client_id = ? AND run_id = "
                              "(SELECT run_id FROM runs ORDER BY created_at DESC LIMIT 1)", killed)
        self.assertEqual(self.relay.resumed[first[0]], [0, 1 << 20])

    def test_a_coordinator_that_had_acknowledged(self):
        self.begin_runs()
        slow, other = self.names
        processes = [self.stands_in_round_2(slow), self.client(other)]
        self.acknowledged(other)
        self.kill(self.coordinator)
        self.start_coordinator("--resume", "latest")
        self.wait_for(lambda: self.resent(other) == [2], "what was finished to be sent again")
        self.goes_on(slow)
        self.end_run(processes)
        self.assertEqual(self.digests(), self.wanted)
        # Who still trained may have heard from the new coordinator, before that had drawn anybody, that it is not needed.
        self.assertEqual(self.fits(other), [1, 2, 3])

    def test_both_sides_after_the_acknowledgement(self):
        self.begin_runs()
        slow, other = self.names
        processes = [self.stands_in_round_2(slow), self.client(other)]
        self.acknowledged(other)
        for process in [self.coordinator, *processes]:
            self.kill(process)
        self.goes_on(slow)
        self.start_coordinator("--resume", "latest")
        self.end_run([self.client(name) for name in self.names])
        self.assertEqual(self.digests(), self.wanted)
        self.assertEqual((self.fits(other), self.resent(other)), ([1, 2, 3], [2]))
        self.assertEqual((self.fits(slow), self.resent(slow)), ([1, 2, 2, 3], []))


@packaged.needs_grpc
class Held(harness.RivuletTest):
    """Finished updates of the client "ann" in a folder."""

    def setUp(self):
        super().setUp()
        self.updates = self.folder / "updates"

    def made(self, name="ann", most=1000):
        from rivulet._held import HeldUpdates

        return HeldUpdates(str(self.updates), name, most)

    def task(self, round_=1, run="run-r7-a1", **changed):
        from rivulet import _protocol

        task = _protocol.PollReply().tasks.add(
            id=f"{run}-r{round_}-a1-ann-0", run_id=run, client_id="ann", base_version=round_ - 1, plan=b"p" * 32
        )
        task.inputs.add(name="model").id.digest = b"m" * 32
        for field, value in changed.items():
            setattr(task, field, value)
        return task

    def keep(self, held, task, content=b"update"):
        from rivulet._held import Finished
        from rivulet._update import Message

        held.keep(task, Finished(Message([content]), 1.5, True))

    def found(self, held, task):
        found = held.find(task)
        return None if found is None else bytes(found.message)

    def outcome(self, task, end, durable=False):
        return types.SimpleNamespace(task=task.id, end=end, durable=durable, reason="so it is")

    def files(self):
        return sorted(os.listdir(self.updates)) if self.updates.exists() else []

    def test_what_is_kept_is_found_by_the_next_process(self):
        task = self.task()
        self.keep(self.made(), task, b"x" * 900)
        found = self.made().find(task)
        self.assertEqual((bytes(found.message), found.seconds, found.proposes), (b"x" * 900, 1.5, True))
        self.assertEqual(self.made("bob").find(task), None)
        self.assertEqual(self.found(self.made(), self.task(2)), None)
        self.assertEqual(self.found(self.made(), self.task(run="run")), None)

    def test_another_work_under_its_name_is_not_sent(self):
        for changed in [dict(base_version=7), dict(stream_key=7), dict(plan=b"q" * 32), dict(ordinal=1), dict(state_of="x")]:
            with self.subTest(changed):
                held = self.made()
                self.keep(held, self.task())
                with self.assertLogs("rivulet", logging.WARNING) as said:
                    self.assertIsNone(held.find(self.task(**changed)))
                self.assertIn("ann: the finished update of round 1 is dropped: the task is another by now", said.output[0])
                self.assertEqual(self.files(), [])
        model = self.task()
        model.inputs[0].id.digest = b"n" * 32
        self.keep(self.made(), self.task())
        with self.assertLogs("rivulet"):
            self.assertIsNone(self.made().find(model))

    def test_what_is_damaged_or_another_programs_is_not_sent(self):
        task = self.task()
        self.keep(self.made(), task)
        path = self.updates / self.files()[0]
        whole = path.read_bytes()
        for damaged in packaged.mutations(whole, 100):
            if damaged != whole:
                path.write_bytes(damaged)
                with self.assertLogs("rivulet") as said:
                    self.assertIsNone(self.made().find(task))
                self.assertRegex(said.output[0], "damaged: its bytes do not give the CRC at its end")
                self.assertEqual(self.files(), [])
        from rivulet._files import write_sealed

        write_sealed(path, [b"RVHELD01", bytes(64), b"update"])
        with self.assertLogs("rivulet") as said:
            self.assertIsNone(self.made().find(task))
        self.assertIn("it is of another program", said.output[0])

    def test_outcomes_settle_it(self):
        held = self.made()
        first, second, third, other = self.task(1), self.task(2), self.task(3), self.task(1, run="another")
        for task in (first, second, third, other):
            self.keep(held, task)
        held.settle(self.outcome(second, 0))  # in a version, which a crash may lose
        self.assertEqual(len(self.files()), 4)
        held.settle(self.outcome(second, 0, durable=True))
        self.assertEqual([self.found(held, task) for task in (first, second, third, other)], [None, None, b"update", b"update"])
        for end in (1, 2, 3):  # refused, dropped, failed
            self.keep(held, third)
            with self.assertLogs("rivulet") as said:
                held.settle(self.outcome(third, end))
            self.assertIn("the finished update of round 3 is dropped: so it is", said.output[0])
            self.assertIsNone(held.find(third))
        self.keep(held, third)
        held.run_is_over("run-r7-a1")
        self.assertEqual([self.found(held, task) for task in (third, other)], [None, b"update"])

    def test_the_oldest_gives_way(self):
        held = self.made(most=2000)
        tasks = [self.task(round_) for round_ in (1, 2, 3)]
        for age, task in zip((3, 2, 1), tasks):
            with self.subTest(task.id):
                if age > 1:
                    self.keep(held, task, b"x" * 900)
                    when = 1_000_000_000 - age
                    os.utime(self.updates / self.files()[-1], (when, when))
        with self.assertLogs("rivulet") as said:
            self.keep(held, tasks[2], b"x" * 900)
        self.assertIn("hold_megabytes allows 0.0; the oldest is dropped", said.output[0])
        self.assertEqual([self.found(held, task) is not None for task in tasks], [False, True, True])

    def test_what_cannot_be_kept_is_said_once_and_harms_nothing(self):
        held = self.made(most=10)
        with self.assertLogs("rivulet") as said:
            for round_ in (1, 2):
                self.keep(held, self.task(round_), b"x" * 11)
        self.assertEqual(len(said.output), 1)
        self.assertIn("round 1 is not kept on disk: it has 0.0 MB, and hold_megabytes allows 0.0; it is sent", said.output[0])
        self.updates.write_text("a file")
        with self.assertLogs("rivulet") as said:
            self.keep(self.made(), self.task())
        self.assertIn("is not kept on disk: ", said.output[0])
        self.assertIsNone(self.made().find(self.task()))

    def test_it_is_not_sent_without_what_its_task_left_to_keep(self):
        import numpy as np
        from rivulet._agent import _Agent
        from rivulet._client_state import ClientState
        from rivulet._held import Finished
        from rivulet._update import Message

        held, state, task = self.made(), ClientState(self.path("state")), self.task()
        agent = _Agent(None, None, "ann", "train", state, held)
        self.assertIsNone(agent._found(task))
        held.keep(task, Finished(Message([b"update"]), 1.5, False))
        self.assertIsNotNone(agent._found(task))
        self.keep(held, task)
        self.assertIsNone(agent._found(task))
        state.propose(task.run_id, 1, task.id, {"seen": np.ones(1)})
        self.assertIsNotNone(agent._found(task))
        state.hear(task.id, 0)
        self.assertIsNotNone(agent._found(task))  # in a version, which a crash has lost
        self.assertIsNone(agent._found(self.task(kind=1)))

    def test_what_a_process_left_half_written_goes(self):
        self.keep(self.made(), self.task())
        (self.updates / f"{self.files()[0]}.tmp-0123456789abcdef").write_text("half")
        somebodys = {"notes.tmp-mine", "a.tmp-0123456789abcdef", f"{self.files()[0]}.tmp-old"}
        for name in somebodys:
            (self.updates / name).write_text("somebody's")
        self.made()
        self.assertEqual(len(self.files()), 1 + len(somebodys))
        self.assertLessEqual(somebodys, set(self.files()))


@packaged.needs_grpc
class StateOfWhatIsSentAgain(harness.RivuletTest):
    def test_what_was_in_a_version_that_was_lost_goes_when_its_task_is_dropped(self):
        import numpy as np
        from rivulet._client_state import ClientState

        for path in (None, self.path("ann.safetensors")):
            state = ClientState(path)
            for round_ in (1, 2, 3):
                seen = np.append(state.of("r", round_).get("seen", []), round_)
                state.propose("r", round_, f"r{round_}", {"seen": seen})
                state.hear(f"r{round_}", 0)
            self.assertTrue(state.has("r2"))
            state.hear("r2", 2)  # sent again, and not in time
            for again in (state, ClientState(path)) if path else (state,):
                self.assertFalse(again.has("r2"))
                self.assertEqual(again.of("r", 4)["seen"].tolist(), [1])
            state.propose("r", 4, "r4", {"seen": np.ones(2)})
            state.hear("r4", 0)
            self.assertEqual(state.of("r", 5)["seen"].tolist(), [1, 1])
            self.assertEqual(state.of("r", 4)["seen"].tolist(), [1])


if __name__ == "__main__":
    harness.main()
