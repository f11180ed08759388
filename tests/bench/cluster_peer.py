"""Of cluster.py, under a Python that has TensorFlow 2.21.

  cluster_peer.py serve CLUSTER JOB TASK   a task of TensorFlow's
  cluster_peer.py drive TARGET WORKER      a session at TARGET, as worker WORKER; each line of standard input asks for a measurement, which
                                           is answered by a line of JSON: "nothing N", "move BYTES N", "train N"
Sessions are TensorFlow's in either case: only the tasks differ."""
import json
import os
import statistics
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

BATCH = 32


def cluster_of(text):
    return tf.train.ClusterSpec({job: tasks.split(",") for job, tasks in (part.split("=") for part in text.split(";"))})


def serve(cluster, job, task):
    server = tf.train.Server(cluster_of(cluster), job_name=job, task_index=int(task))
    print("serves", flush=True)
    server.join()


def timed(run, count):
    for _ in range(max(2, count // 10)):
        run()
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


class Driver:
    def __init__(self, target, worker):
        self.target, self.worker, self.moves, self.trainer = target, worker, {}, None

    def session(self, graph):
        config = tf.ConfigProto(isolate_session_state=False)
        config.device_filters.extend(["/job:ps", f"/job:worker/task:{self.worker}"])
        return tf.Session(self.target, graph=graph, config=config)

    def nothing(self, count):
        graph = tf.Graph()
        with graph.as_default():
            nodes = []
            for device in (f"/job:worker/task:{self.worker}", "/job:ps/task:0"):
                with tf.device(device):
                    nodes.append(tf.no_op())
        with self.session(graph) as session:
            return {"us": timed(session.make_callable(nodes), count)}

    def move(self, size, count):
        """A tensor of `size` bytes of a variable at the other task, of which this one takes the last value."""
        graph = tf.Graph()
        with graph.as_default():
            with tf.device("/job:ps/task:0"):
                variable = tf.get_variable(f"moved_{size}", [size // 4], initializer=tf.ones_initializer(), use_resource=True)
                value = variable.read_value()
            with tf.device(f"/job:worker/task:{self.worker}"):
                last = value[-1]
        with self.session(graph) as session:
            session.run(variable.initializer)
            take = session.make_callable(last)
            assert take() == 1.0
            return {"us": timed(take, count)}

    def train(self, steps):
        """Steps of mnist_cnn's training with the variables on the parameter server."""
        if self.trainer is None:
            graph = tf.Graph()
            with graph.as_default():
                with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=f"/job:worker/task:{self.worker}")):
                    x, y = tf.placeholder(tf.float32, [None, 28, 28, 1]), tf.placeholder(tf.int64, [None])

                    def variable(name, shape):
                        scale = 0.0 if len(shape) == 1 else (2.0 / np.prod(shape[:-1])) ** 0.5
                        return tf.get_variable(name, shape, initializer=tf.random_normal_initializer(stddev=scale, seed=1), use_resource=True)

                    h = x
                    for i, (taken, made) in enumerate(((1, 32), (32, 64))):
                        h = tf.nn.conv2d(h, variable(f"conv{i}", [5, 5, taken, made]), 1, "SAME")
                        h = tf.nn.max_pool(tf.nn.relu(tf.nn.bias_add(h, variable(f"conv_bias{i}", [made]))), 2, 2, "SAME")
                    h = tf.reshape(h, [-1, 3136])
                    h = tf.nn.relu(tf.matmul(h, variable("dense", [3136, 512])) + variable("dense_bias", [512]))
                    logits = tf.matmul(h, variable("logits", [512, 10])) + variable("logits_bias", [10])
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
                    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
            session = self.session(graph)
            if self.worker == 0:
                with graph.as_default():
                    session.run(tf.global_variables_initializer())
            random = np.random.default_rng(self.worker)
            labels = random.integers(0, 10, BATCH)
            images = random.random([BATCH, 28, 28, 1], np.float32) * 0.5
            images[np.arange(BATCH), labels * 2, :, 0] += 1.0  # each class has a row of its own
            self.trainer = session.make_callable([loss, step], [x, y]), images, labels
        run, images, labels = self.trainer
        losses = []
        begun = time.perf_counter()
        for _ in range(steps):
            losses.append(float(run(images, labels)[0]))
        return {"seconds": time.perf_counter() - begun, "first": losses[0], "last": losses[-1]}


def drive(target, worker):
    driver = Driver(target, int(worker))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        print(json.dumps(getattr(driver, what)(*map(int, numbers))), flush=True)


if __name__ == "__main__":
    {"serve": serve, "drive": drive}[sys.argv[1]](*sys.argv[2:])
