// Every preset is served: with a fixed batch its answers are to the bit the same whatever the request's neighbours and
// place, and the scores in the program that measures versions (setup/measured_set.h). The matrix products of some
// presets sum the last rows of a batch in another order. In a measurement's batch these are examples too, and in a
// server's spare rows.
#include "engine/presets/presets.h"

#include <algorithm>
#include <future>

#include "engine/compile/compile.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/algorithms/algorithm.h"
#include "inspect/model_source.h"
#include "serving/batcher.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

constexpr int64_t kBatch = 4;

// Values of one feature for a batch, by a formula; integers below the feature's bound.
Tensor SomeValues(const FeatureSpec& feature, int seed) {
  std::vector<int64_t> dims = {kBatch};
  dims.insert(dims.end(), feature.shape.dims().begin(), feature.shape.dims().end());
  const bool integers = feature.encoding == FeatureEncoding::kInt64;
  Tensor tensor(integers ? DType::kInt64 : DType::kFloat32, Shape(std::move(dims)));
  int n = seed;
  if (integers) {
    for (int64_t& value : tensor.flat<int64_t>()) value = (n += 37) % std::max<int64_t>(feature.upper_bound, 1);
  } else {
    for (float& value : tensor.flat<float>()) value = static_cast<float>((n += 37) % 101) / 101.0f;
  }
  return tensor;
}

// The scores of all rows in a program that also computes the loss and the metrics, as an evaluation's does.
std::vector<std::byte> ScoresInEvaluation(const Plan& plan, const Model& model, const std::string& scores,
                                          std::vector<Tensor>& values) {
  Signature signature;
  std::vector<TensorView> feeds, fetches;
  for (size_t i = 0; i < values.size(); ++i) {
    signature.feeds.push_back({plan.features()[i].placeholder, {values[i].dtype(), values[i].shape()}});
    feeds.push_back(values[i].view());
  }
  signature.fetches = {scores, plan.model().eval_loss};
  for (const auto& [name, tensor] : plan.model().metrics) signature.fetches.push_back(tensor);
  for (const Slice& slice : plan.layout()->slices())
    signature.variables.push_back({slice.name, 0, slice.offset, slice.spec});
  const auto program = CompileProgram(plan.model().graph, signature, plan.compile_options());
  EXPECT_OK(program);
  const auto instance = (*program)->Instantiate();
  EXPECT_OK(instance);
  std::vector<Tensor> fetched;
  for (const TensorSpec& spec : (*program)->fetch_specs()) fetched.emplace_back(spec.dtype, spec.shape);
  for (Tensor& tensor : fetched) fetches.push_back(tensor.view());
  AlignedBuffer arena = AlignedBuffer::Create((*program)->memory().arena_bytes).value();
  const Buffer params{const_cast<std::byte*>(model.arena().data()), DType::kFloat32, 0};
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = {&params, 1};
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  EXPECT_OK((*instance)->Run(bindings));
  return {fetches[0].data, fetches[0].data + fetches[0].bytes()};
}

class ServedPreset : public ::testing::TestWithParam<std::string> {};

TEST_P(ServedPreset, AnswersAreThoseOfEvaluationToTheBit) {
  Scenario scenario = testing::LocalScenario();
  scenario.model.preset = GetParam();
  const auto model = Preset(GetParam());
  EXPECT_OK(model);
  const auto plan = ComposePlan(scenario, *model);
  EXPECT_OK(plan);
  const auto served = ServedPlan::Create(*plan, {.outputs = {}, .scores = ScoresOf});
  EXPECT_OK(served);
  ASSERT_EQ((*served)->outputs().size(), 1u);
  LoadedVersion loaded;
  loaded.plan = *served;
  loaded.model = InitialModel(**plan, 7).value();
  const auto version = std::make_shared<const LoadedVersion>(loaded);
  ASSERT_OK(WarmUp(*version, std::vector<int64_t>{kBatch}, /*equal_places=*/true));

  std::vector<Tensor> values;
  for (const FeatureSpec& feature : (*plan)->features())
    values.push_back(SomeValues(feature, static_cast<int>(values.size())));
  const std::vector<std::byte> wanted = ScoresInEvaluation(**plan, *version->model, ScoresOf((*plan)->model()), values);
  const auto scores = std::span(reinterpret_cast<const float*>(wanted.data()), wanted.size() / sizeof(float));
  ASSERT_TRUE(std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }));
  ASSERT_NE(*std::ranges::min_element(scores), *std::ranges::max_element(scores));

  Batcher batcher({.max_batch = kBatch, .threads = 1, .fixed = kBatch});
  // The answers of a request of some rows.
  const auto answered = [&](int64_t first, int64_t rows) {
    std::vector<std::byte> found;
    BatchedRequest request{.version = version, .rows = rows};
    for (const ServedInput& input : (*served)->inputs()) {
      for (size_t i = 0; i < values.size(); ++i) {
        const std::string& placeholder = (*plan)->features()[i].placeholder;
        if (placeholder.substr(0, placeholder.find(':')) != input.name) continue;
        request.inputs.push_back(static_cast<const std::byte*>(values[i].view().data) +
                                 TensorBytes(input.row) * static_cast<size_t>(first));
      }
    }
    std::promise<void> done;
    request.done = [&](const Status& status, std::span<const TensorView> outputs, const RequestTimes&) {
      EXPECT_OK(status);
      if (status.ok()) found.assign(outputs[0].data, outputs[0].data + outputs[0].bytes());
      done.set_value();
    };
    batcher.Submit(std::move(request));
    done.get_future().wait();
    return found;
  };
  const std::vector<std::byte> all = answered(0, kBatch);
  std::vector<std::byte> singly;
  for (int64_t row = 0; row < kBatch; ++row) {
    const std::vector<std::byte> one = answered(row, 1);
    singly.insert(singly.end(), one.begin(), one.end());
  }
  EXPECT_EQ(singly, all);
  std::vector<std::byte> in_two = answered(0, 1);
  const std::vector<std::byte> rest = answered(1, kBatch - 1);
  in_two.insert(in_two.end(), rest.begin(), rest.end());
  EXPECT_EQ(in_two, all);
  // Where the server has spare rows, the measurement's last row is summed as no other is.
  ASSERT_EQ(all.size(), wanted.size());
  const size_t same = (*served)->SpareRows(kBatch) == 0 ? wanted.size() : wanted.size() / kBatch * (kBatch - 1);
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + static_cast<ptrdiff_t>(same), wanted.begin()));
}

INSTANTIATE_TEST_SUITE_P(All, ServedPreset, ::testing::ValuesIn(PresetNames()),
                         [](const auto& preset) { return preset.param; });

}  // namespace
}  // namespace rivulet
