// Recurrent layers, attention and positions in models that are lists of layers.
#include "dataflow/session/session.h"
#include "engine/models/layer_list.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AddTrainingStep;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// Sequences of five rows of three numbers.
ClassifierOptions Sequences() {
  ClassifierOptions options;
  options.input = {5, 3};
  options.encoding = FeatureEncoding::kFloat;
  return options;
}

StatusOr<ModelDef> With(LayerSpec layer) {
  const std::vector<LayerSpec> layers = {
      std::move(layer),
      {{"type", std::string("flatten")}},
      {{"type", std::string("dense")}, {"name", std::string("out")}, {"units", int64_t{2}}}};
  return ModelFromLayers(Sequences(), layers);
}

LayerSpec Layer(std::string type, LayerSpec keys = {}) {
  keys["type"] = std::move(type);
  return keys;
}

int64_t ParametersOf(const ModelDef& model, std::string_view layer) {
  int64_t sum = 0;
  for (const ModelVariable& variable : model.variables)
    if (variable.name.starts_with(layer)) sum += variable.spec.shape.elements();
  return sum;
}

// Keras's count_params() of each layer on [5, 3].
TEST(SequenceLayers, Parameters_AreThoseOfKeras) {
  const std::vector<std::tuple<std::string, LayerSpec, int64_t>> cases = {
      {"lstm", {}, 128},      {"lstm", {{"direction", std::string("bidirectional")}}, 256},
      {"gru", {}, 108},       {"gru", {{"reset_after", false}}, 96},
      {"simple_rnn", {}, 32}, {"simple_rnn", {{"direction", std::string("reverse")}}, 32},
  };
  for (const auto& [type, keys, parameters] : cases) {
    LayerSpec layer = Layer(type, keys);
    layer["units"] = int64_t{4};
    ASSERT_OK_AND_ASSIGN(const ModelDef model, With(layer));
    EXPECT_EQ(ParametersOf(model, type), parameters) << type;
  }
  ASSERT_OK_AND_ASSIGN(const ModelDef attention, With(Layer("self_attention", {{"heads", int64_t{3}}})));
  EXPECT_EQ(ParametersOf(attention, "attention"), 48);
  ASSERT_OK_AND_ASSIGN(const ModelDef positions, With(Layer("positions")));
  EXPECT_EQ(ParametersOf(positions, "positions"), 15);
}

TEST(SequenceLayers, Widths_FollowTheKeys) {
  const auto out_rows = [](LayerSpec layer) {
    const auto model = With(std::move(layer));
    EXPECT_OK(model);
    for (const ModelVariable& variable : model->variables)
      if (variable.name == "out/kernel") return variable.spec.shape.dim(0);
    return int64_t{0};
  };
  EXPECT_EQ(out_rows(Layer("lstm", {{"units", int64_t{4}}})), 4);
  EXPECT_EQ(out_rows(Layer("gru", {{"units", int64_t{4}}, {"sequences", true}})), 20);
  EXPECT_EQ(out_rows(Layer("lstm", {{"units", int64_t{4}}, {"direction", std::string("bidirectional")}})), 8);
  EXPECT_EQ(out_rows(Layer("self_attention", {{"heads", int64_t{1}}, {"causal", true}})), 15);
}

TEST(SequenceLayers, UnfitLayers_AreRefusedByName) {
  const auto error = [](LayerSpec layer) { return With(std::move(layer)).status(); };
  EXPECT_THAT(error(Layer("self_attention", {{"heads", int64_t{2}}})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot divide 3 features into 2 heads")));
  EXPECT_THAT(
      error(Layer("lstm", {{"units", int64_t{4}}, {"direction", std::string("backward")}})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("direction must be one of \"forward\", \"reverse\"")));
  EXPECT_THAT(error(Layer("lstm", {{"units", int64_t{4}}, {"activation", std::string("tan")}})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Did you mean 'tanh'?")));
  const std::vector<LayerSpec> layers = {Layer("flatten"), Layer("lstm", {{"units", int64_t{4}}})};
  EXPECT_THAT(ModelFromLayers(Sequences(), layers).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs an input of 3 dimensions")));
}

// Class 1 where the first row of a sequence is the larger one: what comes after must not make the layer forget it.
TEST(SequenceLayers, EachKind_LearnsWhatStoodFirst) {
  for (const LayerSpec& layer : {Layer("lstm", {{"units", int64_t{8}}}),
                                 Layer("gru", {{"units", int64_t{8}}, {"direction", std::string("bidirectional")}}),
                                 Layer("simple_rnn", {{"units", int64_t{8}}, {"direction", std::string("reverse")}}),
                                 Layer("self_attention", {{"heads", int64_t{1}}}), Layer("positions")}) {
    SCOPED_TRACE(std::get<std::string>(layer.at("type")));
    ASSERT_OK_AND_ASSIGN(ModelDef model, With(layer));
    OptimizerSpec optimizer;
    optimizer.kind = "adam";
    optimizer.learning_rate = 0.03;
    ASSERT_OK_AND_ASSIGN(const std::string target, AddTrainingStep(model, optimizer));
    Tensor input(DType::kFloat32, Shape{16, 5, 3}), label(DType::kInt64, Shape{16});
    for (int64_t i = 0; i < 16; ++i) {
      label.flat<int64_t>()[static_cast<size_t>(i)] = i % 2;
      for (int64_t k = 0; k < 15; ++k)
        input.flat<float>()[static_cast<size_t>(i * 15 + k)] = static_cast<float>((i * 15 + k) * 37 % 64) / 64 - 0.5f;
      for (int64_t k = 0; k < 3; ++k) input.flat<float>()[static_cast<size_t>(i * 15 + k)] += i % 2 == 1 ? 1 : -1;
    }
    const Session::Feeds feeds = {{model.input.placeholder, input}, {model.label.placeholder, label}};
    const std::string init = model.init_target;
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(model.graph), {.seed = 3}));
    ASSERT_OK(session->Run({}, {}, {init}));
    for (int i = 0; i < 100; ++i) ASSERT_OK(session->Run(feeds, {}, {target}));
    ASSERT_OK_AND_ASSIGN(const auto after, session->Run(feeds, {"accuracy"}));
    EXPECT_EQ(after[0].flat<float>()[0], 1);
  }
}

}  // namespace
}  // namespace rivulet
