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

// Threads over which the steps of runs are spread.
struct InterOpPool {
  int threads = 0;          // 0: as many as the machine has cores
  std::string global_name;  // pools of one name are one for the whole process; "": the session's own
};

// What stands behind "/device:GPU:n" (DevicePlacerOptions::gpus says how many): opened when the session is made. What a
// program there is fed, and its variables, lie in the host's memory and are brought there for each run.
struct SessionGpus {
  const RivuletGpuApi* backend = nullptr;  // null: that of librivulet_cuda.so (CudaBackend)
  std::vector<int> visible;  // visible_device_list: the back end's numbers of GPU:0, GPU:1, …; empty: its own
  GpuOptions options;
};

struct SessionConfig {
  uint64_t seed = 0;  // of random ops; the same seed and the same Runs give the same bits
  KernelPolicy kernels;
  PassOptions passes;
  // Variables, queues and iterators are found here by container and name; sessions that are given the same share them.
  // Null: the session has its own.
  std::shared_ptr<ResourceManager> shared_state;
  // Of the session's arenas, and of its variables where the state is its own; 0: no limit.
  size_t memory_limit_bytes = 0;
  // A run that is one program runs on the calling thread, unless a number of threads is given here or pools below: then
  // on one of those. Runs of several parts always use them. 0: as many as the machine has cores. Negative: everything
  // on the calling thread.
  int inter_op_threads = 0;
  bool per_session_threads = false;                // else sessions of the same number share their threads
  std::vector<InterOpPool> inter_op_pools;         // RunOptions::inter_op_pool chooses; empty: one, of inter_op_threads
  std::chrono::milliseconds operation_timeout{0};  // of runs that state none; 0: none
  size_t max_programs = 256;                       // compiled ones that are kept
  bool static_graph = false;                       // Extend is refused
  bool single_threaded = false;                    // every step of every run on the calling thread, in order
  // What RunMetadata is given without being asked for by a run: the cost_graph of every build_cost_model-th run after
  // the first build_cost_model_after, step_stats of every timeline_step-th run. 0: never.
  int64_t build_cost_model = 0, build_cost_model_after = 0;
  int timeline_step = 0;
  bool allow_partition_graphs = true;  // else a run that asks for them is refused
  bool infer_shapes = false;           // nodes of partition graphs carry the attribute _output_shapes
  std::string metadata_name;           // come back in RunMetadata
  int64_t metadata_version = 0;
  // Devices. With neither, those that nodes name are not looked at.
  std::shared_ptr<Placer> placer;
  std::optional<DevicePlacerOptions> placement;  // of a placer that the session makes for itself
  SessionGpus gpus;
  // Where the graph runs: "" is this process; "grpc://HOST:PORT" is a task of a cluster (dataflow/cluster), whose
  // devices the nodes name. Of the options above it then heeds seed, placement, operation_timeout and static_graph.
  std::string target;
  std::shared_ptr<const TransportCredentials> target_credentials;  // null: plaintext, on this machine alone
  bool isolate_session_state = false;  // of a target: variables and queues are this session's alone
};

struct RunOptions {
  CancellationToken cancel;
  std::chrono::milliseconds timeout{0};  // 0: the session's operation_timeout; the run is cancelled after it
  // Iterations that the loops of one program may make in all; negative: as many as they like, until the time is up.
  int64_t max_loop_steps = -1;
  int inter_op_pool = 0;  // which of SessionConfig::inter_op_pools; -1: the calling thread
  // The process's pool for runs of different priorities: a step of a higher one comes before those that wait.
  bool use_run_handler_pool = false;
  int64_t priority = 0;
  // Errors about memory say what it consists of: by op, what lives at the peak, what variables hold.
  bool report_allocations = false;
  // What RunMetadata is given: step_stats, and the graph of every program of the run after all passes.
  bool trace = false;
  bool output_partition_graphs = false;
  // Of a step over several tasks: where its sends and receives meet, and its number, by which random ops draw. Null and
  // none: the run's own.
  std::shared_ptr<Rendezvous> rendezvous;
  std::optional<uint64_t> step;
  RunObserver* observer = nullptr;       // watches every program of the run; must outlive it
  bool observer_is_thread_safe = false;  // else programs that it watches run one after the other
};

class PartialRun;

// Thread-safe. Runs that only read a variable go on at once; one that changes it waits for those and they for it. A
// calling thread becomes a worker thread (EnterWorkerThread).
class Session {
 public:
  // INVALID_ARGUMENT: a variable of unknown shape or of a type without values, two of one name that differ, an option
  // that makes no sense. RESOURCE_EXHAUSTED: no memory for the variables. UNAVAILABLE, FAILED_PRECONDITION: GPUs were
  // asked for that are not there, and why.
  static StatusOr<std::unique_ptr<Session>> Create(Graph graph, const SessionConfig& config = {});
  // Cancels what runs. No Run may be under way.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  using Feeds = std::vector<std::pair<std::string, Tensor>>;
  // Runs what `fetches` (tensor names) and `targets` (node names) need, and returns the fetches. The first Run with
  // given names and feed shapes compiles a program; later ones look it up. NOT_FOUND: a name the graph lacks (names the
  // nearest), a placeholder that is needed and not fed. INVALID_ARGUMENT: a feed of another type or shape, nothing to
  // run. FAILED_PRECONDITION: a variable is read before it has a value; the session is closed. CANCELLED;
  // DEADLINE_EXCEEDED: the time was up. RESOURCE_EXHAUSTED: memory is short. Others as CompileProgram and
  // Instance::Run, and those of asynchronous ops.
  StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                    const std::vector<std::string>& targets = {}, const CancellationToken& cancel = {});
  // `metadata` (optional) is cleared, and receives what the options ask for; also of a run that fails.
  StatusOr<std::vector<Tensor>> RunWith(const RunOptions& options, const Feeds& feeds,
                                        const std::vector<std::string>& fetches,
                                        const std::vector<std::string>& targets = {},
                                        proto::RunMetadata* metadata = nullptr);

  // The same without a thread that waits: `done` is called once, on a thread of the run's pool, after `metadata` were
  // filled (null: nobody wants any). Options that choose the calling thread are refused. The run keeps what it needs:
  // the session may go before it.
  using Done = std::function<void(StatusOr<std::vector<Tensor>>)>;
  void RunAsync(const RunOptions& options, Feeds feeds, const std::vector<std::string>& fetches,
                const std::vector<std::string>& targets, Done done,
                std::shared_ptr<proto::RunMetadata> metadata = nullptr);

  // A run in pieces: what is fed, fetched and run is named now, and given and taken in several steps; each node runs
  // once, as soon as it can. Errors as Run.
  StatusOr<std::unique_ptr<PartialRun>> SetUpPartialRun(const std::vector<std::string>& feeds,
                                                        const std::vector<std::string>& fetches,
                                                        const std::vector<std::string>& targets = {},
                                                        const RunOptions& options = {});

  // Adds all nodes of `more`, names as they are, and its functions. Runs that are under way do not notice; variables
  // keep their values. ALREADY_EXISTS: a name is taken; nothing was added then. FAILED_PRECONDITION: the session is
  // closed, or its graph was said to be static.
  Status Extend(const Graph& more);
  // The same from GraphDef bytes, whose nodes may take inputs from nodes that the session has. Errors of ParseGraph.
  Status ExtendDef(std::string_view graph_def);

  // Ends every run that is under way with CANCELLED, blocked ones too, and refuses later ones.
  void Close();
  // Forgets variables and other resources of these containers (all, when none is named): variables have no value then,
  // for every session that shares them, and queues are closed.
  void Reset(std::span<const std::string> containers = {});

  const Graph& graph() const;                  // as it is now; valid as long as the session
  std::vector<std::string> variables() const;  // in order of creation
  // A copy of the variable's value. NOT_FOUND (nearest); FAILED_PRECONDITION: it has none yet. UNIMPLEMENTED, here and
  // below: the session has a target, which holds its variables.
  StatusOr<Tensor> GetVariable(std::string_view name) const;
  // NOT_FOUND (nearest); INVALID_ARGUMENT: another type or shape.
  Status SetVariable(std::string_view name, const Tensor& value);

  const std::shared_ptr<ResourceManager>& resources() const;
  size_t programs() const;  // compiled ones that are held now

 private:
  friend class PartialRun;
  Session();
  struct State;
  std::shared_ptr<State> state_;
};

// Made by Session::SetUpPartialRun; may outlive the session, whose Close ends it. Not thread-safe.
class PartialRun {
 public:
  // Cancels what is left.
  ~PartialRun();
  PartialRun(const PartialRun&) = delete;
  PartialRun& operator=(const PartialRun&) = delete;

  // Feeds some of the tensors that were named, waits for some of the fetches and returns them. When everything was fed
  // and fetched, it also waits for the targets. INVALID_ARGUMENT: a name that was not given at the set-up, a second
  // feed or fetch of one tensor, a fetch that needs a feed that has not come; the run goes on then. Errors as
  // Session::Run, which end the run.
  StatusOr<std::vector<Tensor>> Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches);
  bool done() const;  // everything was fed and fetched, or the run has failed

 private:
  friend class Session;
  PartialRun();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rivulet
