// The ten algorithms on which all others are modelled, each with settings that have an effect, in one table for tests
// of all. Also the smallest federation in which all ten work: four pixels, with a hidden layer for MOON.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "client/site/site.h"
#include "engine/models/classifier.h"
#include "federated/scenario/scenario.h"
#include "federated/tasks/task.h"
#include "tests/testing/four_pixels.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

struct TenthAlgorithm {
  std::string name;
  void (*set)(Scenario&);
  bool keeps_state = false;        // clients keep a state between tasks
  bool by_examples = false;        // an update's weight is the client's number of examples; else 1
  bool outlives_versions = false;  // a task may be in a later version than the next
};

inline void PrintTo(const TenthAlgorithm& algorithm, std::ostream* out) { *out << algorithm.name; }

inline const std::vector<TenthAlgorithm>& TenAlgorithms() {
  static const auto* const ten = new std::vector<TenthAlgorithm>{
      {.name = "fedavg", .set = [](Scenario&) {}, .by_examples = true},
      {.name = "fedprox",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {.name = "fedprox",
                                   .settings = {{"mu", 0.5}, {"mu_step", 0.0}, {"mu_falls", int64_t{5}}}};
           },
       .by_examples = true},
      {.name = "fedadam",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {
                 .name = "fedadam",
                 .settings = {{"beta1", 0.9}, {"beta2", 0.99}, {"tau", 0.001}, {"initial_accumulator", 0.000001}}};
             scenario.server.learning_rate = 0.05;
           },
       .by_examples = true},
      {.name = "moon",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {.name = "moon", .settings = {{"mu", 5.0}, {"temperature", 0.5}}};
           },
       .keeps_state = true,
       .by_examples = true},
      {.name = "scaffold",
       .set = [](Scenario& scenario) { scenario.algorithm = {.name = "scaffold"}; },
       .keeps_state = true},
      {.name = "trimmed_mean",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {.name = "trimmed_mean", .settings = {{"trim", 0.34}}};
           }},
      {.name = "fedbuff",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {.name = "fedbuff"};
             scenario.server.in_flight = 2 * scenario.server.clients_per_round + 1;
             scenario.server.max_staleness = 3;
           },
       .outlives_versions = true},
      {.name = "top_k",  // with error feedback, on top of federated averaging
       .set =
           [](Scenario& scenario) {
             scenario.update.codec = "top_k";
             scenario.update.settings["fraction"] = 0.1;
           },
       .keeps_state = true,
       .by_examples = true},
      {.name = "dp_fedavg",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {.name = "dp_fedavg",
                                   .settings = {{"noise_multiplier", 0.5},
                                                {"noise_source", std::string("seeded")},
                                                {"bands", int64_t{1}},
                                                {"noise", std::string("central")},
                                                {"clip_quantile", 0.0},
                                                {"clip_learning_rate", 0.2},
                                                {"clip_count_stddev", 0.0}}};
             scenario.privacy.clip = 0.1;
           }},
      {.name = "ditto",
       .set =
           [](Scenario& scenario) {
             scenario.algorithm = {.name = "ditto", .settings = {{"lambda", 0.1}}};
           },
       .keeps_state = true,
       .by_examples = true},
  };
  return *ten;
}

// Four pixels, two hidden units, three classes.
inline const ModelDef& PixelModel() {
  static const auto* const model = [] {
    auto made = Classifier({.input = {4}, .classes = 3}, [](Layers& layers, Output image) {
      return layers.Dense("dense2", layers.Dense("dense1", image, 2, {.activation = "tanh"}), 3);
    });
    EXPECT_OK(made);
    return new ModelDef(*std::move(made));
  }();
  return *model;
}

// Names a model and data that are not read: the plan contains the model, and clients have the data.
inline Scenario PixelFederation(int64_t clients, int64_t rounds) {
  Scenario scenario;
  scenario.run.name = "pixels";
  scenario.run.rounds = rounds;
  scenario.model.preset = "logistic_regression";
  scenario.data.train = "/data/train.tfrecord";
  scenario.data.test = "/data/test.tfrecord";
  scenario.data.partition.clients = clients;
  scenario.client.batch_size = 2;
  scenario.client.optimizer.learning_rate = 0.5;
  scenario.evaluation.every = 0;
  return scenario;
}

// The number of "client-00003", in the format of NumberedPopulation.
inline int64_t PixelClient(std::string_view name) { return std::stoll(std::string(name.substr(name.rfind('-') + 1))); }
inline int64_t PixelExamples(std::string_view name) { return 2 + PixelClient(name) % 4; }

class PixelData final : public ClientData {
 public:
  explicit PixelData(int64_t clients) {
    for (int64_t client = 0; client < clients; ++client) {
      const std::string name = fmt::format("client-{:05}", client);
      sets_.push_back(std::make_shared<MemoryDataset>(
          FourPixelRecords(static_cast<int>(client), static_cast<int>(PixelExamples(name)))));
    }
  }
  StatusOr<BoundData> Of(std::string_view client_id) const override {
    return BoundData{.dataset = sets_.at(static_cast<size_t>(PixelClient(client_id)))};
  }

 private:
  std::vector<std::shared_ptr<const Dataset>> sets_;
};

}  // namespace rivulet::testing
