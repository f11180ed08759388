#include "simulations/fine_tuning.h"

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/data/dataset.h"
#include "engine/data/record_files.h"
#include "federated/algorithms/algorithm.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

class TrainedOnServer final : public ServerTraining {
 public:
  TrainedOnServer(std::unique_ptr<Trainer> trainer, DatasetExamples examples, uint64_t seed)
      : trainer_(std::move(trainer)), examples_(std::move(examples)), stream_key_(ClientKey(seed, "")) {}

  StatusOr<std::shared_ptr<const Model>> Train(const std::shared_ptr<const Model>& model, int64_t version) override {
    Task task;
    task.base_version = version;
    task.stream_key = stream_key_;
    const LaneTask lane{&task, "the server", model.get(), &examples_};
    // Training sets floating-point modes that must not change on the thread that makes versions.
    StatusOr<std::vector<LocalResult>> trained_here = absl::UnknownError("not trained");
    std::thread([&] { trained_here = trainer_->Train({&lane, 1}); }).join();
    RIVULET_ASSIGN_OR_RETURN(const std::vector<LocalResult> results, std::move(trained_here));
    RIVULET_RETURN_IF_ERROR(Annotate(results[0].status, "training on server.fine_tune.data"));
    auto trained = std::make_shared<Model>(model->shared_layout());
    std::memcpy(trained->arena().data(), model->arena().data(), model->arena().size());
    TakeWeights(results[0].parts.at(0), *trained);
    return trained;
  }

 private:
  // Copies the trained weights of `part`, which are in wire order, into the model.
  static void TakeWeights(const PartView& part, Model& model) {
    std::vector<float> wire;
    for (const FloatRun& run : part.runs) wire.insert(wire.end(), run.values, run.values + run.count);
    for (const Slice& slice : model.layout().slices()) {
      if (slice.segment != Segment::kTrainable && slice.segment != Segment::kShared) continue;
      const auto first = wire.begin() + static_cast<std::ptrdiff_t>(slice.wire_offset);
      std::copy(first, first + static_cast<std::ptrdiff_t>(slice.elements), model.tensor(slice).flat<float>().begin());
    }
  }

  const std::unique_ptr<Trainer> trainer_;
  const DatasetExamples examples_;
  const uint64_t stream_key_;
};

// Federated averaging's local training, without an upload.
Scenario OnServer(Scenario scenario) {
  const FineTuneConfig& tuning = scenario.server.fine_tune;
  scenario.client.epochs = tuning.epochs;
  scenario.client.batch_size = tuning.batch_size;
  scenario.client.optimizer = {.learning_rate = tuning.learning_rate};
  scenario.client.schedule = {};
  scenario.client.input_graph.clear();
  scenario.client.partial_work = 0;
  scenario.algorithm = {};
  scenario.update = {};
  scenario.privacy = {};
  scenario.evaluation.federated_every = 0;
  return scenario;
}

}  // namespace

StatusOr<std::unique_ptr<ServerTraining>> FineTuning(RunSetup& setup) {
  const std::string& path = setup.scenario().server.fine_tune.data;
  if (path.empty()) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, OpenRecordsMatching(path));
  // The plan's model, not that of the scenario's file, which may exist only where the run was submitted.
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> clients_plan, setup.plan());
  const ModelDef& model = clients_plan->model();
  if (!model.has_graph() || !setup.scenario().model.personal.empty()) {
    return InvalidArgument("server.fine_tune.data trains the whole model on the server, and {}; leave it out",
                           model.has_graph() ? "clients keep some of its layers for themselves (model.personal)"
                                             : "this one has no graph (model.arrays)");
  }
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, ComposePlan(OnServer(setup.scenario()), model));
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  RIVULET_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  return std::make_unique<TrainedOnServer>(std::move(trainer), DatasetExamples(data, std::nullopt, decoder),
                                           setup.scenario().run.seed);
}

}  // namespace rivulet
