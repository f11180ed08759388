#include "setup/run_setup.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/available_cores.h"
#include "engine/base/vlog.h"
#include "engine/data/record_files.h"
#include "federated/algorithms/algorithm.h"
#include "federated/weights/base_store.h"
#include "setup/data.h"
#include "setup/evaluator.h"
#include "setup/feature_shift.h"
#include "setup/gpu_evaluator.h"
#include "setup/held_out.h"
#include "setup/model.h"
#include "setup/partition.h"

namespace rivulet {

namespace {

// All keys about data: with the seed they determine the assignment to clients.
std::string DataKeys(const Scenario& scenario) {
  const std::string all = scenario.ToToml();
  const size_t begin = all.find("[data]\n");
  return all.substr(begin, all.find("\n[client]\n", begin) - begin);
}

// The name and file pattern of every measured set, except held-out examples.
std::vector<std::pair<std::string, std::string>> MeasuredSets(const DataConfig& data) {
  std::vector<std::pair<std::string, std::string>> sets;
  if (!data.validation.empty()) sets.emplace_back("validation", data.validation);
  if (!data.test.empty()) sets.emplace_back("test", data.test);
  for (const std::string& line : data.tests) {
    const size_t equals = line.find('=');
    sets.emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return sets;
}

// Evaluates several sets, one after the other.
class SetsEvaluator : public Evaluator {
 public:
  explicit SetsEvaluator(std::vector<std::shared_ptr<Evaluator>> sets) : sets_(std::move(sets)) {}
  StatusOr<std::map<std::string, Measure>> Evaluate(const Model& model) override {
    std::map<std::string, Measure> all;
    for (const std::shared_ptr<Evaluator>& set : sets_) {
      RIVULET_ASSIGN_OR_RETURN(auto measures, set->Evaluate(model));
      all.merge(measures);
    }
    return all;
  }

 private:
  const std::vector<std::shared_ptr<Evaluator>> sets_;
};

}  // namespace

bool MeasuresAnything(const DataConfig& data) { return data.validation_fraction > 0 || !MeasuredSets(data).empty(); }

RunSetup::RunSetup(Scenario scenario, RunSetupOptions options)
    : scenario_(std::move(scenario)),
      options_(std::move(options)),
      row_budget_(options_.shared != nullptr ? options_.shared->row_budget()
                                             : std::make_shared<RowBudget>(scenario_.run.cache_megabytes * 1'000'000)),
      plan_(options_.plan) {}

StatusOr<std::shared_ptr<const Dataset>> RunSetup::training_data() {
  if (training_data_ != nullptr) return training_data_;
  const ShiftConfig& shift = scenario_.data.shift;
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> data, RecordedData());
  if (!shift.kind.empty()) {
    RIVULET_ASSIGN_OR_RETURN(const auto clients, shares());
    RIVULET_ASSIGN_OR_RETURN(const auto definition, model());
    const ModelInput& input = definition->input;
    const std::string feature = FeatureOf(input, scenario_.data.input_feature);
    RIVULET_ASSIGN_OR_RETURN(data, ShiftFeatures(data, *clients, {shift, feature, input, scenario_.run.seed}));
  }
  training_data_ = std::move(data);
  return training_data_;
}

StatusOr<std::shared_ptr<const Dataset>> RunSetup::RecordedData() {
  if (recorded_ == nullptr) {
    RIVULET_RETURN_IF_ERROR(PrepareData(scenario_));
    RIVULET_ASSIGN_OR_RETURN(auto data, Open(scenario_.data.train));
    if (scenario_.data.validation_fraction > 0) {
      RIVULET_ASSIGN_OR_RETURN(std::tie(data, held_out_),
                               HoldOut(data, scenario_.data.validation_fraction, scenario_.run.seed));
    }
    recorded_ = std::move(data);
  }
  return recorded_;
}

StatusOr<std::shared_ptr<const Dataset>> RunSetup::Open(const std::string& path) {
  const auto open = [&path] { return OpenRecordsMatching(path); };
  return options_.shared == nullptr ? open() : options_.shared->DatasetOf(path, open);
}

StatusOr<std::shared_ptr<const Shares>> RunSetup::shares() {
  if (shares_ == nullptr && options_.shared == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(shares_, MakeShares());
  } else if (shares_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(
        shares_, options_.shared->SharesOf(fmt::format("seed {} of {}", scenario_.run.seed, DataKeys(scenario_)),
                                           [this] { return MakeShares(); }));
  }
  return shares_;
}

StatusOr<std::shared_ptr<const Shares>> RunSetup::MakeShares() {
  RIVULET_ASSIGN_OR_RETURN(const auto data, RecordedData());
  RIVULET_ASSIGN_OR_RETURN(
      Shares shares, Partition(*data, scenario_.data.partition, scenario_.data.label_feature, scenario_.run.seed));
  return std::make_shared<const Shares>(std::move(shares));
}

Status RunSetup::FitCohort() {
  const DataConfig& data = scenario_.data;
  if (scenario_.given.contains("server.clients_per_round") || data.partition.clients > 0 || data.train.empty())
    return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const auto clients, shares());
  scenario_.server.clients_per_round = std::min(scenario_.server.clients_per_round, clients->size());
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<const ModelDef>> RunSetup::model() {
  if (model_ == nullptr) {
    // Read once: its digest takes every byte.
    if (!scenario_.model.base.empty() && base_ == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(base_, OpenBase(scenario_));
    }
    RIVULET_ASSIGN_OR_RETURN(ModelDef model, ModelOf(scenario_, base_.get()));
    model_ = std::make_shared<const ModelDef>(std::move(model));
  }
  return model_;
}

StatusOr<Scenario> RunSetup::Counted() {
  Scenario counted = scenario_;
  const DataConfig& data = scenario_.data;
  const auto algorithm = FindAlgorithm(scenario_.algorithm.name);
  if (data.partition.clients > 0 || data.train.empty() || !algorithm.ok() || !(*algorithm)->counts_clients)
    return counted;
  const auto clients = shares();
  if (!clients.ok()) {
    return Annotate(clients.status(),
                    fmt::format("[algorithm] name = \"{}\" divides by the number of all clients, and counts them in "
                                "data.train where data.partition.clients does not give it",
                                scenario_.algorithm.name));
  }
  counted.data.partition.clients = (*clients)->size();
  return counted;
}

StatusOr<std::shared_ptr<const Plan>> RunSetup::plan() {
  if (plan_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const auto definition, model());
    RIVULET_ASSIGN_OR_RETURN(const Scenario counted, Counted());
    RIVULET_ASSIGN_OR_RETURN(plan_, ComposePlan(counted, *definition));
  }
  if (!bound_ && !plan_->external() && plan_->model().base) {
    bound_ = true;  // base() calls plan()
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Base> opened, base());
    BaseStore store({.note = [](const std::string& sentence) { fmt::print(stderr, "{}\n", sentence); }});
    RIVULET_RETURN_IF_ERROR(Annotate(plan_->BindBase(store.Aligned(opened)), "model.base"));
  }
  return plan_;
}

StatusOr<std::shared_ptr<const Model>> RunSetup::initial_model() {
  RIVULET_ASSIGN_OR_RETURN(const auto opened, plan());
  if (!opened->external()) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, ArraysOf(scenario_, opened->layout(), options_.arrays));
  const Digest found = model->ComputeDigest(), wanted = opened->model().initial_model;
  if (found == wanted) return model;
  return FailedPrecondition(
      "model.arrays, '{}', has digest {}, and the plan begins with {}; use the file that the plan was built from, or "
      "build the plan again",
      scenario_.model.arrays, found.Hex(), wanted.Hex());
}

StatusOr<std::shared_ptr<const Base>> RunSetup::base() {
  RIVULET_ASSIGN_OR_RETURN(const auto opened, plan());
  const std::optional<Digest>& wanted = opened->model().base;
  if (!wanted) return nullptr;
  if (scenario_.model.base.empty()) {
    return FailedPrecondition("the plan needs the base {}; name its file in model.base", wanted->Hex());
  }
  if (base_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(base_, OpenBase(scenario_));
  }
  RIVULET_RETURN_IF_ERROR(Annotate(CheckIsBase(*base_, *wanted), "model.base"));
  return base_;
}

StatusOr<std::shared_ptr<Evaluator>> RunSetup::evaluator() {
  const DataConfig& data = scenario_.data;
  if (!MeasuresAnything(data) || scenario_.evaluation.every <= 0 || !scenario_.model.arrays.empty()) return nullptr;
  if (evaluator_ != nullptr) return evaluator_;
  RIVULET_ASSIGN_OR_RETURN(const auto opened, plan());
  if (options_.shared == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(evaluator_, MakeEvaluator(opened));
  } else {
    std::string measured;
    for (const auto& [set, pattern] : MeasuredSets(data)) measured += fmt::format(", {} {}", set, pattern);
    if (data.validation_fraction > 0)
      measured += fmt::format(", {} of {} by seed {}", data.validation_fraction, data.train, scenario_.run.seed);
    RIVULET_ASSIGN_OR_RETURN(
        evaluator_, options_.shared->EvaluatorOf(fmt::format("plan {}, batches of {}{}", opened->digest().Hex(),
                                                             scenario_.evaluation.batch_size, measured),
                                                 [&] { return MakeEvaluator(opened); }));
  }
  return evaluator_;
}

StatusOr<std::shared_ptr<Evaluator>> RunSetup::MakeEvaluator(const std::shared_ptr<const Plan>& plan) {
  // A coordinator may have the test set alone: without a generator the training set is not required.
  if (!scenario_.data.synth.kind.empty()) RIVULET_RETURN_IF_ERROR(PrepareData(scenario_));
  std::vector<std::shared_ptr<Evaluator>> sets;
  if (scenario_.data.validation_fraction > 0) {
    RIVULET_RETURN_IF_ERROR(RecordedData().status());
    RIVULET_ASSIGN_OR_RETURN(sets.emplace_back(), EvaluatorOf(plan, "validation", held_out_));
  }
  for (const auto& [set, pattern] : MeasuredSets(scenario_.data)) {
    RIVULET_ASSIGN_OR_RETURN(const auto data, Open(pattern));
    RIVULET_ASSIGN_OR_RETURN(sets.emplace_back(), EvaluatorOf(plan, set, data));
  }
  if (sets.size() == 1) return sets[0];
  return std::shared_ptr<Evaluator>(std::make_shared<SetsEvaluator>(std::move(sets)));
}

StatusOr<std::shared_ptr<Evaluator>> RunSetup::EvaluatorOf(const std::shared_ptr<const Plan>& plan,
                                                           const std::string& set,
                                                           const std::shared_ptr<const Dataset>& data) {
  if (options_.device != nullptr) {
    auto on_device = GpuEvaluator::Create(plan, data, scenario_.evaluation.batch_size, options_.device, set);
    if (on_device.ok()) return std::shared_ptr<Evaluator>(*std::move(on_device));
    if (!absl::IsUnimplemented(on_device.status()) && !absl::IsResourceExhausted(on_device.status())) {
      return on_device.status();
    }
    RIVULET_VLOG(1, "versions are evaluated on the host: {}", Message(on_device.status()));
  }
  const int cores = AvailableCores();
  const int threads = options_.evaluation_threads > 0 ? std::min(options_.evaluation_threads, cores) : cores;
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<CentralEvaluator> evaluator,
                           CentralEvaluator::Create(plan, data,
                                                    {.set = set,
                                                     .batch_size = scenario_.evaluation.batch_size,
                                                     .threads = threads,
                                                     .monitor = options_.monitor,
                                                     .rows = row_budget_}));
  return std::shared_ptr<Evaluator>(std::move(evaluator));
}

}  // namespace rivulet
