"""Our tasks against TensorFlow's: run by a Python that has TensorFlow, by distributed_graph_test.py.

    tensorflow_cluster.py RIVULET sessions    TensorFlow's session drives our master over the graphs below (T1)
    tensorflow_cluster.py RIVULET worker      our worker is task 1 under TensorFlow's master (T2)
    tensorflow_cluster.py RIVULET master      our master drives TensorFlow's worker as task 1 (T3)
    tensorflow_cluster.py RIVULET tests       TensorFlow's own tests of servers, with parameter servers, workers or both ours

Prints a line per graph, and counts. Exits with 1 when a graph differs from TensorFlow alone (integers to the bit, floats
to 1e-6), or when the refused ones are others than REFUSED lists.
"""
import os
import socket
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_eager_execution()
GRAPHS = []


def graph(function):
    GRAPHS.append(function)
    return function


def on(task):
    """Where a part of a graph is to run; alone, everything runs in one process."""
    return tf.device(f"/job:worker/task:{task}") if CLUSTER else tf.device(None)


CLUSTER = False
# What is refused, and the sentence's part that says why. Of TensorFlow's master our worker refuses conditions and loops,
# which are lowered to version-1 control flow before the graph is cut. A graph here that runs, or fails otherwise, is a
# failure of this program.
REFUSED = {"worker": {"while_loop": "does not follow from the feeds",
                      "cond": "which no Switch of one predicate separates",
                      "cond_of_version_2": "which no Switch of one predicate separates"},
           "sessions": {}, "master": {}}


@graph
def matmul(s):
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with on(1):
        y = tf.matmul(x, tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4)))
    with on(0):
        z = tf.nn.relu(y - 20.0)
    feed = {x: np.arange(6, dtype=np.float32).reshape(2, 3)}
    return s().run([y, z], feed)


@graph
def reference_variable(s):
    with on(1):
        v = tf.Variable(np.float32([1, 2]), use_resource=False)
    add = tf.assign_add(v, [3.0, 4.0])
    session = s()
    session.run(tf.global_variables_initializer())
    return [session.run(add), session.run(v), session.run(v * 2.0)]


@graph
def resource_variable(s):
    with on(1):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=True)
    add = v.assign_add([3.0, 4.0])
    session = s()
    session.run(v.initializer)
    session.run(add.op)
    return [session.run(v), session.run(tf.is_variable_initialized(v))]


@graph
def uninitialised_variables_are_reported(s):
    with on(1):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=True)
    with on(0):
        w = tf.get_variable("w", initializer=np.float32([1, 2]), use_resource=True)
    session = s()
    session.run(v.initializer)
    return [session.run([tf.is_variable_initialized(v), tf.is_variable_initialized(w)])]


def optimiser(name, make):
    def train(s):
        x = tf.placeholder(tf.float32, [None, 3])
        with on(1):
            w = tf.get_variable("w", initializer=np.float32([[0.1], [0.2], [0.3]]), use_resource=True)
        with on(0):
            b = tf.get_variable("b", initializer=np.float32([0.5]), use_resource=True)
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - 1.0))
        step = make().minimize(loss)
        session = s()
        session.run(tf.global_variables_initializer())
        feed = {x: np.float32([[1, 2, 3], [-1, 0.5, 2]])}
        return [session.run([loss, step], feed)[0] for _ in range(4)] + session.run([w, b])

    train.__name__ = name
    GRAPHS.append(train)


optimiser("gradient_descent", lambda: tf.train.GradientDescentOptimizer(0.05))
optimiser("momentum", lambda: tf.train.MomentumOptimizer(0.05, 0.9))
optimiser("nesterov", lambda: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True))
optimiser("adam", lambda: tf.train.AdamOptimizer(0.05))
optimiser("adagrad", lambda: tf.train.AdagradOptimizer(0.05))
optimiser("rmsprop", lambda: tf.train.RMSPropOptimizer(0.05))


@graph
def reference_training(s):
    x = tf.placeholder(tf.float32, [None, 2])
    with on(1):
        w = tf.Variable(np.float32([[0.1], [0.2]]), use_resource=False)
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w) - 1.0))
    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    session = s()
    session.run(tf.global_variables_initializer())
    return [session.run([loss, step], {x: np.float32([[1, 2]])})[0] for _ in range(3)] + [session.run(w)]


@graph
def queue(s):
    with on(1):
        q = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    x = tf.placeholder(tf.float32)
    push, pop, size = q.enqueue(x), q.dequeue(), q.size()
    session = s()
    for value in (1.0, 2.0, 3.0):
        session.run(push, {x: value})
    return [session.run(size), session.run(pop), session.run(pop), session.run(size)]


@graph
def queue_of_many(s):
    with on(1):
        q = tf.FIFOQueue(10, [tf.int32, tf.float32], shapes=[[], [2]])
    push = q.enqueue_many([[1, 2, 3], np.float32([[1, 2], [3, 4], [5, 6]])])
    pop = q.dequeue_many(2)
    session = s()
    session.run(push)
    return session.run(pop)


@graph
def closed_queue_is_an_error(s):
    with on(1):
        q = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    session = s()
    session.run(q.close())
    try:
        session.run(q.dequeue())
    except tf.errors.OpError as error:
        return [np.int32(error.error_code)]
    return [np.int32(0)]


@graph
def while_loop(s):
    n = tf.placeholder(tf.int32, [])
    with on(1):
        i, total = tf.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + tf.cast(i, tf.float32)), [0, 0.0])
    session = s()
    return session.run([i, total], {n: 5}) + session.run([i, total], {n: 0})


@graph
def cond(s):
    p = tf.placeholder(tf.bool, [])
    with on(1):
        y = tf.cond(p, lambda: tf.constant(1.0) * 3.0, lambda: tf.constant(2.0) * 5.0)
    session = s()
    return [session.run(y, {p: True}), session.run(y, {p: False})]


@graph
def cond_of_version_2(s):
    tf.enable_control_flow_v2()
    try:
        p = tf.placeholder(tf.bool, [])
        with on(1):
            y = tf.cond(p, lambda: tf.constant(1.0) * 3.0, lambda: tf.constant(2.0) * 5.0)
        session = s()
        return [session.run(y, {p: True}), session.run(y, {p: False})]
    finally:
        tf.disable_control_flow_v2()


@graph
def while_loop_of_version_2(s):
    tf.enable_control_flow_v2()
    try:
        with on(1):
            i, total = tf.while_loop(lambda i, t: i < 6, lambda i, t: (i + 1, t * 2.0), [0, 1.0])
        return s().run([i, total])
    finally:
        tf.disable_control_flow_v2()


@graph
def partial_run(s):
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with on(1):
        half = a * 2.0
    whole = half + b
    session = s()
    handle = session.partial_run_setup([half, whole], [a, b])
    return [session.partial_run(handle, half, {a: 3.0}), session.partial_run(handle, whole, {b: 4.0})]


@graph
def extend_in_the_middle(s):
    with on(1):
        a = tf.constant(np.float32([1, 2]))
    session = s()
    first = session.run(a)
    with on(0):
        b = a * 3.0
    second = session.run(b)
    with on(1):
        c = b + a
    return [first, second, session.run(c)]


@graph
def control_dependencies(s):
    with on(1):
        v = tf.get_variable("v", initializer=np.int64(1), use_resource=True)
        add = v.assign_add(10)
    with on(0), tf.control_dependencies([add.op]):
        after = tf.identity(tf.constant(7))
    session = s()
    session.run(v.initializer)
    return [session.run(after), session.run(v)]


@graph
def types(s):
    values = []
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.bool_):
        with on(1):
            c = tf.constant(np.array([0, 1, 1], dtype=dtype))
        with on(0):
            values.append(tf.identity(tf.reverse(c, [0])))
    return s().run(values)


@graph
def strings(s):
    x = tf.placeholder(tf.string, [None])
    with on(1):
        y = tf.identity(x)
    with on(0):
        z = tf.strings.join([y, tf.constant(["a", "b"])])
    return s().run([y, z], {x: [b"one", b"\x00two\xff"]})


@graph
def convolution(s):
    x = tf.placeholder(tf.float32, [None, 5, 5, 2])
    with on(1):
        y = tf.nn.conv2d(x, tf.constant(np.linspace(-1, 1, 36, dtype=np.float32).reshape(3, 3, 2, 2)), 1, "SAME")
    with on(0):
        z = tf.nn.max_pool(y, 2, 2, "VALID")
    return s().run(z, {x: np.linspace(-2, 2, 100, dtype=np.float32).reshape(2, 5, 5, 2)})


@graph
def softmax_loss(s):
    x = tf.placeholder(tf.float32, [None, 4])
    labels = tf.placeholder(tf.int64, [None])
    with on(1):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=x, labels=labels)
    with on(0):
        gradient = tf.gradients(tf.reduce_mean(losses), x)[0]
    return s().run([losses, gradient], {x: np.float32([[1, 2, 3, 4], [0, 0, 1, -1]]), labels: [3, 0]})


@graph
def gather_and_scatter(s):
    with on(1):
        v = tf.get_variable("v", initializer=np.arange(8, dtype=np.float32).reshape(4, 2), use_resource=True)
    rows = tf.nn.embedding_lookup(v, [0, 2])
    gradient = tf.gradients(tf.reduce_sum(rows * rows), v)[0]
    step = tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, v)])
    session = s()
    session.run(v.initializer)
    before = session.run(rows)
    session.run(step)
    return [before, session.run(v)]


@graph
def shapes(s):
    x = tf.placeholder(tf.float32, [None, None])
    with on(1):
        y = tf.reshape(x, [-1])
    with on(0):
        z = tf.shape(x)[0] + tf.size(y)
    return s().run([y, z, tf.shape(y)], {x: np.ones([2, 3], np.float32)})


@graph
def reductions(s):
    x = tf.placeholder(tf.float32, [2, 3])
    with on(1):
        values = [tf.reduce_sum(x), tf.reduce_max(x, 1), tf.reduce_mean(x, 0), tf.argmax(x, 1), tf.reduce_prod(x)]
    return s().run(values, {x: np.float32([[1, 2, 3], [6, 5, 4]])})


@graph
def where_and_unique(s):
    x = tf.placeholder(tf.int32, [None])
    with on(1):
        places = tf.where(tf.greater(x, 2))
        unique, index = tf.unique(x)
    return s().run([places, unique, index], {x: [1, 3, 3, 2, 5, 1]})


@graph
def concat_split_stack(s):
    x = tf.placeholder(tf.float32, [2, 4])
    with on(1):
        a, b = tf.split(x, 2, axis=1)
    with on(0):
        y = tf.concat([b, a], axis=0)
        z = tf.stack([a, b])
    return s().run([y, z], {x: np.arange(8, dtype=np.float32).reshape(2, 4)})


@graph
def placeholder_with_default(s):
    x = tf.placeholder_with_default(np.float32([1, 2]), [2])
    with on(1):
        y = x * 2.0
    session = s()
    return [session.run(y), session.run(y, {x: [5.0, 6.0]})]


@graph
def feed_in_the_middle(s):
    x = tf.constant(np.float32([1, 2]))
    with on(1):
        y = x * 2.0
    with on(0):
        z = y + 1.0
    session = s()
    return [session.run(z), session.run([y, z], {y: [10.0, 20.0]})[1]]


@graph
def same_fetch_twice(s):
    with on(1):
        x = tf.constant(np.float32([1, 2])) + 1.0
    return s().run([x, x, x + 1.0])


def error_of(name, run):
    def failing(s):
        try:
            run(s)
        except tf.errors.OpError as error:
            return [np.int32(error.error_code)]
        return [np.int32(0)]

    failing.__name__ = name
    GRAPHS.append(failing)


def unfed(s):
    x = tf.placeholder(tf.float32, [2])
    with on(1):
        y = x + 1.0
    s().run(y)


def uninitialised(s):
    with on(1):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=True)
    s().run(v + 1.0)


def uninitialised_reference(s):
    with on(1):
        v = tf.Variable(np.float32([1, 2]), use_resource=False)
    s().run(v + 1.0)


def shapes_that_differ(s):
    x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
    with on(1):
        z = tf.matmul(x, y)
    s().run(z, {x: np.ones([2, 3], np.float32), y: np.ones([2, 3], np.float32)})


def gather_outside(s):
    i = tf.placeholder(tf.int32, [None])
    with on(1):
        z = tf.gather(tf.constant([1.0, 2.0]), i)
    s().run(z, {i: [7]})


def time_is_up(s):
    with on(1):
        q = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    s().run(q.dequeue(), options=tf.RunOptions(timeout_in_ms=100))


error_of("error_placeholder_not_fed", unfed)
error_of("error_uninitialised", uninitialised)
error_of("error_uninitialised_reference", uninitialised_reference)
error_of("error_shapes", shapes_that_differ)
error_of("error_gather_outside", gather_outside)
error_of("error_time_is_up", time_is_up)


@graph
def assertion(s):
    x = tf.placeholder(tf.int32, [])
    with on(1), tf.control_dependencies([tf.Assert(x > 0, [x])]):
        y = tf.identity(x)
    session = s()
    values = [session.run(y, {x: 3})]
    try:
        session.run(y, {x: -3})
    except tf.errors.OpError as error:
        values.append(np.int32(error.error_code))
    return values


@graph
def containers(s):
    with on(1), tf.container("here"):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=True)
    session = s()
    session.run(v.initializer)
    return [session.run(v), session.run(tf.is_variable_initialized(v))]


@graph
def make_callable(s):
    x = tf.placeholder(tf.float32, [2])
    with on(1):
        y = x * 3.0
    return [s().make_callable(y, [x])(np.float32([1, 2]))]


def reserve_ports(count):
    """Sockets whose ports nobody else is given as long as they are open; servers listen beside them."""
    sockets = [socket.socket() for _ in range(count)]
    for reserved in sockets:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
    return sockets


def run_graph(function, target):
    tf.reset_default_graph()
    with tf.Graph().as_default():
        opened = []

        def session():
            config = tf.ConfigProto(isolate_session_state=True) if target else tf.ConfigProto()
            opened.append(tf.Session(target, config=config))
            return opened[-1]

        try:
            values = function(session)
        finally:
            for each in opened:
                each.close()
    return [np.asarray(value) for value in (values if isinstance(values, (list, tuple)) else [values])]


def equal(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "f":
        return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-6, atol=1e-6)
    return bool((a == b).all())


def outcome(function, target, refusal):
    """"equal", "refused" or "differs", and what to print. `refusal`: a part of the expected sentence, or None."""
    global CLUSTER
    CLUSTER = False
    expected = run_graph(function, "")
    CLUSTER = True
    try:
        got = run_graph(function, target)
    except Exception as error:  # what a graph meets is this program's result
        said = " | ".join(str(getattr(error, "message", error)).splitlines())
        if refusal is not None and refusal in said:
            return "refused", said[:200]
        return "differs", f"{type(error).__name__}: {said[:300]}"
    if len(got) != len(expected) or not all(equal(a, b) for a, b in zip(got, expected)):
        return "differs", f"{got} and not {expected}"
    return ("equal", "") if refusal is None else ("differs", "equal, and listed as refused")


def compare(target, names, refused):
    counts = {"equal": 0, "refused": 0, "differs": 0}
    for function in GRAPHS:
        if names and function.__name__ not in names:
            continue
        what, said = outcome(function, target, refused.get(function.__name__))
        counts[what] += 1
        print(f"{function.__name__}: {what}{': ' if said else ''}{said}", flush=True)
    print(f"{sum(counts.values())} graphs: {counts['equal']} equal, {counts['refused']} refused, "
          f"{counts['differs']} differ", flush=True)
    return counts["differs"]


def ours(rivulet, addresses, task, job="worker", cluster=None):
    process = subprocess.Popen(
        [rivulet, "graph", "worker", "--cluster", cluster or "worker=" + ",".join(addresses), "--job", job, "--task", str(task),
         "--insecure"], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


THEIRS = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf
jobs = dict(part.split("=") for part in sys.argv[1].split(";"))
cluster = tf.train.ClusterSpec({job: tasks.split(",") for job, tasks in jobs.items()})
server = tf.train.Server(cluster, job_name=sys.argv[3], task_index=int(sys.argv[2]))
print("serves", flush=True)
server.join()
"""


def theirs(addresses, task, job="worker", cluster=None):
    process = subprocess.Popen([sys.executable, "-c", THEIRS, cluster or "worker=" + ",".join(addresses), str(task), job],
                               stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def raises(error, run):
    try:
        run()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


# What TensorFlow's own tests of servers do: localhost_cluster_performance_test.py (testCreateLocalCluster),
# server_lib_same_variables_clear_test.py and server_lib_multiple_containers_test.py (python/training).
def variables_of_two_servers(targets):
    """Two workers and two parameter servers: each worker's session sees what the other's has set."""
    with tf.Graph().as_default():
        sessions = [tf.Session(target) for target in targets]
        variables = []
        for session, values in zip(sessions, ((0.0, 1.0), (2.0, 3.0))):
            for task, value in enumerate(values):
                with tf.device(f"/job:ps/task:{task}"):
                    variables.append(tf.Variable(value, use_resource=False))
            session.run([variable.initializer for variable in variables[-2:]])
        for session in reversed(sessions):
            assert [variable.eval(session=session) for variable in variables] == [0.0, 1.0, 2.0, 3.0]
        for session in sessions:
            session.close()


def reset_clears_variables(targets):
    with tf.Graph().as_default():
        v0 = tf.Variable([[2, 1]], name="v0", use_resource=False)
        v1 = tf.Variable([[1], [2]], name="v1", use_resource=False)
        v2 = tf.matmul(v0, v1)
        first, second = tf.Session(targets[0]), tf.Session(targets[0])
        first.run(tf.global_variables_initializer())
        assert first.run(v2) == second.run(v2) == [[4]]
        tf.Session.reset(targets[0])
        raises(tf.errors.AbortedError, lambda: second.run(v2))
        again = tf.Session(targets[0])
        raises(tf.errors.FailedPreconditionError, lambda: again.run(v2))
        again.run(tf.global_variables_initializer())
        assert again.run(v2) == [[4]]
        again.close()


def reset_of_one_container(targets):
    with tf.Graph().as_default():
        with tf.container("first"):
            kept = tf.Variable(1.0, name="kept", use_resource=False)
        with tf.container("second"):
            lost = tf.Variable(2.0, name="lost", use_resource=False)
        session = tf.Session(targets[0])
        session.run(tf.global_variables_initializer())
        assert session.run([kept, lost]) == [1.0, 2.0]
        tf.Session.reset(targets[0], ["second"])
        raises(tf.errors.AbortedError, lambda: session.run(kept))
        session = tf.Session(targets[0])
        assert session.run(kept) == 1.0
        raises(tf.errors.FailedPreconditionError, lambda: session.run(lost))
        session.close()


def own_tests(rivulet):
    """TensorFlow's tests over two workers and two parameter servers, of which either kind, or both, are ours."""
    for our_jobs in (("ps", "worker"), ("worker",), ("ps",)):
        sockets = reserve_ports(4)
        addresses = [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets]
        cluster = f"ps={','.join(addresses[:2])};worker={','.join(addresses[2:])}"
        processes = []
        try:
            for job in ("ps", "worker"):
                for task in range(2):
                    start = (lambda *words, **more: ours(rivulet, *words, **more)) if job in our_jobs else theirs
                    processes.append(start(None, task, job=job, cluster=cluster))
            targets = [f"grpc://{address}" for address in addresses[2:]]
            for test in (variables_of_two_servers, reset_clears_variables, reset_of_one_container):
                test(targets)
                print(f"{test.__name__}, ours: {', '.join(our_jobs)}: passed", flush=True)
        finally:
            for process in processes:
                process.kill()
            for reserved in sockets:
                reserved.close()
    return 0


def main():
    rivulet, mode, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    if mode == "tests":
        return own_tests(rivulet)
    sockets = reserve_ports(2)
    addresses = [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in sockets]
    first = theirs if mode == "worker" else lambda a, t: ours(rivulet, a, t)
    second = theirs if mode == "master" else lambda a, t: ours(rivulet, a, t)
    processes = [first(addresses, 0), second(addresses, 1)]
    try:
        return 1 if compare(f"grpc://{addresses[0]}", names, REFUSED[mode]) else 0
    finally:
        for process in processes:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
