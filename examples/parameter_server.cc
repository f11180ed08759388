// Trains a model whose variables are on parameter servers. Every task of the cluster is a process of this program:
//   parameter_server CLUSTER JOB TASK [STEPS] [CHECKPOINTS] [TO_AGGREGATE] [PAUSE_MS]
// CLUSTER is "ps=HOST:PORT;worker=HOST:PORT,HOST:PORT". Tasks of the job ps serve until they are killed. Each worker
// makes STEPS steps as it likes; or with TO_AGGREGATE all make STEPS together, each of so many gradients, and those
// that come later are dropped. Worker 0, the chief, restores the newest checkpoint before and saves one after. PAUSE_MS
// makes a worker slow.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "dataflow/cluster/task_server.h"
#include "dataflow/distributed/sync_replicas.h"
#include "dataflow/placement/parameter_servers.h"
#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/io/checkpoint.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/variables.h"

namespace {

using namespace rivulet;

constexpr int64_t kBatch = 64, kFeatures = 32, kClasses = 4;
const OptimizerSpec kSgd = {.kind = "sgd", .learning_rate = 0.1};
constexpr const char* kVariables[] = {"kernel", "global_step"};
const std::vector<std::string> kReads = {"kernel/Read", "global_step/Read"};

struct Model {
  Graph graph;
  std::string train;                 // an asynchronous step
  SyncReplicasNodes sync;            // or a synchronous one
  std::vector<std::string> initial;  // of each variable: the tensor that `init` gives it
};

// Variables are in turn on the parameter servers, the rest on this worker.
StatusOr<Model> Build(int servers, const std::string& worker, const SyncReplicas& replicas) {
  Model model;
  const Scope scope(model.graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, kFeatures});
  const Output label = scope.Placeholder("label", DType::kInt64, {kUnknownDim});
  const Output kernel = Variable(scope, "kernel", {kFeatures, kClasses}, Zeros());
  Variable(scope, "global_step", {}, Zeros(), {.dtype = DType::kInt64});
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {scope.Op("MatMul", {x, kernel}), label});
  const Output loss = scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  RIVULET_RETURN_IF_ERROR(scope.status());
  for (const char* name : kVariables)
    model.initial.push_back(model.graph.Find(std::string(name) + "/Assign")->input(1).name());
  const Output global_step = model.graph.Find("global_step")->output();
  const std::vector<Output> handles = {model.graph.Find("kernel")->output()};
  RIVULET_ASSIGN_OR_RETURN(const auto gradients, ComputeGradients(model.graph, loss, handles));
  RIVULET_ASSIGN_OR_RETURN(Node* const moved, ApplyGradients(scope, kSgd, handles, gradients));
  const Scope after = scope.WithControl({moved});
  const Output one = after.Const(Tensor::Scalar<int64_t>(1));
  model.train = after.AddNode("AssignAddVariableOp", {global_step, one}, {}, "train")->name();
  RIVULET_ASSIGN_OR_RETURN(model.sync, ApplyGradientsInSync(scope, kSgd, handles, gradients, global_step, replicas));
  RIVULET_ASSIGN_OR_RETURN(model.graph, OnParameterServers(model.graph, {.tasks = servers, .worker = worker}));
  return model;
}

// Points whose class is their largest coordinate of the first four; each worker draws its own.
Session::Feeds DrawBatch(uint64_t& state) {
  Tensor x(DType::kFloat32, Shape{kBatch, kFeatures}), label(DType::kInt64, Shape{kBatch});
  for (float& value : x.flat<float>())
    value = static_cast<float>((state = state * 6364136223846793005u + 1442695040888963407u) >> 40) / 0x1p23f - 1.0f;
  for (size_t row = 0; row < kBatch; ++row) {
    const auto first = x.flat<float>().begin() + static_cast<int64_t>(row) * kFeatures;
    label.flat<int64_t>()[row] = std::max_element(first, first + kClasses) - first;
  }
  return {{"x", std::move(x)}, {"label", std::move(label)}};
}

int64_t Number(const Tensor& tensor) { return tensor.flat<int64_t>()[0]; }

// The chief's part before the training: the newest checkpoint, or first values.
Status Initialise(Session& session, const Model& model, const CheckpointFolder& folder) {
  Session::Feeds restored;
  if (const auto newest = folder.Latest(); newest.ok())
    for (size_t i = 0; i < 2; ++i) restored.emplace_back(model.initial[i], newest->tensors[i].second);
  return session.Run(restored, {}, {kInitTarget}).status();
}

// The chief's steps, beside its work as a worker.
Status MakeSteps(Session& session, const SyncReplicasNodes& nodes, int steps) {
  RIVULET_RETURN_IF_ERROR(session.Run({}, {}, {nodes.start}).status());
  for (int i = 0; i < steps; ++i) RIVULET_RETURN_IF_ERROR(session.Run({}, {}, {nodes.update}).status());
  return session.Run({}, {}, {nodes.close}).status();
}

Status Train(Session& session, const Model& model, bool sync, int task, int steps, int pause_ms) {
  uint64_t seed = static_cast<uint64_t>(task + 1);
  const std::vector<std::string> fetches = {model.sync.tokens[task], model.sync.global_steps[task]};
  for (int i = 0; sync || i < steps; ++i) {
    Session::Feeds feeds = DrawBatch(seed);
    if (sync) {
      const auto taken = session.Run({}, fetches);
      if (absl::IsOutOfRange(taken.status())) break;  // the chief has made all steps
      RIVULET_RETURN_IF_ERROR(taken.status());
      if (Number((*taken)[0]) < Number((*taken)[1])) continue;  // a step that is over
      feeds.emplace_back(model.sync.local_step, (*taken)[0]);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    RIVULET_RETURN_IF_ERROR(session.Run(feeds, {}, {sync ? model.sync.apply : model.train}).status());
  }
  return absl::OkStatus();
}

Status Run(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  RIVULET_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::Parse(argv[1]));
  const TaskServerOptions options = {cluster, argv[2], number(3, 0), InsecureCredentials(false)};
  const int workers = static_cast<int>(std::ranges::count(cluster.tasks(), "worker", &ClusterTask::job));
  const int servers = static_cast<int>(cluster.tasks().size()) - workers;
  const int steps = number(4, 1000), to_aggregate = number(6, 0);
  RIVULET_ASSIGN_OR_RETURN(const auto server, TaskServer::Start(options));
  while (options.job == "ps") std::this_thread::sleep_for(std::chrono::hours(1));
  const std::string device = fmt::format("/job:worker/task:{}", options.task);
  RIVULET_ASSIGN_OR_RETURN(Model model, Build(servers, device, {std::max(1, to_aggregate), workers}));
  SessionConfig config;
  config.target = "grpc://" + server->task().address.ToString();
  config.placement.emplace().device_filters = {"/job:ps", device};  // no worker needs another
  RIVULET_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(model.graph), config));
  CheckpointFolder folder(FileSystem::Default(), argc > 5 ? argv[5] : "checkpoints");
  const bool chief = options.task == 0, sync = to_aggregate > 0;
  if (chief) RIVULET_RETURN_IF_ERROR(Initialise(*session, model, folder));
  while (absl::IsFailedPrecondition(session->Run({}, kReads).status()))  // until the chief has
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Status made, trained;
  std::thread maker([&] { made = chief && sync ? MakeSteps(*session, model.sync, steps) : absl::OkStatus(); });
  trained = Train(*session, model, sync, options.task, steps, number(7, 0));
  maker.join();
  RIVULET_RETURN_IF_ERROR(made.ok() ? trained : made);
  RIVULET_ASSIGN_OR_RETURN(const auto values, session->Run({}, kReads));
  const std::vector<NamedTensorView> views = {{kVariables[0], values[0].view()}, {kVariables[1], values[1].view()}};
  if (chief) RIVULET_RETURN_IF_ERROR(folder.Save(Number(values[1]), views));
  uint64_t seed = 0;  // points that no worker draws
  RIVULET_ASSIGN_OR_RETURN(const auto loss, session->Run(DrawBatch(seed), {"loss"}));
  std::printf("step %d  loss %.4f\n", static_cast<int>(Number(values[1])), loss[0].flat<float>()[0]);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = argc < 4 ? InvalidArgument("it takes CLUSTER JOB TASK; see its first lines") : Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "parameter_server: %s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}
