#!/usr/bin/env python3
"""Rounds of the shape of pfl-research's CIFAR-10 benchmark (1,000 clients of 50 images, 50 a round, one epoch in batches of
10, 1,626,442 parameters): `rivulet simulate` in float32 and bfloat16 beside the loop that one would write in PyTorch, eager and
compiled, in float32 and under autocast to bfloat16. One process each, in turns, on the same cores.

    cifar_rounds.py --torch PYTHON [--cores 2] [--rounds 4] [--turns 2] [--ways …] [--rivulet FILE] [--data FOLDER]

PYTHON is an interpreter with torch. Pixels are random: what a step computes does not depend on them. Seconds are of a round
without the first, and of an evaluation of 1,000 images; ours is from one commit to the next, by the history, with all that it
checks, folds, signs and stores; PyTorch's ends with the next model in memory. Of PyTorch `threads` trains client after client
with as many threads as there are cores, `processes` half of the clients (of two cores) in each of as many processes.
"""
import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent / "gpu"))

import works  # noqa: E402

EVALUATED = 1000
# Of PyTorch: whether a step is compiled, the type that it computes in, whether clients are shared out to processes.
WAYS = {
    "rivulet float32": None,
    "rivulet bfloat16": None,
    "eager float32 threads": (False, "float32", False),
    "eager float32 processes": (False, "float32", True),
    "compiled float32 processes": (True, "float32", True),
    "eager bfloat16 processes": (False, "bfloat16", True),
    "compiled bfloat16 processes": (True, "bfloat16", True),
}


# ---- PyTorch, in a process of its own -------------------------------------------------------------------------------


def torch_rounds(compiled, kind, cohort, threads, rounds):
    """Seconds of each round of so many clients, and of an evaluation."""
    import peers
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)
    work = peers.Work("cifar", torch.device("cpu"))
    work.cohort = cohort
    make = work.new_model
    work.new_model = lambda: make().to(memory_format=torch.channels_last)
    narrow = torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16")

    def loss(model, images, labels):
        with narrow:
            return functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)).float(), labels)

    loss_of = torch.compile(loss) if compiled else loss

    def step(model, images, labels, rate):
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss_of(model, images, labels), parameters)
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-rate)

    run = peers.one_by_one(work, step)
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run(work.cohort_of_round())
        seconds.append(time.perf_counter() - begin)
    model = work.new_model().eval()
    evaluations = []
    with torch.no_grad(), narrow:
        for _ in range(3):
            begin = time.perf_counter()
            for part in work.images[:EVALUATED].split(100):
                model(part).argmax(1)
            evaluations.append(time.perf_counter() - begin)
    return seconds, min(evaluations)


def torch_part(way, cores, rounds, number, queue):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})
    compiled, kind, _ = WAYS[way]
    queue.put(torch_rounds(compiled, kind, works.WORKS["cifar"]["cohort"] // cores, 1, rounds))


def torch_way(way, cores, rounds):
    """Prints {"rounds": seconds of each, "evaluation": seconds}. Processes wait for nobody: a round is as long as that of the
    slowest, and what adding their models would take is left out."""
    compiled, kind, shared_out = WAYS[way]
    if not shared_out or cores == 1:
        seconds, evaluation = torch_rounds(compiled, kind, works.WORKS["cifar"]["cohort"], cores, rounds)
    else:
        import torch.multiprocessing

        context = torch.multiprocessing.get_context("spawn")
        queue = context.Queue()
        parts = [context.Process(target=torch_part, args=(way, cores, rounds, number, queue)) for number in range(cores)]
        for part in parts:
            part.start()
        of_parts = [queue.get() for _ in parts]
        for part in parts:
            part.join()
        seconds = [max(each) for each in zip(*(rounds_of for rounds_of, _ in of_parts))]
        evaluation = max(each for _, each in of_parts) / cores  # each could have measured its share
    print(json.dumps({"rounds": seconds, "evaluation": evaluation}))


# ---- ours -----------------------------------------------------------------------------------------------------------


def our_rounds(rivulet, scenario, kind, cores, rounds):
    with tempfile.TemporaryDirectory() as folder:
        history = f"{folder}/runs.sqlite"
        subprocess.run([rivulet, "simulate", scenario, "--quiet", "--rounds", str(rounds), "--workers", str(cores), "--db", history,
                        "--set", f"client.precision={kind}", "--set", f"evaluation.every={rounds}"],
                       check=True, stdout=subprocess.DEVNULL)
        with sqlite3.connect(f"file:{history}?mode=ro", uri=True) as database:
            (evaluation,), = database.execute("SELECT evaluate_seconds FROM rounds ORDER BY round DESC LIMIT 1")
        seconds = works.rounds_of(history, "cifar")
    seconds[-1] -= evaluation  # which is told apart
    return {"rounds": [seconds[0], *seconds], "evaluation": evaluation}


# ---- both, in turns -------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", help="an interpreter that has torch; without it ours alone")
    parser.add_argument("--rivulet", default=str(ROOT / "build/release/rivulet"))
    parser.add_argument("--data", help="a folder for the random images, which are made once (230 MB) [a temporary one]")
    parser.add_argument("--cores", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        torch_way(options.way, options.cores, options.rounds)
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.cores])
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.data or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        works.WORKS["cifar"]["tested"] = EVALUATED
        scenario = works.prepare("cifar", folder.resolve(), options.rivulet, False)
        ways = [way for way in options.ways if way.startswith("rivulet") or options.torch]
        found = {way: [] for way in ways}
        for _ in range(options.turns):
            for way in ways:
                if way.startswith("rivulet"):
                    found[way].append(our_rounds(options.rivulet, scenario, way.split()[1], options.cores, options.rounds))
                else:
                    done = subprocess.run([options.torch, __file__, "--way", way, "--cores", str(options.cores), "--rounds",
                                           str(options.rounds)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                          text=True, env={**os.environ, "OMP_NUM_THREADS": str(options.cores)})
                    found[way].append(json.loads(done.stdout.splitlines()[-1]))
                print(f"{way}: {json.dumps(found[way][-1])}", file=sys.stderr, flush=True)
    print(f"{options.cores} cores, {options.rounds} rounds, {options.turns} turns; medians of all rounds but each turn's first")
    print(f"{'':30}{'s a round':>10}{'s an evaluation of 1,000':>26}{'times ours':>12}")
    medians = {way: (statistics.median([s for turn in turns for s in turn["rounds"][1:]]),
                     statistics.median([turn["evaluation"] for turn in turns])) for way, turns in found.items()}
    for way, (seconds, evaluation) in medians.items():
        beside = medians.get(f"rivulet {way.split()[1]}")
        ratio = f"{seconds / beside[0]:12.2f}" if beside and not way.startswith("rivulet") else ""
        print(f"{way:30}{seconds:10.3f}{evaluation:26.3f}{ratio}")


if __name__ == "__main__":
    main()
