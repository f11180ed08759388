// Training steps of every preset have the same bits with and without the passes that claim exactness.
#include <cstring>

#include "dataflow/session/session.h"
#include "engine/presets/presets.h"
#include "tests/engine/passes/optimized.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet::testing {
namespace {

class PresetSteps : public ::testing::TestWithParam<std::string> {};

Tensor Batch(const TensorSpec& spec, int64_t batch, int64_t classes) {
  Shape shape = spec.shape;
  shape.set_dim(0, batch);
  Tensor tensor(spec.dtype, shape);
  int64_t i = 0;
  if (spec.dtype == DType::kFloat32) {
    for (float& x : tensor.flat<float>()) x = static_cast<float>(i++ * 37 % 256) / 255;
  } else if (spec.dtype == DType::kInt32) {
    for (int32_t& x : tensor.flat<int32_t>()) x = static_cast<int32_t>(i++ % classes);
  } else {
    for (int64_t& x : tensor.flat<int64_t>()) x = i++ % classes;
  }
  return tensor;
}

// Variables and losses after some steps.
std::vector<Tensor> Train(const std::string& preset, const OptimizerSpec& optimizer, const PassOptions& passes) {
  StatusOr<ModelDef> model = Preset(preset);
  EXPECT_OK(model);
  const auto step = AddTrainingStep(*model, optimizer);
  EXPECT_OK(step);
  const std::string target = *step, loss = model->train_loss;
  SessionConfig config;
  config.seed = 7;
  config.passes = passes;
  auto session = Session::Create(std::move(model->graph), config);
  EXPECT_OK(session);
  EXPECT_THAT((*session)->Run({}, {}, {model->init_target}), IsOk());
  std::vector<Tensor> results;
  const Session::Feeds feeds = {{model->input.placeholder, Batch(model->input.spec, 3, model->classes)},
                                {model->label.placeholder, Batch(model->label.spec, 3, model->classes)}};
  for (int i = 0; i < 2; ++i) {
    auto losses = (*session)->Run(feeds, {loss}, {target});
    EXPECT_OK(losses);
    if (losses.ok()) results.push_back((*losses)[0]);
  }
  for (const std::string& name : (*session)->variables()) {
    auto value = (*session)->GetVariable(name);
    EXPECT_OK(value);
    if (value.ok()) results.push_back(*value);
  }
  return results;
}

TEST_P(PresetSteps, WithAndWithoutExactPasses_GiveTheSameBits) {
  PassOptions exact, none = NoPasses().passes;
  for (const Pass& pass : Passes())
    if (!pass.exact) exact.without.emplace_back(pass.name);
  for (const auto kind : {"sgd", "momentum"}) {
    OptimizerSpec optimizer;
    optimizer.kind = kind;
    const std::vector<Tensor> with = Train(GetParam(), optimizer, exact), without = Train(GetParam(), optimizer, none);
    ASSERT_EQ(with.size(), without.size());
    for (size_t i = 0; i < with.size(); ++i) {
      ASSERT_EQ(with[i].shape(), without[i].shape());
      EXPECT_EQ(std::memcmp(with[i].data(), without[i].data(), with[i].bytes()), 0) << "result " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetSteps, ::testing::ValuesIn(PresetNames()));

}  // namespace
}  // namespace rivulet::testing
