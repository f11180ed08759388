// Whole rounds of an algorithm on the four-pixel model (tests/testing/four_pixels.h), without files or messages, for
// comparison with NumPy references. Three clients have 5, 3 and 4 examples. Two of them take part in each round: 0 and
// 1, then 1 and 2, then 0 and 2.
#pragma once

#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "client/training/pass_programs.h"
#include "client/training/update_pipeline.h"
#include "federated/aggregation/aggregation.h"
#include "federated/algorithms/algorithm.h"
#include "federated/download/download.h"
#include "federated/numbers/number_rule.h"
#include "federated/random/streams.h"
#include "federated/server_optimizers/server_optimizer.h"
#include "federated/server_optimizers/server_rate.h"
#include "federated/states/state_blob.h"
#include "federated/weights/flat_vector.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"

namespace rivulet::testing {

inline constexpr std::array<int, 3> kPixelExamples = {5, 3, 4};
inline constexpr int kPixelCohorts[][2] = {{0, 1}, {1, 2}, {0, 2}};

struct PixelRounds {
  std::shared_ptr<const Plan> plan;
  ServerState server;
  std::map<int, std::string> kept;    // by client: its state from the last result
  std::map<int, Scalars> declared;    // by client: from its last task
  std::vector<std::string> versions;  // the digest of each round's model
};

inline Scenario PixelScenario(const std::string& algorithm) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = algorithm;
  scenario.data.partition.clients = 3;
  scenario.client.shuffle = false;
  scenario.client.batch_size = 2;
  scenario.client.optimizer.learning_rate = 0.5;
  return scenario;
}

// Initial value of a drawn flat; for number 2, "server/cluster_2", the base with each weight shifted by 7 places.
inline StatusOr<std::shared_ptr<const Model>> PixelsDrawn(const Plan& plan, std::string_view flat) {
  auto model = std::make_shared<Model>(plan.layout());
  int n = 7 * (flat.back() - '0');
  for (const Slice& slice : plan.layout()->slices()) {
    for (float& value : model->tensor(slice).flat<float>()) value = static_cast<float>(n++ * 37 % 101 - 50) * 0.01f;
  }
  return model;
}

inline StatusOr<PixelRounds> RunPixels(const Scenario& scenario, int rounds, const ModelDef& model = FourPixels(),
                                       decltype(PixelsDrawn)* drawn = PixelsDrawn) {
  PixelRounds run;
  RIVULET_ASSIGN_OR_RETURN(run.plan, ComposePlan(scenario, model));
  const ModelLayout& layout = *run.plan->layout();
  RIVULET_ASSIGN_OR_RETURN(const Composition composition, Compose(scenario, layout));
  RIVULET_ASSIGN_OR_RETURN(const auto optimizer,
                           ServerOptimizer::Create(composition.server_optimizer, scenario.server.average));
  RIVULET_ASSIGN_OR_RETURN(run.server, FirstState(FourPixelsBase(*run.plan), *optimizer,
                                                  [&](std::string_view flat) { return drawn(*run.plan, flat); }));
  RIVULET_ASSIGN_OR_RETURN(const auto rule, NumberRule::For(composition.numbers, composition.number_rule));
  if (rule != nullptr) run.server.numbers = std::make_shared<const ServerNumbers>(rule->First());
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(run.plan->features()));
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(run.plan)));
  RIVULET_ASSIGN_OR_RETURN(const auto pipeline, UpdatePipeline::Create(*run.plan));
  RIVULET_ASSIGN_OR_RETURN(const auto download, Download::Create(run.plan->download(), run.plan->layout()));
  for (int round = 0; round < rounds; ++round) {
    std::vector<AlignedBuffer> broadcasts;
    std::vector<const AlignedBuffer*> sent;
    for (const std::string& name : run.plan->flat_names().broadcast) {
      RIVULET_ASSIGN_OR_RETURN(AlignedBuffer flat, FlatOfWire(layout, run.server.broadcast(name)));
      broadcasts.push_back(std::move(flat));
    }
    for (const AlignedBuffer& broadcast : broadcasts) sent.push_back(&broadcast);
    std::shared_ptr<const Model> base = run.server.model;
    if (download != nullptr) {
      RIVULET_ASSIGN_OR_RETURN(const Download::Sent as_sent, download->Send(*base, scenario.run.seed, round));
      base = as_sent.model;
    }
    RIVULET_ASSIGN_OR_RETURN(const auto aggregation, Aggregation::Create(run.plan->aggregation()));
    std::vector<ReportedLoss> told;
    for (const int client : kPixelCohorts[round]) {
      const DatasetExamples examples(
          std::make_shared<MemoryDataset>(FourPixelRecords(client, kPixelExamples[static_cast<size_t>(client)])),
          std::nullopt, decoder);
      Task task;
      task.id = fmt::format("run-r{}-a1-{}-0", round + 1, client);
      task.base_version = round;
      task.stream_key = ClientKey(42, fmt::format("{}", client));
      if (rule != nullptr) task.numbers = rule->Of(*run.server.numbers, fmt::format("{}", client));
      const LaneTask lane{&task, "a", base.get(), &examples, run.kept[client], sent};
      RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer->Train({&lane, 1}));
      RIVULET_RETURN_IF_ERROR(results[0].status);
      if (!pipeline->transparent()) {
        RIVULET_ASSIGN_OR_RETURN(results[0].parts, pipeline->Apply(task, results[0].parts, results[0].declared));
      }
      RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(aggregation->spec(), results[0].declared, {}));
      RIVULET_RETURN_IF_ERROR(aggregation->Fold({task.id, round, results[0].parts, results[0].declared}, weights));
      run.kept[client] = results[0].state;
      run.declared[client] = results[0].declared;
      told.push_back(
          {task.id, fmt::format("{}", client), results[0].examples.value_or(0), results[0].train_loss.value_or(0)});
    }
    RIVULET_ASSIGN_OR_RETURN(const ServerInput input, std::move(*aggregation).Finish());
    PartMeans others;
    for (const ServerInput::Part& part : input.parts) others.emplace(part.name, part.mean);
    const ServerInput::Part& delta = *input.Find("delta");
    const auto numbers = run.server.numbers;
    RIVULET_ASSIGN_OR_RETURN(
        run.server, NextState(run.server, *optimizer, ServerLearningRate(scenario.server, round + 1), delta.mean,
                              others, {input.scalars, delta.denominator, input.updates}));
    if (rule != nullptr) {
      run.server.numbers = std::make_shared<const ServerNumbers>(rule->Next(*numbers, told, input.scalars));
    }
    run.versions.push_back(run.server.digest.Hex());
  }
  return run;
}

// In wire order.
inline std::vector<float> WeightsOfModel(const Model& model) {
  std::vector<float> values;
  for (const Slice& slice : model.layout().slices()) {
    const auto tensor = model.tensor(slice).flat<float>();
    values.insert(values.end(), tensor.begin(), tensor.end());
  }
  return values;
}

// Compares `found` with the numbers of reference/<name>, to within a millionth of the largest.
inline void ExpectReference(const std::string& name, const std::vector<float>& found) {
  std::ifstream file(std::string(RIVULET_SOURCE_DIR) + "/tests/federated/algorithms/reference/" + name);
  std::vector<double> wanted;
  for (double value; file >> value;) wanted.push_back(value);
  ASSERT_EQ(wanted.size(), found.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6 * largest) << i;
}

}  // namespace rivulet::testing
