#include "cli/run/dry_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "client/training/planned_memory.h"
#include "client/training/trainer.h"
#include "engine/base/available_cores.h"
#include "engine/base/quantities.h"
#include "engine/base/table.h"
#include "engine/program/program.h"
#include "federated/algorithms/algorithm.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "setup/blame_model.h"
#include "setup/run_members.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// The time of a task over these examples. A short one is repeated: the first compiles its programs.
StatusOr<double> TaskSeconds(const std::shared_ptr<PassPrograms>& programs, const Plan& plan, const Model& model,
                             const std::shared_ptr<const Dataset>& data, std::span<const uint32_t> share) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan.features()));
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(programs));
  std::vector<AlignedBuffer> zeros;
  std::vector<const AlignedBuffer*> broadcasts;
  for (size_t i = 0; i < plan.flat_names().broadcast.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(AlignedBuffer zero, AlignedBuffer::Create(plan.layout()->trained_bytes()));
    std::memset(zero.data(), 0, zero.size());
    zeros.push_back(std::move(zero));
  }
  for (const AlignedBuffer& zero : zeros) broadcasts.push_back(&zero);
  const DatasetExamples examples(data, share, decoder);
  Task task;
  for (const std::string& name : plan.flat_names().numbers) task.numbers[name] = 1;
  const LaneTask lane{&task, "of the dry run", &model, &examples, {}, broadcasts};
  double seconds = 0;
  for (int trial = 0; trial < 2; ++trial) {
    const auto begin = SteadyClock::now();
    RIVULET_ASSIGN_OR_RETURN(const std::vector<LocalResult> results, trainer->Train({&lane, 1}));
    RIVULET_RETURN_IF_ERROR(results[0].status);
    seconds = SecondsSince(begin);
    if (seconds > 1) break;
  }
  return seconds;
}

// The duration of a run.
struct Duration {
  double task = 0, evaluation = 0;  // of one of each
  int64_t evaluations = 0;
  double run = 0;
};

StatusOr<Duration> Estimate(RunSetup& setup, const std::shared_ptr<PassPrograms>& programs, const Shares& shares,
                            int64_t tasks, int at_once) {
  const Scenario& scenario = setup.scenario();
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, InitialModel(*plan, scenario.run.seed));
  // The time of the client with the most examples, scaled to the mean client's number of examples.
  int64_t largest = 0;
  for (int64_t client = 1; client < shares.size(); ++client) {
    if (shares.ExamplesOf(client).size() > shares.ExamplesOf(largest).size()) largest = client;
  }
  const std::span<const uint32_t> share = shares.ExamplesOf(largest);
  Duration duration;
  RIVULET_ASSIGN_OR_RETURN(const double longest, TaskSeconds(programs, *plan, *model, data, share));
  duration.task = longest * static_cast<double>(shares.examples()) / static_cast<double>(shares.size()) /
                  static_cast<double>(share.size());
  const int64_t every = scenario.evaluation.every;
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Evaluator> evaluator, setup.evaluator());
  if (every > 0 && evaluator != nullptr) {
    duration.evaluations = (scenario.run.rounds + every - 1) / every;
    const auto begin = SteadyClock::now();
    RIVULET_RETURN_IF_ERROR(evaluator->Evaluate(*model).status());
    // For each of the server's models.
    RIVULET_ASSIGN_OR_RETURN(const Composition composition, Compose(scenario, *plan->layout()));
    RIVULET_ASSIGN_OR_RETURN(const auto optimizer, ServerOptimizer::Create(composition.server_optimizer));
    duration.evaluation = SecondsSince(begin) * static_cast<double>(1 + optimizer->Models().size());
  }
  duration.run = duration.task * static_cast<double>(tasks) / at_once +
                 duration.evaluation * static_cast<double>(duration.evaluations);
  return duration;
}

}  // namespace

Status DryRun(const Scenario& given, int workers, bool json) {
  const int cores = AvailableCores();
  if (workers == 0) workers = cores;
  RunSetup setup(given);
  RIVULET_RETURN_IF_ERROR(setup.FitCohort());
  const Scenario& scenario = setup.scenario();
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Shares> shares, setup.shares());
  RIVULET_RETURN_IF_ERROR(RunMembers(scenario, *shares).status());
  const auto plan = setup.plan();
  if (!plan.ok()) return BlameModel(scenario, plan.status());
  int64_t fewest = shares->size() > 0 ? INT64_MAX : 0, most = 0;
  for (int64_t client = 0; client < shares->size(); ++client) {
    const int64_t examples = std::ssize(shares->ExamplesOf(client));
    fewest = std::min(fewest, examples);
    most = std::max(most, examples);
  }
  EnterWorkerThread();
  const auto programs = std::make_shared<PassPrograms>(*plan);
  RIVULET_ASSIGN_OR_RETURN(const PlannedMemory task, PlanMemory(*programs, TaskKind::kTrain, most));
  const ModelLayout& layout = *(*plan)->layout();
  const int64_t update_bytes = MostUpdateValues((*plan)->aggregation()) * static_cast<int64_t>(sizeof(float));
  // Sites beyond the number of cores have no sums. The base model is shared by all.
  const int64_t sums = SumBytes((*plan)->aggregation());
  const int64_t memory = task.model + workers * (task.vectors + task.program) + std::min(workers, cores) * sums;
  const int64_t tasks = scenario.run.rounds * scenario.server.clients_per_round;
  RIVULET_ASSIGN_OR_RETURN(const Duration duration,
                           Estimate(setup, programs, *shares, tasks, std::min(workers, cores)));
  if (json) {
    fmt::print("{}\n", JsonObject({{"name", scenario.run.name},
                                   {"algorithm", scenario.algorithm.name},
                                   {"rounds", scenario.run.rounds},
                                   {"clients", shares->size()},
                                   {"clients_per_round", scenario.server.clients_per_round},
                                   {"tasks", tasks},
                                   {"parameters", layout.parameters()},
                                   {"update_bytes", update_bytes},
                                   {"examples", shares->examples()},
                                   {"fewest_examples", fewest},
                                   {"most_examples", most},
                                   {"workers", int64_t{workers}},
                                   {"memory_bytes", memory},
                                   {"task_seconds", duration.task},
                                   {"evaluate_seconds", duration.evaluation},
                                   {"seconds", duration.run}}));
    return absl::OkStatus();
  }
  fmt::print("{:<10} {}: {} rounds of {} of {} clients, {} tasks in all, by {}\n", "run", scenario.run.name,
             scenario.run.rounds, scenario.server.clients_per_round, shares->size(), tasks, scenario.algorithm.name);
  fmt::print("{:<10} {} parameters; an update is {}\n", "model", layout.parameters(), BytesText(update_bytes));
  fmt::print("{:<10} {}, {} to {} a client\n", "examples", shares->examples(), fewest, most);
  fmt::print(
      "{:<10} {} for {} workers: {} for the model, {} for each worker and {} for its sums; decoded examples take {} MB "
      "more at most\n",
      "memory", BytesText(memory), workers, BytesText(task.model), BytesText(task.vectors + task.program),
      BytesText(sums), scenario.run.cache_megabytes);
  fmt::print("{:<10} about {}: {} tasks of {} by {} at once, {} evaluations of {}; by one of each, tried here\n",
             "time", SecondsText(duration.run), tasks, SecondsText(duration.task), std::min(workers, cores),
             duration.evaluations, SecondsText(duration.evaluation));
  return absl::OkStatus();
}

}  // namespace rivulet
