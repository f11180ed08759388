// MOON: at mu = 0 it is federated averaging; else what NumPy computes in float64 (reference/moon.py).
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "client/training/pass_programs.h"
#include "engine/models/classifier.h"
#include "federated/aggregation/aggregation.h"
#include "federated/random/streams.h"
#include "federated/states/state_blob.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::StatusIs;
using testing::Trained;

Scenario MoonScenario(double mu, double temperature = 0.5) {
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = "moon";
  scenario.algorithm.settings["mu"] = mu;
  scenario.algorithm.settings["temperature"] = temperature;
  scenario.client.shuffle = false;
  return scenario;
}

// Four pixels, five hidden units, three classes: "dense1" and "dense2".
ModelDef HiddenPixels() {
  auto model = Classifier({.input = {4}, .classes = 3}, [](Layers& layers, Output image) {
    return layers.Dense("dense2", layers.Dense("dense1", image, 5, {.activation = "tanh"}), 3);
  });
  EXPECT_OK(model);
  return *std::move(model);
}

// Number n of all, counted in wire order, is ((factor · n mod size) − size / 2) / 100.
void Fill(const ModelLayout& layout, int factor, int size, const std::function<float*(const Slice&)>& at) {
  int n = 0;
  for (const Slice& slice : layout.slices()) {
    float* const values = at(slice);
    for (int64_t i = 0; i < slice.elements; ++i) {
      values[i] = static_cast<float>(n++ * factor % size - size / 2) * 0.01f;
    }
  }
}

// What a client kept: another model than any base.
std::string Previous(const Plan& plan) {
  const ModelLayout& layout = *plan.layout();
  std::vector<float> values(layout.segment_bytes(Segment::kTrainable) / sizeof(float));
  Fill(layout, 53, 97, [&](const Slice& slice) { return values.data() + slice.offset / sizeof(float); });
  return WriteState(std::vector<NamedState>{{"previous", values}});
}

// Both have the names of FedAvg's trainers here; `state` is read only where the plan has clients keep something.
StatusOr<Trained> TrainKeeping(const std::shared_ptr<const Plan>& plan, const Model& base,
                               std::vector<std::string> records, std::string_view state) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<MemoryDataset>(std::move(records)), std::nullopt, decoder);
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  Task task;
  task.id = "run-r1-a1-a-0";
  task.stream_key = ClientKey(42, "a");
  const LaneTask lane{&task, "a", &base, &examples, state};
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  RIVULET_RETURN_IF_ERROR(results[0].status);
  Trained trained{std::move(results[0]), {}};
  for (const FloatRun& run : trained.parts[0].runs)
    for (int64_t i = 0; i < run.count; ++i) trained.delta.push_back(ValueOf(run, i));
  trained.parts.clear();
  return trained;
}

struct PixelRun {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Model> base;
  Trained trained;
};

StatusOr<PixelRun> TrainPixels(Scenario scenario, int client = 0, bool first = false) {
  scenario.client.batch_size = 2;
  scenario.client.optimizer.learning_rate = 0.5;
  PixelRun run;
  RIVULET_ASSIGN_OR_RETURN(run.plan, ComposePlan(scenario, HiddenPixels()));
  run.base = std::make_shared<Model>(run.plan->layout());
  Fill(*run.plan->layout(), 37, 101, [&](const Slice& slice) { return run.base->tensor(slice).flat<float>().data(); });
  RIVULET_ASSIGN_OR_RETURN(run.trained,
                           TrainKeeping(run.plan, *run.base, testing::FourPixelRecords(client, client == 0 ? 5 : 3),
                                        first ? "" : Previous(*run.plan)));
  return run;
}

double DistanceOf(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(squares);
}

// The forward pass has three models in it then, and none of them is seen.
TEST(Moon, MuZero_IsFedAvgToTheBit) {
  for (const char* preset : {"mlp", "mnist_cnn"}) {
    for (const char* kernels : {"native", "portable"}) {
      SCOPED_TRACE(fmt::format("{} {}", preset, kernels));
      Scenario moon = MoonScenario(0);
      moon.model.preset = preset;
      moon.run.kernels = kernels;
      moon.client.epochs = 1;
      moon.client.optimizer.learning_rate = 0.05;
      Scenario avg = moon;
      avg.algorithm = {};
      const auto plan = testing::LocalPlan(moon), plain = testing::LocalPlan(avg);
      ASSERT_OK_AND_ASSIGN(const Trained with,
                           TrainKeeping(plan, *PatternModel(*plan), DigitRecords(27), Previous(*plan)));
      ASSERT_OK_AND_ASSIGN(const Trained without, TrainKeeping(plain, *PatternModel(*plain), DigitRecords(27), ""));
      EXPECT_TRUE(with.delta == without.delta);
      EXPECT_EQ(with.declared, without.declared);
      EXPECT_GT(*std::max_element(with.delta.begin(), with.delta.end()), 1e-4f);  // it trained
    }
  }
}

// What the one layer of such a model takes is the same for all three models: there is nothing to be told apart.
TEST(Moon, InputAsRepresentation_IsFedAvg) {
  auto model = Classifier({.input = {4}, .classes = 3},
                          [](Layers& layers, Output image) { return layers.Dense("dense1", image, 3); });
  ASSERT_OK(model);
  Scenario moon = MoonScenario(5), avg = MoonScenario(5);
  avg.algorithm = {};
  ASSERT_OK_AND_ASSIGN(const auto with, ComposePlan(moon, *model));
  ASSERT_OK_AND_ASSIGN(const auto without, ComposePlan(avg, *model));
  const auto records = testing::FourPixelRecords(0, 5);
  ASSERT_OK_AND_ASSIGN(const Trained one, TrainKeeping(with, *PatternModel(*with), records, Previous(*with)));
  ASSERT_OK_AND_ASSIGN(const Trained other, TrainKeeping(without, *PatternModel(*without), records, ""));
  EXPECT_TRUE(one.delta == other.delta);
}

// What is kept is the model as it was sent: the base and the delta.
TEST(Moon, WhatIsKept_IsTheTrainedModel) {
  ASSERT_OK_AND_ASSIGN(const PixelRun run, TrainPixels(MoonScenario(1)));
  const ModelLayout& layout = *run.plan->layout();
  std::vector<float> kept(layout.segment_bytes(Segment::kTrainable) / sizeof(float));
  ASSERT_OK(ReadState(run.trained.state, std::vector<NamedState>{{"previous", kept}}));
  size_t n = 0;
  for (const Slice& slice : layout.slices()) {
    for (int64_t i = 0; i < slice.elements; ++i, ++n) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(kept[slice.offset / sizeof(float) + at] - run.base->tensor(slice).flat<float>()[at],
                run.trained.delta[n]);
    }
  }
}

// At first the previous model is the one that was given, and a step away from it says nothing of where to go.
TEST(Moon, FirstTaskOfOneStep_IsFedAvgsForAnyMu) {
  Scenario moon = MoonScenario(100);
  moon.client.epochs = 1;
  Scenario avg = moon;
  avg.algorithm = {};
  moon.data.partition.clients = avg.data.partition.clients = 1;
  ASSERT_OK_AND_ASSIGN(const PixelRun plain, TrainPixels(avg, 1, true));
  ASSERT_OK_AND_ASSIGN(const PixelRun first, TrainPixels(moon, 1, true));
  EXPECT_LT(DistanceOf(first.trained.delta, plain.trained.delta), 1e-5);
  ASSERT_OK_AND_ASSIGN(const PixelRun later, TrainPixels(moon, 1));
  EXPECT_GT(DistanceOf(later.trained.delta, plain.trained.delta), 0.01);
}

// The mean of equation 3 at temperature 1 over a client's examples, as a model trained with `mu` has it.
double ContrastOf(const PixelRun& run) {
  const auto weights = [&](const std::function<double(size_t)>& value) {
    std::vector<double> all(43);
    for (size_t n = 0; n < all.size(); ++n) all[n] = value(n);
    return all;
  };
  const auto pattern = [](size_t n, int factor, int size) {
    return (static_cast<int>(n) * factor % size - size / 2) * 0.01;
  };
  const auto base = weights([&](size_t n) { return pattern(n, 37, 101); });
  const auto previous = weights([&](size_t n) { return pattern(n, 53, 97); });
  const auto now = weights([&](size_t n) { return base[n] + run.trained.delta[n]; });
  double sum = 0;
  for (int i = 0; i < 5; ++i) {
    const auto seen = [&](const std::vector<double>& w) {
      std::array<double, 5> z;
      for (size_t h = 0; h < 5; ++h) {
        z[h] = w[20 + h];
        for (int k = 0; k < 4; ++k) z[h] += (71 * k + 37 * i) % 256 / 255.0 * w[5 * static_cast<size_t>(k) + h];
        z[h] = std::tanh(z[h]);
      }
      return z;
    };
    const auto similarity = [](const auto& a, const auto& b) {
      double ab = 0, aa = 0, bb = 0;
      for (size_t h = 0; h < 5; ++h) ab += a[h] * b[h], aa += a[h] * a[h], bb += b[h] * b[h];
      return ab / std::sqrt(aa * bb);
    };
    sum += std::log1p(std::exp(similarity(seen(now), seen(previous)) - similarity(seen(now), seen(base))));
  }
  return sum / 5;
}

TEST(Moon, Mu_TurnsRepresentationsToTheGlobalModels) {
  double before = std::numeric_limits<double>::infinity();
  for (const double mu : {0.0, 0.5, 2.0}) {
    ASSERT_OK_AND_ASSIGN(const PixelRun run, TrainPixels(MoonScenario(mu)));
    const double contrast = ContrastOf(run);
    EXPECT_LT(contrast, before) << mu;
    before = contrast;
  }
}

TEST(Moon, Temperature_IsHowHardTheyAreToldApart) {
  ASSERT_OK_AND_ASSIGN(const PixelRun plain, TrainPixels(MoonScenario(0)));
  double before = std::numeric_limits<double>::infinity();
  for (const double temperature : {0.5, 2.0, 100.0}) {
    ASSERT_OK_AND_ASSIGN(const PixelRun run, TrainPixels(MoonScenario(1, temperature)));
    const double away = DistanceOf(run.trained.delta, plain.trained.delta);
    EXPECT_LT(away, before) << temperature;
    before = away;
  }
  EXPECT_LT(before, 0.1);
}

TEST(Moon, OneRound_IsNumPysInDouble) {
  std::unique_ptr<Aggregation> aggregation;
  for (int client = 0; client < 2; ++client) {
    ASSERT_OK_AND_ASSIGN(const PixelRun run, TrainPixels(MoonScenario(2), client));
    if (aggregation == nullptr) {
      ASSERT_OK_AND_ASSIGN(aggregation, Aggregation::Create(run.plan->aggregation()));
    }
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(run.trained.delta))};
    ASSERT_OK(aggregation->Take({fmt::format("{}", client), 0, {&part, 1}, run.trained.declared},
                                {.parts = {*run.trained.examples}}));
  }
  ASSERT_OK_AND_ASSIGN(const ServerInput input, std::move(*aggregation).Finish());
  std::ifstream file(std::string(RIVULET_SOURCE_DIR) + "/tests/federated/algorithms/reference/moon.txt");
  std::vector<double> wanted;
  for (double value; file >> value;) wanted.push_back(value);
  ASSERT_EQ(wanted.size(), 43u);
  ASSERT_EQ(input.parts[0].mean.size(), wanted.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(input.parts[0].mean[i], wanted[i], 1e-6 * largest) << i;
}

TEST(Moon, ModelWithoutARepresentation_IsRefusedByName) {
  EXPECT_THAT(
      ComposePlan(MoonScenario(1), testing::FourPixels()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::StartsWith("[algorithm] name = \"moon\": the model does not name its representation")));
}

}  // namespace
}  // namespace rivulet
