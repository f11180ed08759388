#include "cli/debug/target.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/graph/source.h"
#include "cli/run/options.h"
#include "client/agent/update_message_writer.h"
#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/base/nearest.h"
#include "engine/base/sha256.h"
#include "engine/compile/compile.h"
#include "engine/io/npy.h"
#include "engine/passes/pass.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/example_source.h"
#include "federated/random/streams.h"
#include "federated/updates/block_crcs.h"
#include "setup/model.h"
#include "setup/run_setup.h"
#include "simulations/shipped/shipped_scenarios.h"
#include "simulations/simulator.h"

namespace rivulet {
namespace {

void LeaveOutPasses(CompileOptions& options) {
  for (const Pass& pass : Passes())
    if (pass.optional) options.passes.without.emplace_back(pass.name);
}

Status Describe(DebugTarget& target) {
  RIVULET_ASSIGN_OR_RETURN(target.optimized, OptimizeGraph(target.graph, target.signature, target.options));
  return absl::OkStatus();
}

// A folder that is removed with its files.
class DebugFolder {
 public:
  DebugFolder() : path_("/tmp/rivulet-debug-XXXXXX") {
    if (const char* variable = std::getenv("TMPDIR"); variable != nullptr && *variable != '\0')
      path_ = JoinPath(variable, "rivulet-debug-XXXXXX");
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~DebugFolder() {
    if (made_) Remove(path_);
  }
  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  static void Remove(const std::string& folder) {
    FileSystem& fs = FileSystem::Default();
    if (const auto names = fs.List(folder); names.ok())
      for (const std::string& name : *names) {
        const std::string path = JoinPath(folder, name);
        if (!fs.Remove(path).ok()) Remove(path);  // a folder
      }
    rmdir(folder.c_str());
  }
  std::string path_;
  bool made_ = false;
};

// The model at the begin of `round`.
StatusOr<std::shared_ptr<const Model>> BaseModel(Scenario scenario, const Plan& plan, int64_t round) {
  if (round == 1) return InitialModel(plan, scenario.run.seed);
  DebugFolder folder;
  if (!folder.made()) return Internal("cannot create the temporary folder '{}'", folder.path());
  scenario.run.rounds = round - 1;
  scenario.evaluation.every = 0;
  SimulationOptions options;
  options.scenario = std::move(scenario);
  options.db_path = JoinPath(folder.path(), "runs.sqlite");
  RIVULET_ASSIGN_OR_RETURN(const auto simulation, Simulation::Create(std::move(options)));
  RIVULET_ASSIGN_OR_RETURN(const SimulationResult result, simulation->Run());
  return result.model;
}

// The identity of the update that would be uploaded, as in a run's history for the same training.
std::string DigestOf(const LocalResult& result) {
  const std::string message = WriteUpdate(result);
  BlockCrcs crcs;
  crcs.Append(std::as_bytes(std::span(message)));
  return crcs.Identity(0).Hex();
}

StatusOr<std::unique_ptr<DebugTarget>> FromScenario(const DebugTargetOptions& options) {
  if (options.training || !options.fetches.empty() || !options.feeds.empty() || options.steps)
    return UsageError("--training, --fetch, --feed and --steps are for a graph; leave them out for a scenario");
  ScenarioOptions run;
  run.scenario = options.what;
  run.sets = options.sets;
  if (options.batch) run.sets.push_back(fmt::format("client.batch_size={}", *options.batch));
  RIVULET_ASSIGN_OR_RETURN(Scenario loaded, LoadScenario(run));
  if (const Status graph = RequireGraph(loaded); !graph.ok()) return AsUsageError(graph);
  RunSetup setup(std::move(loaded));
  const Scenario& scenario = setup.scenario();
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  std::optional<int64_t> client = 0;
  if (!options.client.empty()) {
    client = shares->Find(options.client);
    if (!client) {
      std::vector<std::string> names;
      for (int64_t i = 0; i < shares->size(); ++i) names.push_back(shares->NameAt(i));
      return AsUsageError(
          NotFound("the scenario has no client '{}'.{}", options.client, DidYouMean(options.client, names)));
    }
  }
  RIVULET_ASSIGN_OR_RETURN(const auto model, setup.model());
  std::map<std::string, std::string, std::less<>> source_lines;
  for (const auto& node : model->graph.nodes()) source_lines.emplace(node->name(), node->source_line());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, setup.plan());
  const int64_t round = options.round.value_or(1);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> base, BaseModel(scenario, *plan, round));
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));

  auto target = std::make_unique<DebugTarget>();
  target->options = plan->compile_options();
  target->source_lines = std::move(source_lines);
  if (options.no_passes) LeaveOutPasses(target->options);
  const auto programs = std::make_shared<PassPrograms>(plan, target->options);
  const std::string name = shares->NameAt(*client);
  const std::span<const uint32_t> share = shares->ExamplesOf(*client);
  const auto size = static_cast<int64_t>(share.size());
  const LocalPass& pass = plan->training().passes[0];
  const int64_t batch = std::min(pass.batch_size, size);
  RIVULET_ASSIGN_OR_RETURN(PassPrograms::StepGraph step, programs->DescribeStep(TaskKind::kTrain, 0, batch));
  target->graph = std::move(step.graph);
  target->signature = std::move(step.signature);
  RIVULET_RETURN_IF_ERROR(Describe(*target));

  Task task;
  task.id = fmt::format("debug-r{}-a1-{}-0", round, name);
  task.client_id = name;
  task.base_version = round - 1;
  task.stream_key = ClientKey(scenario.run.seed, name);
  task.plan = plan->digest();
  target->title = fmt::format("{}, {}, round {}", scenario.run.name, name, round);
  target->facts = {{"scenario", options.what},
                   {"client", name},
                   {"round", round},
                   {"examples", size},
                   {"batch_size", batch},
                   {"epochs", pass.epochs},
                   {"seed", static_cast<int64_t>(scenario.run.seed)},
                   {"plan_digest", plan->digest().Hex()}};
  // A program with fetches is a step; before the first one "begin" runs, after the last "end".
  auto stepped = std::make_shared<bool>(false);
  target->phase_of = [stepped](const Program& program) -> std::string {
    if (!program.signature().fetches.empty()) {
      *stepped = true;
      return "step";
    }
    return *stepped ? "end" : "begin";
  };
  target->run = [programs, task, base, data, indices = std::vector<uint32_t>(share.begin(), share.end()), decoder,
                 stepped, name](RunObserver* observer) -> StatusOr<std::string> {
    *stepped = false;
    RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(programs));
    trainer->Observe(observer);
    const DatasetExamples examples(data, indices, decoder);
    const LaneTask lane{&task, name, base.get(), &examples};
    RIVULET_ASSIGN_OR_RETURN(const std::vector<LocalResult> results, trainer->Train({&lane, 1}));
    const LocalResult& result = results[0];
    RIVULET_RETURN_IF_ERROR(result.status);
    const std::string digest = DigestOf(result);
    return fmt::format("{} steps over {} examples, loss {:.6g}, update {}", *result.steps, *result.examples,
                       result.train_loss.value_or(0), digest);
  };
  return target;
}

// Small numbers that are easy to follow: 0, 1/7, 2/7 … for floats; 0 for integers, which may be labels or indices.
Tensor Example(const TensorSpec& spec) {
  Tensor tensor(spec.dtype, spec.shape);
  if (spec.dtype == DType::kFloat32)
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.flat<float>()[static_cast<size_t>(i)] = static_cast<float>(i % 7) / 7;
  return tensor;
}

struct GraphRun {
  std::shared_ptr<const Program> init, step;  // init: null if there is none
  std::vector<Tensor> feeds;
  size_t variable_bytes = 0;
  int64_t steps = 1;

  StatusOr<std::string> Run(RunObserver* observer) const {
    EnterWorkerThread();
    AlignedBuffer variables(std::max<size_t>(variable_bytes, 64));
    const Buffer buffer{variables.data(), DType::kFloat32, 0};
    const StreamKey rng;
    uint64_t step_index = 0;
    Bindings bindings;
    bindings.buffers = {&buffer, 1};
    bindings.rng = {&rng, 1};
    bindings.step = {&step_index, 1};
    bindings.observer = observer;
    const auto run = [&](const Program& program) -> Status {
      RIVULET_ASSIGN_OR_RETURN(const auto instance, program.Instantiate());
      AlignedBuffer arena(program.memory().arena_bytes);
      bindings.arena = arena.data();
      return instance->Run(bindings);
    };
    if (init != nullptr) RIVULET_RETURN_IF_ERROR(run(*init));
    std::vector<TensorView> feed_views, fetch_views;
    for (const Tensor& feed : feeds) feed_views.push_back(feed.view());
    std::vector<Tensor> results;
    for (const TensorSpec& spec : step->fetch_specs()) {
      results.emplace_back(spec.dtype, spec.shape);
      fetch_views.push_back(results.back().view());
    }
    bindings.feeds = feed_views;
    bindings.fetches = fetch_views;
    for (; step_index < static_cast<uint64_t>(steps); ++step_index) RIVULET_RETURN_IF_ERROR(run(*step));
    Sha256 hash;
    for (const Tensor& result : results) hash.Update(std::span(result.data(), result.bytes()));
    hash.Update(variables.bytes());
    return fmt::format("{} steps, results and variables {}", steps, std::move(hash).Finish().Hex());
  }
};

StatusOr<std::map<std::string, Tensor>> ReadFeeds(const std::vector<std::string>& feeds) {
  std::map<std::string, Tensor> tensors;
  for (const std::string& feed : feeds) {
    const size_t equals = feed.find('=');
    if (equals == std::string::npos || equals == 0) return UsageError("--feed takes NAME=FILE.npy, not '{}'", feed);
    RIVULET_ASSIGN_OR_RETURN(tensors[feed.substr(0, equals)], ReadNpy(FileSystem::Default(), feed.substr(equals + 1)));
  }
  return tensors;
}

StatusOr<std::unique_ptr<DebugTarget>> FromGraph(const DebugTargetOptions& options) {
  if (!options.client.empty() || options.round || !options.sets.empty())
    return UsageError("--client, --round and --set are of a scenario; '{}' is a graph", options.what);
  GraphSourceOptions source_options;
  source_options.what = options.what;
  source_options.batch = options.batch;
  source_options.training = options.training;
  source_options.loss = options.loss;
  source_options.fetches = options.fetches;
  RIVULET_ASSIGN_OR_RETURN(GraphSource source, LoadGraphSource(source_options));
  RIVULET_ASSIGN_OR_RETURN(auto given, ReadFeeds(options.feeds));

  auto target = std::make_unique<DebugTarget>();
  auto run = std::make_shared<GraphRun>();
  run->steps = options.steps.value_or(1);
  for (FeedSpec& feed : source.signature.feeds) {
    const auto found = given.find(feed.tensor);
    if (found == given.end()) {
      run->feeds.push_back(Example(feed.spec));
      continue;
    }
    const Tensor& tensor = found->second;
    const Output placeholder = source.graph.FindOutput(feed.tensor).value();
    if (tensor.dtype() != placeholder.dtype() || !Shape::Compatible(tensor.shape(), placeholder.shape()))
      return InvalidArgument("'{}' is {}{}, but is fed {}{}", feed.tensor, Name(placeholder.dtype()),
                             placeholder.shape().ToString(), Name(tensor.dtype()), tensor.shape().ToString());
    feed.spec.shape = tensor.shape();
    run->feeds.push_back(tensor);
    given.erase(found);
  }
  if (!given.empty()) {
    std::vector<std::string> names;
    for (const FeedSpec& feed : source.signature.feeds) names.push_back(feed.tensor);
    return AsUsageError(
        NotFound("the graph has no input '{}'.{}", given.begin()->first, DidYouMean(given.begin()->first, names)));
  }
  target->title = source.title;
  target->graph = std::move(source.graph);
  target->signature = std::move(source.signature);
  target->options.kernels = source.kernels;
  if (options.no_passes) LeaveOutPasses(target->options);
  for (const VariableBinding& variable : target->signature.variables)
    run->variable_bytes = std::max(run->variable_bytes, variable.offset + TensorBytes(variable.spec));
  if (!source.init.empty()) {
    Signature init;
    init.targets = {source.init};
    init.variables = target->signature.variables;
    RIVULET_ASSIGN_OR_RETURN(run->init, CompileProgram(target->graph, init, target->options));
  }
  RIVULET_ASSIGN_OR_RETURN(run->step,
                           CompileProgram(target->graph, target->signature, target->options, &target->optimized));
  target->facts = {{"graph", options.what}, {"steps", run->steps}};
  target->phase_of = [run](const Program& program) { return &program == run->init.get() ? "init" : "step"; };
  target->run = [run](RunObserver* observer) { return run->Run(observer); };
  return target;
}

}  // namespace

StatusOr<std::unique_ptr<DebugTarget>> LoadDebugTarget(const DebugTargetOptions& options) {
  EnterWorkerThread();
  return IsScenario(options.what) ? FromScenario(options) : FromGraph(options);
}

}  // namespace rivulet
