"""Ten steps of LoRA by the program and by PEFT: adapters that begin with the same values, the export that PEFT opens, the
scores that both give, and the merged weights.

    peft_step.py        prints a row for each of GPT-2, LLaMA and BERT, made from configurations

Distances are of float32 against PEFT in float64, relative to the largest value."""

import copy
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Tuple

import rivulet
import rivulet.torch
import torch
import torch_catalogue
from rivulet._program import program
from torch_step import feature

STEPS, RATE, BATCH = 10, 0.5, 6
TOLERANCE = 1e-5
# The variables with an adapter, and those that are saved whole.
MODELS: List[Tuple[str, List[str], List[str]]] = [
    ("gpt2", ["*attn.c_attn.weight", "*mlp.c_fc.weight"], []),
    ("llama_grouped_heads", ["*q_proj.weight", "*v_proj.weight", "*down_proj.weight"], []),
    ("bert", ["*query.weight", "*value.weight"], ["scores.*"]),
]


def trained_by_peft(module: Any, adapter: pathlib.Path, batch: Any, labels: Any, dtype: torch.dtype) -> Any:
    """The module with the adapter of `adapter`, after the steps."""
    import peft

    model = peft.PeftModel.from_pretrained(copy.deepcopy(module).to(dtype), str(adapter), is_trainable=True).to(dtype)
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=RATE)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()
    return model.eval()


def distance(ours: Any, theirs: Any) -> float:
    ours, theirs = ours.double(), theirs.double()
    return float((ours - theirs).abs().max() / theirs.abs().max())


def scores_of_file(path: pathlib.Path, batch: Any) -> Any:
    """By ONNX's own evaluator: the export of the program's graph, adapters and all."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    return torch.tensor(evaluator.run(None, {evaluator.input_names[0]: batch.numpy()})[0])


def compare(name: str, targets: List[str], saved: List[str]) -> Dict[str, float]:
    import peft

    entry = torch_catalogue.by_name()[name]
    torch.manual_seed(5)
    module = entry.make().float().eval()
    batch, labels = torch.randint(0, 5, (BATCH, 8)), torch.randint(0, 5, (BATCH,))
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        data = str(folder / "train.tfrecord")
        rivulet.write_examples(data, {"x": feature(batch), "label": labels.numpy()})
        section = rivulet.torch.scenario(
            module, batch, loss="sparse_softmax_cross_entropy", path=folder / "model.onnx", kind="tokens", exporter="dynamo"
        )["model"]
        section["lora"] = {"targets": targets, "rank": 4, "alpha": 8.0, "modules_to_save": saved}
        run = rivulet.simulate(
            {
                "model": section,
                "run": {"name": "lora", "rounds": 1, "keep_models": "all"},
                "data": {"train": data, "test": data, "partition": {"kind": "iid", "clients": 1}, "input_feature": "x"},
                "client": {"epochs": STEPS, "batch_size": BATCH, "optimizer": {"kind": "sgd", "learning_rate": RATE}},
                "server": {"clients_per_round": 1},
            },
            db=folder / "runs.sqlite",
        )

        def model(command: str, version: int, out: str, *more: str) -> pathlib.Path:
            arguments = [command, f"{run.id}:{version}", "--out", str(folder / out), "--db", str(folder / "runs.sqlite"), *more]
            subprocess.run([program(), "model", *arguments], check=True, stdout=subprocess.DEVNULL)
            return folder / out

        adapters = [model("export", version, f"adapter-{version}", "--format", "peft") for version in (0, 1)]

        def opened(version: int) -> Any:
            return peft.PeftModel.from_pretrained(copy.deepcopy(module), str(adapters[version])).eval()

        exact = trained_by_peft(module, adapters[0], batch, labels, torch.float64)
        wanted, ours = (peft.get_peft_model_state_dict(each) for each in (exact, opened(1)))
        assert sorted(wanted) == sorted(ours), (sorted(wanted), sorted(ours))
        start = peft.get_peft_model_state_dict(opened(0))
        merged = copy.deepcopy(module)
        # Metadata of the run say in which layout its variables are.
        values = rivulet.load_safetensors(model("merge", 1, "merged.safetensors"))
        rivulet.torch.load(merged, rivulet.Tensors(values, run.model().metadata))
        with torch.no_grad():
            base, scores = module(batch), opened(1)(batch)
            return {
                "opened": distance(scores_of_file(model("export", 1, "adapted.onnx"), batch), scores),
                "steps": max(distance(ours[each], wanted[each]) for each in wanted),
                "merged": distance(merged(batch), opened(1).merge_and_unload().eval()(batch)),
                "first": distance(opened(0)(batch), base),
                # Nothing of the above says anything of adapters that stayed where they were.
                "adapters moved": max(distance(start[each], wanted[each]) for each in wanted),
                "scores moved": distance(base, scores),
            }


def agrees(row: Dict[str, float]) -> bool:
    exact = all(row[column] <= TOLERANCE for column in ("opened", "steps", "merged", "first"))
    return exact and row["adapters moved"] > 0.1 and row["scores moved"] > 0.01


def main() -> int:
    faults = 0
    for name, targets, saved in MODELS:
        row = compare(name, targets, saved)
        faults += not agrees(row)
        print(f"{name:22}", "  ".join(f"{column} {value:.1e}" for column, value in row.items()), flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
