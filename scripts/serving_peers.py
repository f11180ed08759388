#!/usr/bin/env python3
"""`rivulet serve` beside other servers of the same model, all under the load of `rivulet bench serve` on this machine: ONNX Runtime behind
grpcio, and ONNX Runtime in MLServer. The generator shares the cores. docs/internals/results.md has the figures. Wants a built tree and a Python that has onnxruntime, grpcio and tritonclient
(MLServer too where it is to be measured).

  scripts/serving_peers.py [--models mnist_cnn,logistic_regression] [--seconds 5] [--turns 3] [--program build/release/rivulet]"""
import argparse
import importlib.util
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SCENARIO = """
[run]
name = "{model}"
rounds = 1
seed = 7
[model]
preset = "{model}"
[data]
train = "data/train.tfrecord"
test = "data/test.tfrecord"
synth = {{ kind = "digits", writers = 4, test_writers = 2, examples_per_writer = 20, seed = 3 }}
partition = {{ kind = "iid", clients = 2 }}
[client]
batch_size = 10
optimizer = {{ kind = "sgd", learning_rate = 0.1 }}
[server]
clients_per_round = 2
"""

# A server of the Open Inference Protocol over grpcio's threads, a call a step. Arguments: the model, the port.
GRPCIO = """
import concurrent.futures, sys, grpc, numpy, onnxruntime
from tritonclient.grpc import service_pb2 as messages, service_pb2_grpc as services
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
taken, made = session.get_inputs()[0], session.get_outputs()[0]
class Servicer(services.GRPCInferenceServiceServicer):
    def ServerLive(self, request, context): return messages.ServerLiveResponse(live=True)
    def ModelMetadata(self, request, context):
        sizes = lambda tensor: [size if isinstance(size, int) else -1 for size in tensor.shape]
        return messages.ModelMetadataResponse(name=request.name, inputs=[dict(name=taken.name, datatype="FP32", shape=sizes(taken))],
                                              outputs=[dict(name=made.name, datatype="FP32", shape=sizes(made))])
    def ModelInfer(self, request, context):
        values = numpy.frombuffer(request.raw_input_contents[0], numpy.float32).reshape(list(request.inputs[0].shape))
        result = session.run([made.name], {taken.name: values})[0]
        return messages.ModelInferResponse(model_name=request.model_name, raw_output_contents=[result.tobytes()],
                                           outputs=[dict(name=made.name, datatype="FP32", shape=list(result.shape))])
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
services.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
server.add_insecure_port(f"127.0.0.1:{sys.argv[2]}")
server.start()
server.wait_for_termination()
"""

# A runtime of MLServer; its settings ask for adaptive batches.
MLSERVER = """
import numpy, onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
class Runtime(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        return True
    async def predict(self, payload):
        values = NumpyCodec.decode_input(payload.inputs[0]).astype(numpy.float32)
        made = self.session.get_outputs()[0].name
        result = self.session.run([made], {self.session.get_inputs()[0].name: values})[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output(made, result)])
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def memory_megabytes(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


class Bench:
    def __init__(self, folder, program, seconds):
        self.folder, self.program, self.seconds = pathlib.Path(folder), program, seconds

    def call(self, *words):
        return subprocess.run([self.program, *words], cwd=self.folder, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout

    def prepare(self, model):
        (self.folder / f"{model}.toml").write_text(SCENARIO.format(model=model))
        self.call("simulate", f"{model}.toml")
        self.call("model", "point", model, f"stable={model}")
        self.call("model", "export", model, "--out", f"{model}.onnx")

    def rivulet(self, model, port):
        return [self.program, "serve", "--model", model, "--grpc", f"127.0.0.1:{port}", "--insecure"]

    def grpcio(self, model, port):
        (self.folder / "grpcio_server.py").write_text(GRPCIO)
        return [sys.executable, "grpcio_server.py", f"{model}.onnx", str(port)]

    def mlserver(self, model, port):
        home = self.folder / f"mlserver-{model}"
        home.mkdir(exist_ok=True)
        (home / "runtime.py").write_text(MLSERVER)
        shape = json.loads(subprocess.run(
            [sys.executable, "-c", "import json, sys, onnxruntime; s = onnxruntime.InferenceSession(sys.argv[1]); print(json.dumps("
             "[[x.name, [d if isinstance(d, int) else -1 for d in x.shape]] for x in s.get_inputs()[:1] + s.get_outputs()[:1]]))",
             f"{model}.onnx"], cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout)
        named = [dict(name=name, datatype="FP32", shape=sizes) for name, sizes in shape]
        (home / "model-settings.json").write_text(json.dumps(dict(
            name=model, implementation="runtime.Runtime", max_batch_size=64, max_batch_time=0.001,
            parameters=dict(uri=str(self.folder / f"{model}.onnx")), inputs=named[:1], outputs=named[1:])))
        (home / "settings.json").write_text(json.dumps(dict(
            grpc_port=port, http_port=free_port(), metrics_port=free_port(), parallel_workers=0, host="127.0.0.1")))
        return [sys.executable, "-m", "mlserver.cli.main", "start", str(home)]

    def load(self, model, port, outstanding, rows):
        return json.loads(self.call("bench", "serve", model, "--grpc", f"127.0.0.1:{port}", "--insecure", "--outstanding",
                                    str(outstanding), "--rows", str(rows), "--seconds", str(self.seconds), "--json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mnist_cnn,logistic_regression")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--program", default="build/release/rivulet")
    arguments = parser.parse_args()
    servers = ["rivulet", "grpcio"] + (["mlserver"] if importlib.util.find_spec("mlserver") else [])
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, str(pathlib.Path(arguments.program).resolve()), arguments.seconds)
        print("model                server    outstanding rows   calls/s  of empty  examples/s    p50 ms    p99 ms   MB")
        for model in arguments.models.split(","):
            bench.prepare(model)
            loads = [(64, 1), (8, 8), (1, 1)]
            found = {}
            for _ in range(arguments.turns):
                for server in servers:
                    port = free_port()
                    process = subprocess.Popen(getattr(bench, server)(model, port), cwd=folder, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL)
                    try:
                        for _ in range(300):
                            with socket.socket() as caller:
                                if caller.connect_ex(("127.0.0.1", port)) == 0:
                                    break
                            time.sleep(0.1)
                        for outstanding, rows in loads:
                            empty, inference = bench.load(model, port, outstanding, rows)
                            found.setdefault((server, outstanding, rows), []).append(
                                (inference["per_second"], inference["of_empty"], inference["examples_per_second"], inference["p50_ms"],
                                 inference["p99_ms"], memory_megabytes(process)))
                    finally:
                        process.terminate()
                        process.wait()
            for (server, outstanding, rows), values in found.items():
                rate, share, examples, p50, p99, megabytes = (statistics.median(column) for column in zip(*values))
                print(f"{model:20} {server:9} {outstanding:11} {rows:4} {rate:9.0f} {share:9.2f} {examples:11.0f} {p50:9.2f} {p99:9.2f} "
                      f"{megabytes:4.0f}", flush=True)


if __name__ == "__main__":
    main()
