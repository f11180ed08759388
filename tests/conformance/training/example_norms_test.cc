// Norms of single examples' gradients against PyTorch, one example after the other, and against Opacus
// (make_example_norms.py wrote example_norms.json and says what is in it).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dataflow/session/session.h"
#include "engine/gradients/example_gradients.h"
#include "engine/variables/variables.h"
#include "tests/conformance/training/reference_formula.h"
#include "tests/testing/reference_json.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::Json;

// Float32 beside a reference of float64, over sums of some thousand positions.
constexpr double kNormTolerance = 1e-5;

const Json& NormCases() {
  static const Json cases = testing::ReadJson(RIVULET_REFERENCE_FOLDER "/example_norms.json");
  return cases;
}

class ExampleNorms : public ::testing::TestWithParam<size_t> {};

TEST_P(ExampleNorms, ArePyTorchsAndOpacuss) {
  const Json& c = NormCases()[GetParam()];
  const auto examples = c["batch"].get<int64_t>();
  ASSERT_OK_AND_ASSIGN(const ModelDef model, testing::ModelOf(c));
  ASSERT_OK_AND_ASSIGN(Graph graph, WithBatchOf(model.graph, examples));
  std::vector<Output> handles;
  for (const ModelVariable& variable : model.variables) {
    if (variable.segment != "trainable") continue;
    ASSERT_OK_AND_ASSIGN(handles.emplace_back(), graph.FindOutput(variable.name));
  }
  ASSERT_OK_AND_ASSIGN(const Output loss, graph.FindOutput(model.eval_loss));
  ASSERT_OK_AND_ASSIGN(const ClippedGradients clipped,
                       ComputeClippedGradients(graph, loss, handles, {.examples = examples}));
  for (const bool portable : {false, true}) {
    SCOPED_TRACE(portable ? "portable kernels" : "native kernels");
    SessionConfig config;
    config.kernels.portable = portable;
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph.Clone(), config));
    for (const ModelVariable& variable : model.variables) {
      ASSERT_OK(session->SetVariable(variable.name, testing::FirstValue(variable.name, variable.spec.shape)));
    }
    ASSERT_OK_AND_ASSIGN(const auto fetched, session->Run(testing::Batch(c, model, 0), {clipped.norms.name()}));
    const std::span<const float> norms = fetched[0].flat<float>();
    ASSERT_EQ(norms.size(), c["pytorch"].size());
    for (const char* peer : {"pytorch", "opacus"}) {
      for (size_t i = 0; i < c[peer].size(); ++i) {
        const double expected = c[peer][i].get<double>();
        EXPECT_NEAR(norms[i], expected, kNormTolerance * expected) << peer << ", example " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, ExampleNorms, ::testing::Range(size_t{0}, NormCases().size()), [](const auto& info) {
  return NormCases()[info.param]["preset"].template get<std::string>();
});

}  // namespace
}  // namespace rivulet
