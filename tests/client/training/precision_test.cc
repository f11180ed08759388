// Local training in 16-bit products, with scaled losses, and with portable kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/training/artifact_cache.h"
#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "federated/plan/example_source.h"
#include "federated/random/streams.h"
#include "tests/client/training/local_plan.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitRecords;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::PlanBytes;

testing::Trained TrainWith(const Scenario& scenario, int examples = 40) {
  const auto plan = LocalPlan(scenario);
  auto decoder = ExampleDecoder::Create(plan->features());
  EXPECT_OK(decoder);
  const DatasetExamples source(std::make_shared<MemoryDataset>(DigitRecords(examples)), std::nullopt, *decoder);
  auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
  EXPECT_OK(trainer);
  Task task;
  task.id = "run-r3-a1-client-00007-0";
  task.base_version = 2;
  task.stream_key = ClientKey(42, "client-00007");
  auto trained = testing::TrainOne(**trainer, task, "client-00007", *PatternModel(*plan), source);
  EXPECT_OK(trained);
  return *std::move(trained);
}

Scenario With(const std::string& precision, const std::string& scaling = "none", double scale = 32768) {
  Scenario scenario = LocalScenario();
  scenario.client.precision = precision;
  scenario.client.loss_scale.kind = scaling;
  scenario.client.loss_scale.settings["scale"] = scale;
  return scenario;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(sum / size);
}

TEST(Precision, SixteenBits_TrainNearlyAsFloat32) {
  for (const char* preset : {"logistic_regression", "mnist_cnn"}) {
    Scenario wide = With("float32");
    wide.model.preset = preset;
    wide.client.optimizer.learning_rate = 0.05;
    const testing::Trained expected = TrainWith(wide);
    for (const char* precision : {"bfloat16", "float16"}) {
      Scenario narrow = wide;
      narrow.client.precision = precision;
      const testing::Trained trained = TrainWith(narrow);
      EXPECT_NEAR(*trained.train_loss, *expected.train_loss, 0.02 * *expected.train_loss) << preset << " " << precision;
      const double distance = Distance(trained.delta, expected.delta);
      EXPECT_LT(distance, 0.2) << preset << " " << precision;
      EXPECT_GT(distance, 0) << preset << " " << precision;
    }
  }
}

TEST(LossScale, PowerOfTwo_ChangesNoBitInFloat32) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    Scenario plain = With("float32");
    plain.client.optimizer.kind = optimizer;
    plain.client.optimizer.learning_rate = 0.01;
    for (const char* scaling : {"static", "dynamic"}) {
      Scenario scaled = plain;
      scaled.client.loss_scale.kind = scaling;
      scaled.client.loss_scale.settings["scale"] = 1024;
      scaled.client.loss_scale.settings["growth_steps"] = int64_t{3};  // grows on the way
      EXPECT_EQ(TrainWith(scaled).delta, TrainWith(plain).delta) << optimizer << " " << scaling;
    }
  }
}

TEST(LossScale, GradientsThatOverflow_ChangeNothing) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    Scenario scenario = With("float16", "static", 1 << 24);  // gradients of a logit are up to 0.1, and float16 to 65504
    scenario.client.optimizer.kind = optimizer;
    for (const float change : TrainWith(scenario).delta) ASSERT_EQ(change, 0.0f) << optimizer;
  }
}

TEST(LossScale, DynamicScale_FallsUntilStepsCount) {
  for (const char* optimizer : {"sgd", "momentum", "adam"}) {
    Scenario scenario = With("float16", "dynamic", 1 << 24);
    scenario.client.optimizer.kind = optimizer;
    scenario.client.optimizer.learning_rate = 0.05;
    scenario.client.epochs = 10;  // 40 steps, of which the first some do not count
    const testing::Trained trained = TrainWith(scenario);
    bool moved = false;
    for (const float change : trained.delta) {
      ASSERT_TRUE(std::isfinite(change)) << optimizer;
      moved = moved || change != 0;
    }
    EXPECT_TRUE(moved) << optimizer;
    Scenario first = scenario;
    first.client.epochs = 1;
    EXPECT_LT(trained.train_loss, TrainWith(first).train_loss) << optimizer;
  }
}

TEST(PortableKernels, EveryInstructionSet_GivesTheSameUpdate) {
  for (const char* preset : {"logistic_regression", "mnist_cnn"}) {
    for (const char* precision : {"float32", "bfloat16"}) {
      Scenario scenario = With(precision);
      scenario.model.preset = preset;
      scenario.run.kernels = "portable";
      scenario.client.epochs = 1;
      scenario.client.batch_size = 4;  // and a rest of 2
      scenario.client.optimizer.learning_rate = 0.05;
      std::vector<float> first;
      testing::OnEveryTarget([&](const std::string& target) {
        const std::vector<float> delta = TrainWith(scenario, 6).delta;
        if (first.empty()) first = delta;
        EXPECT_TRUE(delta == first) << preset << " in " << precision << " on " << target;
      });
    }
  }
}

TEST(PortableKernels, Update_IsNearThatOfNativeKernels) {
  Scenario scenario = With("float32");
  scenario.model.preset = "mnist_cnn";
  scenario.client.optimizer.learning_rate = 0.05;
  Scenario portable = scenario;
  portable.run.kernels = "portable";
  // Native convolutions with fewer multiplications err a little more, so that a pool takes the other of two values that
  // are nearly equal now and then: 5e-4 of the update here.
  EXPECT_LT(Distance(TrainWith(portable, 20).delta, TrainWith(scenario, 20).delta), 2e-3);
}

TEST(PortableKernels, ClientThatTakesOthersAlone_RefusesThePlan) {
  Scenario scenario = LocalScenario();
  scenario.run.kernels = "portable";
  const std::string bytes = PlanBytes(scenario);
  ArtifactCache native("native"), portable("portable"), any;
  const auto fetch = [&]() -> StatusOr<std::string> { return bytes; };
  EXPECT_OK(any.Plan(Sha256Of(bytes), fetch));
  EXPECT_OK(portable.Plan(Sha256Of(bytes), fetch));
  const auto refused = native.Plan(Sha256Of(bytes), fetch);
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("portable kernels")));
}

}  // namespace
}  // namespace rivulet
