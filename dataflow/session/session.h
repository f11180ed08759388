// A session: runs parts of a graph, and owns its variables. For tests, examples, evaluation and serving; training in
// federated rounds binds programs to the model's memory instead (engine/program/program.h).
//
//   RIVULET_ASSIGN_OR_RETURN(auto session, Session::Create(std::move(graph)));
//   RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {"init"}).status());
//   RIVULET_ASSIGN_OR_RETURN(auto values, session->Run({{"image", batch}}, {"loss", "accuracy"}, {"train_step"}));
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dataflow/placement/device_placer.h"
#include "dataflow/placement/run_graph.h"
#include "dataflow/resources/resource_manager.h"
#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

class Rendezvous;            // dataflow/placement/rendezvous.h
class TransportCredentials;  // rpc/credentials.h

namespace proto {
class RunMetadata;  // proto/graph/run_metadata.pb.h
}  // namespace proto

// Threads that run the steps of runs.
struct InterOpPool {
  int threads = 0;          // 0: as many as the machine has cores
  std::string global_name;  // pools with one name are shared by the process; "": private to the session
};

// Physical devices of "/device:GPU:n" (their number is DevicePlacerOptions::gpus), opened when the session is created.
// Feeds and variables of programs on them are in host memory and are copied to the device for each run.
struct SessionGpus {
  const RivuletGpuApi* backend = nullptr;  // null: the one in librivulet_cuda.so (CudaBackend)
  std::vector<int> visible;  // visible_device_list: the back end's numbers for GPU:0, GPU:1, …; empty: its own
  GpuOptions options;
};

struct SessionConfig {
  uint64_t seed = 0;  // of random ops; the same seed and the same Runs give the same bits
  KernelPolicy kernels;
  PassOptions passes;
  // Owner of variables, queues and iterators by container and name; sessions with the same one share them. Null:
  // private to the session.
  std::shared_ptr<ResourceManager> shared_state;
  // Limit of the session's arenas, and of its variables if its state is private; 0: none.
  size_t memory_limit_bytes = 0;
  // A run of one program uses the calling thread, unless threads are configured here or in pools below: then one of
  // those. Runs of several parts always use them. 0: one thread per core. Negative: everything runs on the calling
  // thread.
  int inter_op_threads = 0;
  bool per_session_threads = false;                // false: sessions with the same number share their threads
  std::vector<InterOpPool> inter_op_pools;         // see RunOptions::inter_op_pool; empty: one pool
  std::chrono::milliseconds operation_timeout{0};  // for runs without a timeout; 0: none
  size_t max_programs = 256;                       // limit of cached compiled programs
  bool static_graph = false;                       // true: Extend is refused
  bool single_threaded = false;                    // every step of every run on the calling thread, in order
  // Contents of RunMetadata without a request by the run: the cost_graph of every build_cost_model-th run after the
  // first build_cost_model_after, step_stats of every timeline_step-th run. 0: never.
  int64_t build_cost_model = 0, build_cost_model_after = 0;
  int timeline_step = 0;
  bool allow_partition_graphs = true;  // false: runs that request them are refused
  bool infer_shapes = false;           // adds the attribute _output_shapes to nodes of partition graphs
  std::string metadata_name;           // copied to RunMetadata
  int64_t metadata_version = 0;
  // Devices. With neither option, the devices of nodes are ignored.
  std::shared_ptr<Placer> placer;
  std::optional<DevicePlacerOptions> placement;  // for a placer that the session creates itself
  SessionGpus gpus;
  // The graph's place: "" is this process; "grpc://HOST:PORT" is a task of a cluster (dataflow/cluster), to whose
  // devices nodes refer. With a target only seed, placement, operation_timeout and static_graph of the above apply.
  std::string target;
  std::shared_ptr<const TransportCredentials> target_credentials;  // null: plaintext, to this machine only
  bool isolate_session_state = false;  // for a target: variables and queues are private to this session
};

struct RunOptions {
  CancellationToken cancel;
  std::chrono::milliseconds timeout{0};  // 0: the session's operation_timeout; then the run is cancelled
  // Limit of all loop iterations in one program; negative: none, apart from the timeout.
  int64_t max_loop_steps = -1;
  int inter_op_pool = 0;  // index in SessionConfig::inter_op_pools; -1: the calling thread
  // Uses the process's pool for runs of different priorities: a step of higher priority precedes waiting ones.
  bool use_run_handler_pool = false;
  int64_t priority = 0;
  // Errors about memory contain a report: live memory at the peak by op, and memory of variables.
  bool report_allocations = false;
  // Requested contents of RunMetadata: step_stats, and the graph of every program of the run after all passes.
  bool trace = false;
  bool output_partition_graphs = false;
  // For a step over several tasks: the rendezvous of its sends and receives, and its number, by which random ops draw.
  // By default, the run's own.
  std::shared_ptr<Rendezvous> rendezvous;
  std::optional<uint64_t> step;
  RunObserver* observer = nullptr;       // observes every program of the run; must outlive it
  bool observer_is_thread_safe = false;  // false: observed programs run one after the other
};

class PartialRun;

// Thread-safe. Runs that only read a variable are concurrent; one that changes it excludes all others. A calling thread
// becomes a worker thread (EnterWorkerThread).
class Session {
 public:
  // INVALID_ARGUMENT: a variable of unknown shape or of a type without values, two with one name that differ, an
  // invalid option. RESOURCE_EXHAUSTED: no memory for the variables. UNAVAILABLE, FAILED_PRECONDITION: requested GPUs
  // are not available, with the reason.
  static StatusOr<std::unique_ptr<Session>> Create(Graph graph, const SessionConfig& config = {});
  // Cancels RunAsync and partial runs. No Run may be in progress.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  using Feeds = std::vector<std::pair<std::string, Tensor>>;
  // Runs the nodes that `fetches` (tensor names) and `targets` (node names) need, and returns the fetches. The first
  // Run with given names and feed shapes compiles a program; later ones look it up. NOT_FOUND: a name that the graph
  // lacks (names the nearest), a required placeholder without feed. INVALID_ARGUMENT: a feed of another type or shape,
  // nothing to run. FAILED_PRECONDITION: a variable is read before it has a value; the session is closed. CANCELLED;
  // DEADLINE_EXCEEDED: the timeout has passed. RESOURCE_EXHAUSTED: not enough memory. Others as CompileProgram and
  // Instance::Run, and those of asynchronous ops.
  StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                    const std::vector<std::string>& targets = {}, const CancellationToken& cancel = {});
  // `metadata` (optional) is cleared, and receives the requested contents, also if the run fails.
  StatusOr<std::vector<Tensor>> RunWith(const RunOptions& options, const Feeds& feeds,
                                        const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets = {},
                                        proto::RunMetadata* metadata = nullptr);

  // The same without a waiting thread: `done` is called once, on a thread of the run's pool, after `metadata` was
  // filled (null: none). Options for the calling thread are refused. The run owns what it needs: the session may be
  // destroyed before it ends.
  using Done = std::function<void(StatusOr<std::vector<Tensor>>)>;
  void RunAsync(const RunOptions& options, Feeds feeds, const std::vector<std::string>& fetches,
                const std::vector<std::string>& targets, Done done,
                std::shared_ptr<proto::RunMetadata> metadata = nullptr);

  // A run in several calls: all feeds, fetches and targets are named now, then fed and fetched in several steps; each
  // node runs once, as soon as it can. Errors as Run.
  StatusOr<std::unique_ptr<PartialRun>> SetUpPartialRun(const std::vector<std::string>& feeds,
                                                        const std::vector<std::string>& fetches,
                                                        const std::vector<std::string>& targets = {},
                                                        const RunOptions& options = {});

  // Adds all nodes of `more` with their names, and its functions. Runs in progress are unaffected; variables keep their
  // values. ALREADY_EXISTS: a name is taken; then nothing is added. FAILED_PRECONDITION: the session is closed, or its
  // graph is static.
  Status Extend(const Graph& more);
  // The same from GraphDef bytes, whose nodes may take inputs from existing nodes. Errors of ParseGraph.
  Status ExtendDef(std::string_view graph_def);

  // Ends all runs in progress with CANCELLED, including blocked ones, and refuses later ones.
  void Close();
  // Deletes variables and other resources of these containers (all, if none is named): variables then have no value,
  // for every session that shares them, and queues are closed.
  void Reset(std::span<const std::string> containers = {});

  const Graph& graph() const;                  // the current graph; valid as long as the session
  std::vector<std::string> variables() const;  // in order of creation
  // A copy of the variable's value. NOT_FOUND (names the nearest); FAILED_PRECONDITION: it has no value yet.
  // UNIMPLEMENTED, here and below: the session has a target, which owns its variables.
  StatusOr<Tensor> GetVariable(std::string_view name) const;
  // NOT_FOUND (nearest); INVALID_ARGUMENT: another type or shape.
  Status SetVariable(std::string_view name, const Tensor& value);

  const std::shared_ptr<ResourceManager>& resources() const;
  size_t programs() const;  // number of cached compiled programs

 private:
  friend class PartialRun;
  Session();
  struct State;
  std::shared_ptr<State> state_;
};

// Created by Session::SetUpPartialRun; may outlive the session, whose Close ends it. Not thread-safe.
class PartialRun {
 public:
  // Cancels the remaining steps.
  ~PartialRun();
  PartialRun(const PartialRun&) = delete;
  PartialRun& operator=(const PartialRun&) = delete;

  // Feeds some of the named tensors, waits for some of the fetches and returns them.
  // After the last feed and fetch, it also waits for the targets. INVALID_ARGUMENT: a
  // name that is not in the set-up, a second feed or fetch of one tensor, a fetch that
  // needs a missing feed; the run then continues. Errors as Session::Run end the run.
  StatusOr<std::vector<Tensor>> Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches);
  bool done() const;  // all tensors were fed and fetched, or the run has failed

 private:
  friend class Session;
  PartialRun();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rivulet
