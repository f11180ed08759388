// Models as lists of layers.
#include "engine/models/layer_list.h"

#include <fstream>
#include <sstream>

#include "dataflow/session/session.h"
#include "engine/graphdef/graph_def.h"
#include "engine/models/freeze.h"
#include "engine/models/layer_kinds.h"
#include "engine/presets/presets.h"
#include "tests/engine/models/setting_rows.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::rivulet::testing::AddTrainingStep;
using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kRefused = absl::StatusCode::kInvalidArgument;

std::string S(const char* text) { return text; }
LayerSpec Layer(const char* type, LayerSpec more = {}) {
  more["type"] = S(type);
  return more;
}
const LayerSpec kFlatten = Layer("flatten");
LayerSpec Dense(int64_t units) { return Layer("dense", {{"units", units}}); }

StatusOr<ModelDef> Build(const std::vector<LayerSpec>& layers, ClassifierOptions options = {}) {
  return ModelFromLayers(options, layers);
}
std::string ErrorOf(const std::vector<LayerSpec>& layers, ClassifierOptions options = {}) {
  return testing::ErrorOf(Build(layers, options));
}

TEST(ModelFromLayers, MnistCnnAsLayers_IsThePresetToTheByte) {
  const LayerSpec pool = Layer("max_pool", {{"padding", S("same")}});
  const auto conv = [](int64_t filters) {
    return Layer("conv2d",
                 {{"filters", filters}, {"size", int64_t{5}}, {"padding", S("same")}, {"activation", S("relu")}});
  };
  LayerSpec hidden = Dense(512);
  hidden["activation"] = S("relu");
  LayerSpec flatten = kFlatten;
  flatten["name"] = S("flatten");
  ASSERT_OK_AND_ASSIGN(const ModelDef model, Build({conv(32), pool, conv(64), pool, flatten, hidden, Dense(10)}));
  ASSERT_OK_AND_ASSIGN(const ModelDef preset, Preset("mnist_cnn"));
  EXPECT_TRUE(SerializeGraph(model.graph) == SerializeGraph(preset.graph));
}

TEST(ModelFromLayers, ResidualBlock_AddsWhatItNames) {
  ClassifierOptions options;
  options.input = {8, 8, 3};
  const auto conv = [](const char* name, const char* from = nullptr) {
    LayerSpec layer = Layer("conv2d", {{"name", S(name)}, {"filters", int64_t{4}}, {"padding", S("same")}});
    if (from != nullptr) layer["from"] = S(from);
    return layer;
  };
  ASSERT_OK_AND_ASSIGN(const ModelDef model,
                       Build({conv("a"), Layer("batch_norm"), Layer("activation"), conv("b"),
                              Layer("add", {{"with", S("a")}, {"activation", S("relu")}}), conv("c", "input"),
                              Layer("concat", {{"with", S("add1")}}), Layer("global_avg_pool"), Dense(3)},
                             options));
  EXPECT_EQ(model.classes, 3);
  EXPECT_EQ(model.train_loss, "training/loss");
  EXPECT_THAT(model.train_updates, ::testing::SizeIs(2));
  ASSERT_OK_AND_ASSIGN(const Output joined, model.graph.FindOutput("concat1/ConcatV2"));
  EXPECT_EQ(joined.shape().dim(3), 8);
  int shared = 0;
  for (const ModelVariable& variable : model.variables) shared += variable.segment == "shared";
  EXPECT_EQ(shared, 2);  // mean and variance
}

// Every kind in some model, trained for a few steps: the loss falls.
double Fall(const std::vector<LayerSpec>& layers, ClassifierOptions options) {
  auto built = Build(layers, options);
  EXPECT_OK(built);
  if (!built.ok()) return 0;
  ModelDef& model = *built;
  OptimizerSpec adam = {.kind = "adam"};
  const auto step = AddTrainingStep(model, adam);
  EXPECT_OK(step);
  if (!step.ok()) return 0;
  std::vector<std::string> targets = model.train_updates;
  targets.push_back(*step);
  const auto batched = [](Shape shape) {
    shape.set_dim(0, 6);
    return shape;
  };
  Tensor input(model.input.spec.dtype, batched(model.input.spec.shape)),
      label(model.label.spec.dtype, batched(model.label.spec.shape));
  for (size_t i = 0; i < static_cast<size_t>(input.shape().elements()); ++i) {
    if (input.dtype() == DType::kInt64)
      input.flat<int64_t>()[i] = static_cast<int64_t>(i * 7 % 5);
    else
      input.flat<float>()[i] = static_cast<float>(i * 37 % 101) / 101;
  }
  for (size_t i = 0; i < static_cast<size_t>(label.shape().elements()); ++i) {
    if (label.dtype() == DType::kInt64)
      label.flat<int64_t>()[i] =
          model.label.upper_bound == 2 ? static_cast<int64_t>(i % 2) : static_cast<int64_t>(i % 3);
    else
      label.flat<float>()[i] = static_cast<float>(i % 3);
  }
  const auto session = Session::Create(model.graph.Clone(), {.seed = 5});
  EXPECT_OK((*session)->Run({}, {}, {model.init_target}));
  const Session::Feeds feeds = {{model.input.placeholder, input}, {model.label.placeholder, label}};
  double first = 0, last = 0;
  for (int i = 0; i < 40; ++i) {
    const auto loss = (*session)->Run(feeds, {model.train_loss}, targets);
    EXPECT_OK(loss);
    if (!loss.ok()) return 0;
    last = (*loss)[0].flat<float>()[0];
    if (i == 0) first = last;
  }
  return first - last;
}

TEST(ModelFromLayers, EveryKind_TrainsInSomeModel) {
  ClassifierOptions image, values, text;
  image.input = {8, 8, 4};
  values.input = {12, 2};
  values.encoding = FeatureEncoding::kFloat;
  text.input = {6};
  text.encoding = FeatureEncoding::kInt64;
  const LayerSpec embedding = Layer("embedding", {{"vocabulary", int64_t{5}}, {"units", int64_t{8}}});
  const auto recurrent = [](const char* kind, bool all) {
    return Layer(kind, {{"units", int64_t{6}}, {"sequences", all}});
  };
  const LayerSpec conv = Layer("conv2d", {{"filters", int64_t{8}}, {"stride", int64_t{2}}, {"padding", S("same")}});
  const std::vector<std::pair<std::vector<LayerSpec>, ClassifierOptions>> models = {
      {{conv, Layer("group_norm", {{"groups", int64_t{2}}}), Layer("activation"), Layer("zero_pad"),
        Layer("depthwise_conv2d", {{"multiplier", int64_t{2}}}), Layer("instance_norm"),
        Layer("conv2d_transpose", {{"filters", int64_t{4}}, {"stride", int64_t{2}}, {"size", int64_t{2}}}),
        Layer("avg_pool"), Layer("batch_norm"), Layer("dropout", {{"rate", 0.1}}), Layer("global_max_pool"), Dense(3)},
       image},
      {{Layer("conv1d", {{"filters", int64_t{6}}, {"dilation", int64_t{2}}, {"activation", S("tanh")}}),
        Layer("max_pool"), Layer("layer_norm"), Layer("reshape", {{"shape", std::vector<int64_t>{2, 12}}}), kFlatten,
        Dense(3)},
       values},
      {{embedding, recurrent("lstm", true), recurrent("gru", true), recurrent("simple_rnn", false), Dense(3)}, text},
      {{embedding, Layer("positions"),
        Layer("transformer", {{"heads", int64_t{2}}, {"hidden", int64_t{16}}, {"causal", true}, {"dropout", 0.1}}),
        Layer("self_attention", {{"heads", int64_t{4}}}), Dense(3)},
       text},
      {{kFlatten, Dense(4), Layer("add", {{"with", S("dense1")}}), Layer("concat", {{"with", S("dense1")}}),
        Layer("reshape", {{"shape", std::vector<int64_t>{2, 2, 2}}}), Layer("global_avg_pool"), Dense(3)},
       image},
  };
  std::set<std::string> used;
  for (size_t i = 0; i < models.size(); ++i) {
    SCOPED_TRACE(i);
    for (const LayerSpec& layer : models[i].first) used.insert(std::get<std::string>(layer.at("type")));
    EXPECT_GT(Fall(models[i].first, models[i].second), 0.01);
  }
  for (const LayerKind& kind : LayerKinds()) EXPECT_TRUE(used.contains(kind.name)) << kind.name;
}

TEST(ModelFromLayers, EveryObjective_Trains) {
  for (const TargetKind target : {TargetKind::kClass, TargetKind::kLabels, TargetKind::kNumbers}) {
    for (const std::string& loss : ObjectiveNames(target)) {
      ClassifierOptions options;
      options.input = {4, 4, 1};
      options.target = target;
      options.loss = loss;
      EXPECT_GT(Fall({kFlatten, Dense(3)}, options), 0.005) << loss;
    }
  }
}

TEST(ModelFromLayers, Targets_SayWhatTheLabelIs) {
  ClassifierOptions options;
  options.input = {4, 4, 1};
  options.target = TargetKind::kLabels;
  options.loss = "sigmoid_cross_entropy";
  ASSERT_OK_AND_ASSIGN(const ModelDef labels, Build({kFlatten, Dense(3)}, options));
  EXPECT_EQ(labels.label.spec, (TensorSpec{DType::kInt64, {kUnknownDim, 3}}));
  EXPECT_EQ(labels.label.upper_bound, 2);
  options.target = TargetKind::kNumbers;
  options.loss = "mse";
  ASSERT_OK_AND_ASSIGN(const ModelDef numbers, Build({kFlatten, Dense(1)}, options));
  EXPECT_EQ(numbers.label.spec, (TensorSpec{DType::kFloat32, {kUnknownDim, 1}}));
  EXPECT_EQ(numbers.label.encoding, FeatureEncoding::kFloat);
  EXPECT_THAT(numbers.metrics, ElementsAre(std::pair("mse", "mse"), std::pair("mae", "mae")));
  options.loss = "sigmoid_cross_entropy";
  EXPECT_THAT(
      ErrorOf({kFlatten, Dense(1)}, options),
      HasSubstr("there is no objective 'sigmoid_cross_entropy' for the target \"numbers\". Objectives for it are "
                "mse, huber, mae"));
}

TEST(ModelFromLayers, Mistakes_NameLayerKeyAndNearest) {
  const LayerSpec dense = Dense(10);
  EXPECT_THAT(ErrorOf({}), HasSubstr("a model needs one layer or more"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dens", {{"units", int64_t{10}}})}),
              HasSubstr("layer 2: there is no layer type 'dens'. Did you mean 'dense'?"));
  EXPECT_THAT(ErrorOf({kFlatten, {{"units", int64_t{1}}}}), HasSubstr("layer 2: type must be given"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dense", {{"unit", int64_t{10}}})}),
              HasSubstr("layer 2 ('dense1', dense): units must be given"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dense", {{"units", int64_t{10}}, {"activaton", S("relu")}})}),
              HasSubstr("layer 2 ('dense1', dense): unknown key 'activaton'. Did you mean 'activation'?"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dense", {{"units", int64_t{10}}, {"activation", S("rleu")}})}),
              HasSubstr("not \"rleu\". Did you mean 'relu'?"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dense", {{"units", int64_t{0}}})}),
              HasSubstr("units must be at least 1 and below 1000000000, not 0"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dense", {{"units", S("ten")}})}),
              HasSubstr("units must be an integer, not the string \"ten\""));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("dropout", {{"rate", 1.0}}), dense}),
              HasSubstr("rate must be at least 0 and below 1, not 1"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("conv2d", {{"filters", int64_t{3}}, {"size", std::vector<int64_t>{}}})}),
              HasSubstr("size must hold 1 value or more, not 0"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("add", {{"with", S("")}}), dense}),
              HasSubstr("with must be a string of one character or more, not the string \"\""));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("add", {{"with", S("flaten")}}), dense}),
              HasSubstr("with = \"flaten\" names no layer before this one."));
  EXPECT_THAT(ErrorOf({Layer("flatten", {{"name", S("a")}}), Layer("flatten", {{"name", S("a")}}), dense}),
              HasSubstr("layer 2 ('a', flatten): the name is taken"));
  EXPECT_THAT(ErrorOf({Layer("flatten", {{"name", S("a/b")}}), dense}), HasSubstr("name must begin with a letter"));
  EXPECT_THAT(ErrorOf({dense}), HasSubstr("the model's output is float32[?,28,28,10]"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("conv2d", {{"filters", int64_t{3}}})}),
              HasSubstr("layer 2 ('conv1', conv2d): layer 'conv1' (conv2d) needs an input of 4 dimensions"));
  EXPECT_THAT(ErrorOf({Layer("conv2d", {{"filters", int64_t{3}}, {"size", int64_t{29}}}), kFlatten, dense}),
              HasSubstr("layer 1 ('conv1', conv2d)"));
  EXPECT_THAT(
      ErrorOf({Layer("conv2d", {{"filters", int64_t{3}}, {"size", std::vector<int64_t>{3, 3, 3}}}), kFlatten, dense}),
      HasSubstr("layer 1 ('conv1', conv2d): size must be one integer or 2"));
  EXPECT_THAT(ErrorOf({Layer("conv2d", {{"filters", int64_t{1000000}}, {"size", int64_t{900000}}}), kFlatten, dense}),
              HasSubstr("layer 1"));
  EXPECT_THAT(ErrorOf({kFlatten, Layer("reshape", {{"shape", std::vector<int64_t>{5, 5}}}), dense}),
              HasSubstr("cannot make [5,5] of examples of 784 values"));
  EXPECT_THAT(ErrorOf({kFlatten}), HasSubstr("the model has no variables"));
  ClassifierOptions options;
  options.loss = "mes";
  EXPECT_THAT(ErrorOf({kFlatten, dense}, options),
              HasSubstr("there is no objective 'mes' for the target \"class\". Did you mean 'mse'?"));
}

// The kinds with their keys: what docs/reference/models.md holds between its markers.
std::string LayerReference() {
  std::string page;
  for (const LayerKind& kind : LayerKinds()) {
    page += fmt::format("\n### `{}`\n\n{}\n", kind.name, kind.doc);
    if (kind.keys.empty()) continue;
    page += "\n" + testing::SettingRows(kind.keys);
  }
  return page;
}

TEST(LayerReference, IsWhatTheDocumentHolds) {
  const std::string path = std::string(RIVULET_SOURCE_DIR) + "/docs/reference/models.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << "docs/reference/models.md is missing";
  std::stringstream text;
  text << file.rdbuf();
  std::string page = text.str();
  const std::string begin = "<!-- layers: begin -->\n", end = "\n<!-- layers: end -->\n";
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const size_t start = from + begin.size();
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) {
    page.replace(start, to - start, LayerReference());
    std::ofstream(path) << page;
    return;
  }
  EXPECT_EQ(page.substr(start, to - start), LayerReference())
      << "run this test with RIVULET_UPDATE_DOCS=1 to bring docs/reference/models.md up to date";
}

TEST(Freeze, MatchingVariables_AreNotTrained) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("resnet8"));
  const std::vector<std::string> patterns = {"conv*", "*_block1_conv1/kernel"};
  ASSERT_OK(Freeze(model, patterns));
  std::vector<std::string> frozen;
  for (const ModelVariable& variable : model.variables)
    if (variable.segment == "frozen") frozen.push_back(variable.name);
  EXPECT_THAT(frozen, ElementsAre("conv/kernel", "conv_norm/gamma", "conv_norm/beta", "conv_norm/moving_mean",
                                  "conv_norm/moving_variance", "stage1_block1_conv1/kernel",
                                  "stage2_block1_conv1/kernel", "stage3_block1_conv1/kernel"));
  EXPECT_EQ(model.train_updates.size(), 2u * 6);  // of the seven normalisations, one is frozen
}

TEST(Freeze, PatternWithoutVariable_OrNothingLeft_IsRefused) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("mlp"));
  const std::vector<std::string> missing = {"dense4/*"}, all = {"*"};
  EXPECT_THAT(Freeze(model, missing),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no variable matches 'dense4/*'.")));
  EXPECT_THAT(Freeze(model, all), StatusIs(kRefused, HasSubstr("every variable is frozen")));
}

TEST(MakePersonal, MatchingVariables_AreLocal) {
  ASSERT_OK_AND_ASSIGN(ModelDef model, Preset("resnet8"));
  ASSERT_OK(MakePersonal(model, std::vector<std::string>{"conv_norm/*"}));
  std::vector<std::string> local;
  for (const ModelVariable& variable : model.variables)
    if (variable.segment == "local") local.push_back(variable.name);
  EXPECT_THAT(local,
              ElementsAre("conv_norm/gamma", "conv_norm/beta", "conv_norm/moving_mean", "conv_norm/moving_variance"));
  EXPECT_EQ(model.train_updates.size(), 2u * 7) << "a client's own statistics move as all others do";
  EXPECT_THAT(MakePersonal(model, std::vector<std::string>{"conv_nrm/*"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no variable matches 'conv_nrm/*'.")));
  EXPECT_THAT(MakePersonal(model, std::vector<std::string>{"*"}),
              StatusIs(kRefused, HasSubstr("every variable is personal")));
}

}  // namespace
}  // namespace rivulet
