"""Records the calls of tests/e2e/tensorflow_cluster.py's graphs for recorded_calls_test.cc, by a Python with TensorFlow.

    record_calls.py tensorflow OUT            TensorFlow's session, master and workers
    record_calls.py rivulet OUT RIVULET       TensorFlow's session and worker 1, our master as task 0

The file is zlib's, behind its unpacked size in 8 bytes, little-endian. Unpacked it has calls in the order in which they
began, each as seven texts behind their lengths in 4 bytes: the graph, the callee ("master", "0", "1"), the method, the
request, the status code, the response, and "" or the text of an error. Each callee is reached through a proxy here.
"""
import pathlib
import struct
import subprocess
import sys
import threading
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "e2e"))


def serve(fronts, out):
    """The proxies, until stdin ends: a line names the graph whose calls come next. `fronts`: "PORT=ADDRESS" of task 0 and 1."""
    from concurrent import futures
    import grpc

    lock, calls, graph = threading.Lock(), [], [""]
    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

    class Forward(grpc.GenericRpcHandler):
        def __init__(self, task, address):
            self.task, self.channel = task, grpc.insecure_channel(address, options=limits)

        def service(self, details):
            def call(request, context):
                callee = "master" if "MasterService" in details.method else str(self.task)
                entry = [graph[0], callee, details.method, request, b"", b"", ""]
                with lock:
                    calls.append(entry)
                future = self.channel.unary_unary(details.method).future(request, wait_for_ready=True)
                context.add_callback(future.cancel)
                try:
                    response = future.result()
                except (grpc.RpcError, grpc.FutureCancelledError):
                    entry[4], entry[6] = future.code(), future.details() or ""
                    context.abort(future.code(), future.details() or "")
                entry[4], entry[5] = grpc.StatusCode.OK, response
                return response

            return grpc.unary_unary_rpc_method_handler(call)

    servers = []
    for task, front in enumerate(fronts):
        port, address = front.split("=")
        server = grpc.server(futures.ThreadPoolExecutor(64), handlers=(Forward(task, address),), options=limits)
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        servers.append(server)
    print("serves", flush=True)
    for line in sys.stdin:
        graph[0] = line.strip()
        print("ok", flush=True)
    with lock:
        unpacked = b""
        for entry in calls:
            if entry[4] == b"":
                continue  # of the graph's end
            entry[4] = str(entry[4].value[0])
            for text in entry:
                text = text.encode() if isinstance(text, str) else text
                unpacked += struct.pack("<I", len(text)) + text
    pathlib.Path(out).write_bytes(struct.pack("<Q", len(unpacked)) + zlib.compress(unpacked, 9))
    for server in servers:
        server.stop(0)


def main():
    if sys.argv[1] == "proxies":
        return serve(sys.argv[2:4], sys.argv[4])
    what, out = sys.argv[1:3]
    import tensorflow_cluster as programs

    sockets = programs.reserve_ports(4)
    ports = [reserved.getsockname()[1] for reserved in sockets]
    real = [f"127.0.0.1:{port}" for port in ports[:2]]
    fronts = [f"127.0.0.1:{port}" for port in ports[2:]]
    proxies = subprocess.Popen([sys.executable, __file__, "proxies", f"{ports[2]}={real[0]}", f"{ports[3]}={real[1]}", out],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    proxies.stdout.readline()
    spec0, spec1 = [real[0], fronts[1]], [fronts[0], real[1]]
    first = programs.theirs(spec0, 0) if what == "tensorflow" else programs.ours(sys.argv[3], spec0, 0)
    servers = [first, programs.theirs(spec1, 1)]
    refused = programs.REFUSED["master"] if what == "rivulet" else {}
    try:
        for function in programs.GRAPHS:
            name = function.__name__
            if name in refused:
                continue
            print(name, file=proxies.stdin, flush=True)
            proxies.stdout.readline()
            found, said = programs.outcome(function, f"grpc://{fronts[0]}", None)
            if found != "equal":
                sys.exit(f"{name}: {said}")
        proxies.stdin.close()
        proxies.wait(timeout=60)
    finally:
        for process in [*servers, proxies]:
            process.kill()
    print(f"{pathlib.Path(out).stat().st_size} bytes")


if __name__ == "__main__":
    main()
