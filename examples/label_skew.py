"""What unlike clients cost: the same digits dealt evenly and by label, one and five local epochs each.

    PYTHONPATH=python python3 examples/label_skew.py [FOLDER]

Four simulations write one history in FOLDER (default: label_skew). The table is asked from it, and the last model's
accuracy is computed once more, from its arrays and the test set's alone.
"""

import os
import sys

import numpy as np

import rivulet

ROUNDS = 20
PARTITIONS = {
    "iid": {"kind": "iid", "clients": 20},
    "skewed": {"kind": "dirichlet", "clients": 20, "alpha": 0.1},
}


def scenario(partition, epochs):
    return {
        "run": {"name": f"{partition}, {epochs} epochs", "rounds": ROUNDS},
        "model": {"preset": "logistic_regression"},
        "data": {
            "train": "train.tfrecord",
            "test": "test.tfrecord",
            "synth": {"kind": "digits", "writers": 40, "test_writers": 10, "examples_per_writer": 50},
            "partition": PARTITIONS[partition],
        },
        "client": {"epochs": epochs, "batch_size": 10, "optimizer": {"kind": "sgd", "learning_rate": 0.1}},
        "server": {"clients_per_round": 5},
    }


def accuracy(model, test):
    """Of a softmax regression: the largest score is the largest probability."""
    pixels = test["image"].reshape(len(test["image"]), -1).astype(np.float32) / np.float32(255)
    scores = pixels @ model["dense1/kernel"] + model["dense1/bias"]
    return np.mean(scores.argmax(axis=1) == test["label"])


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "label_skew"
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for partition in PARTITIONS:
        for epochs in (1, 5):
            run = rivulet.simulate(scenario(partition, epochs), db="runs.sqlite")

    history = rivulet.open("runs.sqlite")
    print(f"{'run':<18}{'best':>8}{'last':>8}{'train loss':>12}")
    for row in history.rows(
        "SELECT l.name, l.best_accuracy, l.last_accuracy, s.train_loss FROM run_leaderboard l "
        "JOIN round_summary s ON s.run_id = l.run_id AND s.round = l.last_round"
    ):
        print(f"{row['name']:<18}{row['best_accuracy']:>8.4f}{row['last_accuracy']:>8.4f}{row['train_loss']:>12.4f}")

    ours = accuracy(run.model(), rivulet.read_examples("test.tfrecord", shapes={"image": (28, 28)}))
    print(f"\n{run.name}: {ours:.4f} by NumPy, {run.scores['test/accuracy']:.4f} by the program")


if __name__ == "__main__":
    main()
