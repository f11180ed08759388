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
#include "tests/testing/reference_json.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using testing::AddTrainingStep;
using testing::Json;

constexpr double kDirectAllowance = 16, kWinogradAllowance = 160, kRounding = 4e-6;

const Json& Cases() {
  static const Json cases = testing::ReadJson(RIVULET_REFERENCE_FOLDER "/training_reference.json");
  return cases;
}

uint32_t Fnv(std::string_view text) {
  uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  return value;
}

// In [-0.5, 0.5): murmur3's finaliser of index and seed, as the script has it.
double Uniform(uint32_t seed, size_t index) {
  uint32_t x = static_cast<uint32_t>(index) * 2654435761u + seed;
  x ^= x >> 16;
  x *= 0x85EBCA6Bu;
  x ^= x >> 13;
  x *= 0xC2B2AE35u;
  x ^= x >> 16;
  return x / 4294967296.0 - 0.5;
}

Tensor FirstValue(const std::string& name, const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  double scale = 0.2, offset = 0;
  if (ends("gamma") || ends("moving_variance")) {
    offset = 1;
  } else if (shape.rank() >= 2 && !ends("embeddings") && !ends("positions")) {
    int64_t fan = 1;
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) fan *= shape.dim(axis);
    if (name.find("depthwise") != std::string::npos) fan = shape.dim(0) * shape.dim(1);
    scale = std::sqrt(24 / static_cast<double>(fan));
  }
  const uint32_t seed = Fnv(name);
  const auto values = tensor.flat<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(offset + scale * Uniform(seed, i));
  return tensor;
}

Session::Feeds Batch(const Json& c, const ModelDef& model, int step) {
  const auto examples = c["batch"].get<int64_t>();
  const auto batched = [&](Shape shape) {
    shape.set_dim(0, examples);
    return shape;
  };
  Tensor input(model.input.spec.dtype, batched(model.input.spec.shape));
  Tensor label(DType::kInt64, batched(model.label.spec.shape));
  const auto classes = c["classes"].get<double>();
  const auto seed = static_cast<uint32_t>(step % 3);
  const auto index = [&](uint32_t of, size_t i) {
    return static_cast<int64_t>(std::floor((Uniform(of + seed, i) + 0.5) * classes));
  };
  for (size_t i = 0; i < static_cast<size_t>(input.shape().elements()); ++i) {
    if (input.dtype() == DType::kInt64)
      input.flat<int64_t>()[i] = index(1000, i);
    else
      input.flat<float>()[i] = static_cast<float>(Uniform(1000 + seed, i) + 0.5);
  }
  for (size_t i = 0; i < label.flat<int64_t>().size(); ++i) label.flat<int64_t>()[i] = index(2000, i);
  return {{model.input.placeholder, input}, {model.label.placeholder, label}};
}

void ExpectPyTorchsTwentySteps(const Json& c, bool portable) {
  PresetOptions options;
  if (!c.contains("tokens")) {
    options.classes = c["classes"].get<int64_t>();
    options.input = c["input"].get<std::vector<int64_t>>();
    options.normalization = c.value("normalization", "");
  }
  auto model = Preset(c["preset"].get<std::string>(), options);
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
