// Twenty steps of SGD, momentum and Adam on each preset against PyTorch (make_training_reference.py wrote
// training_reference.json and says what is in it).
//
// The reference is float64. A float32 computation strays from it by rounding, and every step adds to it and carries on
// what was there; how far is measured, not guessed: the file tells, step by step, how far PyTorch's own float32 was
// from its float64. Ours may be kDirectAllowance times as far as that ever was until then, since we sum in another
// order, and by a few roundings more, since PyTorch's error may be small by luck. Portable kernels are held to that.
// Where native convolutions are carried out with fewer multiplications (engine/kernels/cpu/convolution/winograd.h) the
// outputs of each are up to five times as far off, and a pool or a Relu decides otherwise that much more often where
// two values are nearly equal: ten times as far.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dataflow/session/session.h"
#include "engine/presets/presets.h"
#include "tests/conformance/training/reference_formula.h"
#include "tests/testing/reference_json.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using testing::AddTrainingStep;
using testing::Batch;
using testing::FirstValue;
using testing::Fnv;
using testing::Json;
using testing::Uniform;

constexpr double kDirectAllowance = 16, kWinogradAllowance = 160, kRounding = 4e-6;

const Json& Cases() {
  static const Json cases = testing::ReadJson(RIVULET_REFERENCE_FOLDER "/training_reference.json");
  return cases;
}

void ExpectPyTorchsTwentySteps(const Json& c, bool portable) {
  auto model = testing::ModelOf(c);
  ASSERT_OK(model);
  const std::string loss = c.value("loss", model->eval_loss);
  const OptimizerSpec optimizer = {c["optimizer"].get<std::string>(), c["learning_rate"].get<double>()};
  const auto step = AddTrainingStep(*model, optimizer, loss);
  ASSERT_OK(step);
  std::vector<std::string> targets = {*step};
  if (loss == model->train_loss)
    targets.insert(targets.end(), model->train_updates.begin(), model->train_updates.end());
  SessionConfig config;
  config.kernels.portable = portable;
  auto session = Session::Create(model->graph.Clone(), config);
  ASSERT_OK(session);
  const auto initialised = (*session)->Run({}, {}, {model->init_target});  // the optimiser's slots
  ASSERT_OK(initialised);
  for (const ModelVariable& variable : model->variables)
    ASSERT_OK((*session)->SetVariable(variable.name, FirstValue(variable.name, variable.spec.shape)));

  const std::string preset = c["preset"].get<std::string>();
  const bool winograd = !portable && (preset.starts_with("resnet") || preset.ends_with("_cnn"));
  const double allowance = winograd ? kWinogradAllowance : kDirectAllowance;
  double error = 0;
  for (size_t i = 0; i < c["losses"].size(); ++i) {
    const auto fetched = (*session)->Run(Batch(c, *model, static_cast<int>(i)), {loss}, targets);
    ASSERT_OK(fetched);
    error = std::max(error, c["float32_errors"][i].get<double>());
    const double expected = c["losses"][i].get<double>(), actual = (*fetched)[0].flat<float>()[0];
    ASSERT_LE(std::abs(actual - expected), allowance * error + kRounding * std::max(1.0, expected))
        << "loss of step " << i << ": " << actual << ", expected " << expected;
  }
  size_t compared = 0;
  for (const ModelVariable& variable : model->variables) {
    ASSERT_TRUE(c["variables"].contains(variable.name) || loss != model->train_loss) << variable.name;
    if (!c["variables"].contains(variable.name)) continue;
    const Json& expected = c["variables"][variable.name];
    const auto value = (*session)->GetVariable(variable.name);
    ASSERT_OK(value);
    const uint32_t seed = Fnv(variable.name) ^ 0x5A5A5A5Au;
    double squares = 0, signed_sum = 0;
    const std::span<const float> elements = value->flat<float>();
    for (size_t i = 0; i < elements.size(); ++i) {
      squares += static_cast<double>(elements[i]) * elements[i];
      signed_sum += Uniform(seed, i) < 0 ? -elements[i] : elements[i];
    }
    const double length = expected[0].get<double>(), difference = expected[2].get<double>();
    const double tolerance = allowance * difference + kRounding * std::max(length, 0.1);
    EXPECT_LE(std::abs(std::sqrt(squares) - length), tolerance) << variable.name << ": its length";
    EXPECT_LE(std::abs(signed_sum / std::sqrt(static_cast<double>(elements.size())) - expected[1].get<double>()),
              tolerance)
        << variable.name << ": its signed sum";
    ++compared;
  }
  EXPECT_EQ(compared, c["variables"].size());
}

class TrainingReference : public ::testing::TestWithParam<size_t> {};

TEST_P(TrainingReference, TwentySteps_ArePyTorchs) {
  for (const bool portable : {false, true}) {
    SCOPED_TRACE(portable ? "portable kernels" : "native kernels");
    ExpectPyTorchsTwentySteps(Cases()[GetParam()], portable);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, TrainingReference, ::testing::Range(size_t{0}, Cases().size()), [](const auto& info) {
  const Json& c = Cases()[info.param];
  return c["preset"].template get<std::string>() + "_" + c["optimizer"].template get<std::string>();
});

TEST(TrainingReferenceCensus, EveryPreset_HasACaseOfEachOptimizer) {
  for (const std::string& preset : PresetNames())
    for (const char* optimizer : {"sgd", "momentum", "adam"})
      EXPECT_TRUE(std::ranges::any_of(
          Cases(), [&](const Json& c) { return c["preset"] == preset && c["optimizer"] == optimizer; }))
          << preset << " " << optimizer;
}

}  // namespace
}  // namespace rivulet
