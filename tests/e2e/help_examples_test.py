"""Every example in a help text, as it is written: in a folder that has what they speak of it succeeds, or is well under way
after a few seconds; what is elsewhere (a coordinator, a study's files) is missed in a sentence, and no argument is wrong."""
import os
import pathlib
import re
import shutil
import signal
import subprocess

from harness import RIVULET, SCENARIO, RivuletTest, main

# What an example needs that this folder has not; it ends with 1, and says what it missed.
ELSEWHERE = {
    "--coordinator": "a coordinator", "rivulet coordinator": "its keys", "rivulet aggregator": "its parent", "--simulation": "a simulation",
    "preflight": "its keys", "ca ": "an authority's files", "--authority": "an authority's files", "receipts check": "a client's receipts", "data import": "other people's files", "data fetch mnist": "a network",
    "--attach": "a process", "onnx/": "other people's files", "net.onnx": "a model", "theirs.npz": "a model", "colleague/": "a history",
    "runs import logs": "event files", "weights.npz": "a model", "visits.csv": "a table", "north/columns.json": "other sites' columns", "holdout.tfrecord": "data",
    "/elsewhere/": "data", "--rounds 500": "so many rounds", "--from 41": "so many rounds", "plan sign heart.plan": "a plan",
    "plan sign quickstart.plan": "an author's key", "reproduce fedprox-synthetic": "its data", "backups/": "a folder",
    "privacy audit": "canaries", "model merge": "adapters", "privacy accounts": "a client's state", "--tls task-b": "a certificate", "activations.txt": "an owner's files",
    "model rollback": "an earlier target", "bench serve": "a server", "--device gpu": "a GPU", "model diff latest:best": "a best version that is the last one too",
}
# What trains, serves or waits is left alone after so many seconds; all else comes to its end.
LONG = ("simulate", "sweep", "up", "worker", "graph worker", "coordinator", "client", "aggregator", "dashboard", "debug", "reproduce", "serve", "graph profile",
        "graph place", "runs tail", "data fetch")
SECONDS, AT_MOST = 2, 60


class HelpExamples(RivuletTest):
    def examples(self, words=()):
        text = self.run_rivulet(*words, "--help", code=0).out
        found = re.search(r"Examples?:\n((?:  .*\n)+)", text)
        lines = [line.strip() for line in found.group(1).splitlines()]
        if "Subcommands:\n" in text:
            for name in re.findall(r"^  (\S+)", text.split("Subcommands:\n")[1].split("\n\n")[0], re.M):
                lines += self.examples((*words, name))
        return lines

    def prepare(self):
        self.write("scenario.toml", SCENARIO)
        for name in ("fedavg", "mnist", "mnist-fedavg", "fedprox"):
            self.run_rivulet("simulate", self.scenario, "--rounds", 2, "--set", f"run.name={name}", "--set", "run.keep_models=all", code=0)
        self.write("rule.txt", "mu = 0.1\ngradient = grad + mu * (params - base)\n")
        self.run_rivulet("runs", "tag", "latest", "baseline", code=0)
        shutil.copytree(self.path("data"), self.path("mnist"))
        self.run_rivulet("model", "export", "mnist_cnn", "--out", "model.pb", code=0)
        self.run_rivulet("model", "export", "mnist_cnn", "--out", "mnist.onnx", code=0)
        self.run_rivulet("plan", "build", "quickstart", "--out", "quickstart.plan", code=0)
        self.run_rivulet("model", "export", "logistic_regression", "--out", "ours.safetensors", code=0)

    def test_they_run_as_they_are_written(self):
        self.prepare()
        home = self.path("home")
        for folder in (".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"):
            os.makedirs(f"{home}/{folder}")
        environment = {**os.environ, "HOME": home, "PATH": f"{pathlib.Path(RIVULET).parent}:{os.environ['PATH']}", "RIVULET_DATA": self.path("")}
        # What is cut off after a few seconds comes last: on a machine at work its run has no round yet, and would be `latest` to the others.
        lines = sorted(dict.fromkeys(self.examples()),
                       key=lambda line: (line.removeprefix("rivulet ").startswith(LONG), "latest" not in line))
        self.assertGreater(len(lines), 100)
        before = set(os.listdir(self.folder))
        for line in lines:
            with self.subTest(line):
                if "| dot" in line and shutil.which("dot") is None:
                    line = line.split("|")[0]
                process = subprocess.Popen(["bash", "-c", line], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
                is_long = line.removeprefix("rivulet ").startswith(LONG)
                try:
                    _, err = process.communicate(timeout=SECONDS if is_long else AT_MOST)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    self.assertTrue(is_long, "it does not end")
                    continue
                missing = next((why for part, why in ELSEWHERE.items() if part in line), None)
                self.assertIn(process.returncode, (0,) if missing is None else (0, 1, 2), err)
                if process.returncode != 0:
                    self.assertNotRegex(err, r"takes|unknown|Did you mean|needs [A-Z]|is no (command|option)", "an argument is wrong")
        self.assertTrue(before <= set(os.listdir(self.folder)))


if __name__ == "__main__":
    main()
