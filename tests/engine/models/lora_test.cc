#include "engine/models/lora.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
#include "engine/layers/layers.h"
#include "engine/models/layer_list.h"
#include "engine/presets/presets.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Pair;

ModelDef PresetModel(const std::string& name, const PresetOptions& options = {}) {
  auto model = Preset(name, options);
  EXPECT_OK(model);
  return *std::move(model);
}

Tensor LoraBatch(const TensorSpec& spec, int64_t batch, int64_t classes) {
  Shape shape = spec.shape;
  shape.set_dim(0, batch);
  Tensor tensor(spec.dtype, shape);
  int64_t i = 0;
  if (spec.dtype == DType::kFloat32) {
    for (float& x : tensor.flat<float>()) x = static_cast<float>(i++ * 37 % 256) / 255;
  } else {
    for (int64_t& x : tensor.flat<int64_t>()) x = i++ * 7 % classes;
  }
  return tensor;
}

Session::Feeds FeedsOf(const ModelDef& model, int64_t batch = 3) {
  return {{model.input.placeholder, LoraBatch(model.input.spec, batch, model.classes)},
          {model.label.placeholder, LoraBatch(model.label.spec, batch, model.classes)}};
}

std::unique_ptr<Session> Begun(const ModelDef& model) {
  SessionConfig config;
  config.seed = 7;
  auto session = Session::Create(model.graph.Clone(), config);
  EXPECT_OK(session);
  EXPECT_THAT((*session)->Run({}, {}, {model.init_target}), IsOk());
  return *std::move(session);
}

std::vector<Tensor> Evaluated(Session& session, const ModelDef& model) {
  auto values = session.Run(FeedsOf(model), {"logits", model.eval_loss});
  EXPECT_OK(values);
  return *std::move(values);
}

void ExpectSameBits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0);
}

std::set<std::string> SegmentOf(const ModelDef& model, std::string_view segment) {
  std::set<std::string> names;
  for (const ModelVariable& variable : model.variables)
    if (variable.segment == segment) names.insert(variable.name);
  return names;
}

void Set(Session& session, const std::string& name, const std::function<float(int64_t)>& value) {
  auto tensor = session.GetVariable(name);
  ASSERT_OK(tensor);
  int64_t i = 0;
  for (float& x : tensor->flat<float>()) x = value(i++);
  ASSERT_OK(session.SetVariable(name, *tensor));
}

TEST(Lora, BeforeTraining_TheModelComputesWhatItsBaseDoes) {
  for (const auto& [preset, targets] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"mlp", {"*"}},
                                                                     {"mnist_cnn", {"*"}},
                                                                     {"tiny_transformer", {"*"}},
                                                                     {"char_lstm", {"dense/*"}},
                                                                     {"resnet8", {"*"}}}) {
    SCOPED_TRACE(preset);
    const ModelDef base = PresetModel(preset);
    ModelDef adapted = PresetModel(preset);
    ASSERT_OK(AddLora(adapted, {.targets = targets, .dropout = 0.1}));
    const auto before = Begun(base), after = Begun(adapted);
    for (const ModelVariable& variable : base.variables) {
      ASSERT_OK_AND_ASSIGN(const Tensor drawn, before->GetVariable(variable.name));
      ASSERT_OK_AND_ASSIGN(const Tensor drawn_too, after->GetVariable(variable.name));
      ExpectSameBits(drawn, drawn_too);
    }
    const std::vector<Tensor> expected = Evaluated(*before, base), given = Evaluated(*after, adapted);
    ExpectSameBits(given[0], expected[0]);
    ExpectSameBits(given[1], expected[1]);
  }
}

TEST(Lora, AdaptersAlone_AreTrained) {
  ModelDef model = PresetModel("tiny_transformer");
  const std::set<std::string> base = SegmentOf(model, "trainable");
  ASSERT_OK(AddLora(model, {.targets = {"*attention*"}, .rank = 4}));
  EXPECT_EQ(SegmentOf(model, "frozen"), base);
  EXPECT_EQ(SegmentOf(model, "trainable").size(), 8u);
  const auto adapters = LoraAdaptersOf(model.graph);
  ASSERT_EQ(adapters.size(), 4u);
  EXPECT_EQ(adapters[0].variable, "block1/attention/query_key_value/kernel");
  EXPECT_EQ(adapters[0].a, "block1/attention/query_key_value/kernel/lora_A");
  EXPECT_EQ(adapters[0].scale, 4);
  EXPECT_THAT(adapters[0].product, ElementsAre(64, 192));
}

TEST(Lora, FirstValuesOfA_AreUniformWithinPeftsBound) {
  ModelDef model = PresetModel("mlp");
  ASSERT_OK(AddLora(model, {.targets = {"*kernel"}}));
  const auto session = Begun(model);
  for (const LoraAdapter& adapter : LoraAdaptersOf(model.graph)) {
    ASSERT_OK_AND_ASSIGN(const Tensor a, session->GetVariable(adapter.a));
    ASSERT_OK_AND_ASSIGN(const Tensor b, session->GetVariable(adapter.b));
    const double bound = 1 / std::sqrt(static_cast<double>(a.shape().dim(0)));
    double most = 0;
    for (const float x : a.flat<float>()) most = std::max(most, std::abs(static_cast<double>(x)));
    EXPECT_LE(most, bound);
    EXPECT_GT(most, 0.95 * bound);
    EXPECT_TRUE(std::ranges::all_of(b.flat<float>(), [](float x) { return x == 0; }));
  }
}

TEST(Lora, ScaleFollowsAlphaRankAndRslora) {
  for (const bool rslora : {false, true}) {
    ModelDef model = PresetModel("logistic_regression");
    ASSERT_OK(AddLora(model, {.targets = {"*kernel"}, .rank = 4, .alpha = 12, .rslora = rslora}));
    EXPECT_EQ(LoraAdaptersOf(model.graph)[0].scale, rslora ? 6 : 3);
  }
}

TEST(Lora, FrozenA_LeavesOnlyBToTrain) {
  ModelDef model = PresetModel("logistic_regression");
  ASSERT_OK(AddLora(model, {.targets = {"*kernel"}, .freeze_a = true}));
  EXPECT_THAT(SegmentOf(model, "trainable"), ElementsAre("dense1/kernel/lora_B"));
}

TEST(Lora, ModulesToSave_StayTrainable) {
  ModelDef model = PresetModel("mnist_cnn");
  ASSERT_OK(AddLora(model, {.targets = {"conv*"}, .modules_to_save = {"dense2/*"}}));
  const std::set<std::string> trained = SegmentOf(model, "trainable");
  EXPECT_TRUE(trained.contains("dense2/kernel"));
  EXPECT_TRUE(trained.contains("dense2/bias"));
  EXPECT_FALSE(trained.contains("dense1/kernel"));
}

// The adapter's own variables in the place of its products: the base's weights changed by A · B · s.
TEST(Lora, MergedWeights_ComputeWhatTheAdaptersDo) {
  for (const auto& [preset, targets] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"mlp", {"*"}},
                                                                     {"mnist_cnn", {"*"}},
                                                                     {"tiny_transformer", {"*"}},
                                                                     {"char_lstm", {"dense/*", "*embedding*"}}}) {
    SCOPED_TRACE(preset);
    const ModelDef base = PresetModel(preset);
    ModelDef model = PresetModel(preset);
    ASSERT_OK(AddLora(model, {.targets = targets, .rank = 3, .alpha = 2}));
    const auto adapted = Begun(model), merged = Begun(base);
    for (const LoraAdapter& adapter : LoraAdaptersOf(model.graph)) {
      Set(*adapted, adapter.b, [](int64_t i) { return 0.05f * static_cast<float>((i * 13 + 5) % 11 - 5); });
      ASSERT_OK_AND_ASSIGN(const Tensor a, adapted->GetVariable(adapter.a));
      ASSERT_OK_AND_ASSIGN(const Tensor b, adapted->GetVariable(adapter.b));
      ASSERT_OK_AND_ASSIGN(const Tensor weight, merged->GetVariable(adapter.variable));
      ASSERT_OK_AND_ASSIGN(const Tensor sum, MergeLora(adapter, weight, a, b));
      ASSERT_OK(merged->SetVariable(adapter.variable, sum));
    }
    const Tensor ours = Evaluated(*adapted, model)[0], theirs = Evaluated(*merged, base)[0];
    ASSERT_EQ(ours.shape(), theirs.shape());
    double scale = 1, off = 0, moved = 0;
    const Tensor before = Evaluated(*Begun(base), base)[0];
    for (int64_t i = 0; i < ours.elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      scale = std::max(scale, std::abs(static_cast<double>(theirs.flat<float>()[at])));
      off = std::max(off, std::abs(static_cast<double>(ours.flat<float>()[at]) - theirs.flat<float>()[at]));
      moved = std::max(moved, std::abs(static_cast<double>(before.flat<float>()[at]) - theirs.flat<float>()[at]));
    }
    EXPECT_LT(off, 2e-5 * scale);
    EXPECT_GT(moved, 1e-3 * scale);
  }
}

// Products of other forms than layers build, alone in a graph: x · W for every one of them.
struct Form {
  const char* name;
  Shape x, weight;
  DType index = DType::kFloat32;
  std::function<Output(const Scope&, Output, Output)> build;
};

Output IntsOf(const Scope& scope, std::vector<int32_t> values) {
  return scope.Const(Tensor::Of<int32_t>(Shape{static_cast<int64_t>(values.size())}, std::span<const int32_t>(values)));
}

std::vector<Form> Forms() {
  const AttrMap convolution = {{"strides", std::vector<int64_t>{1, 2, 2, 1}}, {"padding", std::string("SAME")}};
  return {
      {"weight on the left", Shape{5, 4}, Shape{3, 5}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("MatMul", {w, x});
       }},
      {"weight on the left, transposed", Shape{4, 5}, Shape{5, 3}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("MatMul", {w, x}, {{"transpose_a", true}, {"transpose_b", true}});
       }},
      {"transposed weight", Shape{4, 5}, Shape{3, 5}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("MatMul", {x, s.Op("Transpose", {w, IntsOf(s, {1, 0})})});
       }},
      {"a stack of matrices", Shape{2, 4, 5}, Shape{2, 5, 3}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("BatchMatMulV2", {x, w});
       }},
      {"one matrix for a stack", Shape{2, 4, 5}, Shape{3, 5}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("BatchMatMulV2", {x, w}, {{"adj_y", true}});
       }},
      {"heads of an einsum", Shape{2, 4, 5}, Shape{5, 3, 2}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("Einsum", {x, w}, {{"equation", std::string("abc,cde->abde")}});
       }},
      {"an einsum over two axes", Shape{2, 4, 3, 2}, Shape{3, 2, 5}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("Einsum", {w, x}, {{"equation", std::string("cde,abcd->abe")}});
       }},
      {"heads that are put together", Shape{4, 5}, Shape{5, 3, 2}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("MatMul", {x, s.Op("Reshape", {w, IntsOf(s, {5, 6})})});
       }},
      {"heads that are moved and put together", Shape{4, 5}, Shape{3, 5, 2}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         const Output moved = s.Op("Transpose", {w, IntsOf(s, {1, 0, 2})});
         return s.Op("MatMul", {x, s.Op("Reshape", {moved, IntsOf(s, {5, 6})})});
       }},
      {"a convolution", Shape{2, 6, 6, 3}, Shape{3, 3, 3, 4}, DType::kFloat32,
       [convolution](const Scope& s, Output x, Output w) {
         return s.Op("Conv2D", {x, w}, convolution);
       }},
      {"a convolution of channels first", Shape{2, 3, 6, 6}, Shape{4, 3, 3, 3}, DType::kFloat32,
       [](const Scope& s, Output x, Output w) {
         return s.Op("Conv2D", {x, s.Op("Transpose", {w, IntsOf(s, {2, 3, 1, 0})})},
                     {{"strides", std::vector<int64_t>{1, 1, 1, 1}},
                      {"padding", std::string("VALID")},
                      {"data_format", std::string("NCHW")}});
       }},
      {"rows", Shape{2, 3}, Shape{7, 5}, DType::kInt64,
       [](const Scope& s, Output x, Output w) {
         return s.Op("GatherV2", {w, x, s.Const(Tensor::Scalar<int32_t>(0))});
       }},
  };
}

ModelDef ModelOfForm(const Form& form) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output x = scope.Placeholder("x", form.index, form.x);
  const Output w = Variable(scope, "w", form.weight, RandomNormal(0, 1));
  const Output y = scope.Op("Identity", {form.build(scope, x, w)}, {}, "logits");
  std::vector<int32_t> axes;
  for (int i = 0; i < y.shape().rank(); ++i) axes.push_back(i);
  scope.Op("Sum", {y, IntsOf(scope, axes)}, {}, "loss");
  EXPECT_OK(scope.status());
  model.train_loss = model.eval_loss = "loss";
  model.input.placeholder = "x";
  auto variables = VariablesOf(model.graph);
  EXPECT_OK(variables);
  model.variables = *variables;
  return model;
}

TEST(Lora, EveryFormOfProduct_HasItsAdapterAndItsMerge) {
  for (const Form& form : Forms()) {
    SCOPED_TRACE(form.name);
    const ModelDef base = ModelOfForm(form);
    ModelDef model = ModelOfForm(form);
    ASSERT_OK(AddLora(model, {.targets = {"w"}, .rank = 2, .alpha = 3}));
    const auto adapters = LoraAdaptersOf(model.graph);
    ASSERT_EQ(adapters.size(), 1u);
    const auto adapted = Begun(model), merged = Begun(base);
    Tensor x(form.index, form.x);
    if (form.index == DType::kInt64) {
      for (int64_t i = 0; i < x.elements(); ++i) x.flat<int64_t>()[static_cast<size_t>(i)] = i % form.weight.dim(0);
    } else {
      for (int64_t i = 0; i < x.elements(); ++i)
        x.flat<float>()[static_cast<size_t>(i)] = 0.25f * static_cast<float>(i * 5 % 9 - 4);
    }
    ASSERT_OK_AND_ASSIGN(const auto before, merged->Run({{"x", x}}, {"logits"}));
    ASSERT_OK_AND_ASSIGN(const auto first, adapted->Run({{"x", x}}, {"logits"}));
    ExpectSameBits(first[0], before[0]);
    Set(*adapted, "w/lora_B", [](int64_t i) { return 0.5f * static_cast<float>(i % 5 - 2); });
    ASSERT_OK_AND_ASSIGN(const Tensor a, adapted->GetVariable("w/lora_A"));
    ASSERT_OK_AND_ASSIGN(const Tensor b, adapted->GetVariable("w/lora_B"));
    ASSERT_OK_AND_ASSIGN(const Tensor w, merged->GetVariable("w"));
    ASSERT_OK_AND_ASSIGN(const Tensor sum, MergeLora(adapters[0], w, a, b));
    ASSERT_OK(merged->SetVariable("w", sum));
    ASSERT_OK_AND_ASSIGN(const auto ours, adapted->Run({{"x", x}}, {"logits"}));
    ASSERT_OK_AND_ASSIGN(const auto theirs, merged->Run({{"x", x}}, {"logits"}));
    double moved = 0;
    for (int64_t i = 0; i < ours[0].elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_NEAR(ours[0].flat<float>()[at], theirs[0].flat<float>()[at], 1e-5);
      moved = std::max(moved, std::abs(static_cast<double>(ours[0].flat<float>()[at]) - before[0].flat<float>()[at]));
    }
    EXPECT_GT(moved, 0.01);
  }
}

// −0 stays −0: a sum with +0 would lose it.
TEST(Lora, NegativeZero_StaysWhatItIs) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{1, 2});
  const Output w = Variable(scope, "w", Shape{2, 1}, Ones());
  scope.Op("Identity", {scope.Op("MatMul", {x, w})}, {}, "logits");
  const Output product = scope.Op("MatMul", {x, w});
  scope.Op("Sum", {product, IntsOf(scope, {0, 1})}, {}, "loss");
  model.train_loss = model.eval_loss = "loss";
  ASSERT_OK_AND_ASSIGN(model.variables, VariablesOf(model.graph));
  const auto before = Begun(model);
  const Tensor zeros = Tensor::Of<float>(Shape{1, 2}, {-0.0f, -0.0f});
  ASSERT_OK_AND_ASSIGN(const auto expected, before->Run({{"x", zeros}}, {"logits"}));
  ASSERT_OK(AddLora(model, {.targets = {"w"}, .rank = 1}));
  ASSERT_OK_AND_ASSIGN(const auto given, Begun(model)->Run({{"x", zeros}}, {"logits"}));
  ExpectSameBits(given[0], expected[0]);
}

size_t NodesBehind(const ModelDef& model, const std::string& target) {
  Node* node = model.graph.Find(target);
  return model.graph.TopologicalOrder({&node, 1}).size();
}

// No product of the base's gradients, and fewer bytes for values that the backward half needs.
TEST(Lora, GradientsOfTheBase_AreNotMade) {
  ModelDef full = PresetModel("mlp"), adapted = PresetModel("mlp");
  ASSERT_OK(AddLora(adapted, {.targets = {"dense3/*"}, .rank = 2}));
  const auto products = [](ModelDef& model) {
    auto step = testing::AddTrainingStep(model, {});
    EXPECT_OK(step);
    Node* node = model.graph.Find(*step);
    int64_t count = 0;
    for (const Node* part : model.graph.TopologicalOrder({&node, 1}))
      count += part->type() == "MatMul" && part->name().find("gradients") != std::string::npos;
    return count;
  };
  // Three layers: a product for each kernel, and one for each input but the first.
  EXPECT_EQ(products(full), 5);
  // Those of A and B, and the one of the narrow tensor between them.
  EXPECT_EQ(products(adapted), 3);
}

TEST(Lora, MemoryOfAStep_IsLessThanThatOfTheWholeModel) {
  const auto arena = [](ModelDef model) -> int64_t {
    const auto step = testing::AddTrainingStep(model, {});
    EXPECT_OK(step);
    Signature signature;
    for (const ModelInput* input : {&model.input, &model.label}) {
      TensorSpec spec = input->spec;
      spec.shape.set_dim(0, 16);
      signature.feeds.push_back({input->placeholder, spec});
    }
    signature.targets = {*step};
    int buffer = 0;
    for (const ModelVariable& variable : model.variables)
      signature.variables.push_back({variable.name, buffer++, 0, variable.spec});
    const auto program = CompileProgram(model.graph, signature);
    EXPECT_OK(program);
    return static_cast<int64_t>((*program)->memory().arena_bytes);
  };
  ModelDef full = PresetModel("tiny_transformer"), last = PresetModel("tiny_transformer");
  const int64_t whole = arena(std::move(full));
  ASSERT_OK(AddLora(last, {.targets = {"block2/output/kernel"}, .rank = 4}));
  // All blocks but the last half of the second keep nothing for the way back.
  EXPECT_LT(arena(std::move(last)), whole * 2 / 3);
}

TEST(Lora, Dropout_IsOfTrainingAlone) {
  ModelDef model = PresetModel("mlp");
  ASSERT_EQ(model.train_loss, model.eval_loss);
  ASSERT_OK(AddLora(model, {.targets = {"*kernel"}, .dropout = 0.5}));
  EXPECT_NE(model.train_loss, model.eval_loss);
  const auto session = Begun(model);
  for (const LoraAdapter& adapter : LoraAdaptersOf(model.graph))
    Set(*session, adapter.b, [](int64_t i) { return 0.1f * static_cast<float>(i % 3 - 1); });
  const auto loss = [&](const std::string& tensor) {
    auto value = session->Run(FeedsOf(model), {tensor});
    EXPECT_OK(value);
    return (*value)[0].flat<float>()[0];
  };
  EXPECT_EQ(loss(model.eval_loss), loss(model.eval_loss));
  EXPECT_NE(loss(model.train_loss), loss(model.train_loss));
  const size_t evaluation = NodesBehind(model, model.eval_loss);
  Node* node = model.graph.Find(model.eval_loss);
  for (const Node* part : model.graph.TopologicalOrder({&node, 1})) EXPECT_NE(part->type(), "RandomUniform");
  EXPECT_GT(NodesBehind(model, model.train_loss), evaluation);
}

TEST(Lora, DropoutOfAModelWithTwoGraphs_NeedsNoThird) {
  ModelDef model = PresetModel("emnist_cnn");
  const std::string before = model.train_loss;
  ASSERT_NE(before, model.eval_loss);
  ASSERT_OK(AddLora(model, {.targets = {"*kernel"}, .dropout = 0.1}));
  EXPECT_EQ(model.train_loss, before);
}

TEST(Lora, TrainingSteps_MoveAdaptersAlone) {
  ModelDef model = PresetModel("mnist_cnn");
  ASSERT_OK(AddLora(model, {.targets = {"*kernel"}, .rank = 2, .alpha = 2, .dropout = 0.1}));
  OptimizerSpec sgd;
  sgd.learning_rate = 0.05;
  ASSERT_OK_AND_ASSIGN(const std::string step, testing::AddTrainingStep(model, sgd));
  const auto session = Begun(model);
  std::map<std::string, Tensor> first;
  for (const ModelVariable& variable : model.variables) {
    ASSERT_OK_AND_ASSIGN(const Tensor value, session->GetVariable(variable.name));
    first.emplace(variable.name, value);
  }
  ASSERT_OK_AND_ASSIGN(const auto before, session->Run(FeedsOf(model), {model.eval_loss}));
  for (int i = 0; i < 20; ++i) ASSERT_THAT(session->Run(FeedsOf(model), {}, {step}), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto after, session->Run(FeedsOf(model), {model.eval_loss}));
  EXPECT_LT(after[0].flat<float>()[0], before[0].flat<float>()[0]);
  for (const ModelVariable& variable : model.variables) {
    SCOPED_TRACE(variable.name);
    ASSERT_OK_AND_ASSIGN(const Tensor value, session->GetVariable(variable.name));
    const Tensor& was = first.at(variable.name);
    const bool moved = std::memcmp(value.data(), was.data(), was.bytes()) != 0;
    EXPECT_EQ(moved, variable.segment == "trainable");
  }
}

// An embedding that is the head, too: one pair for both, so that one merged table computes what the adapters do.
TEST(Lora, ATiedTable_StaysOneAfterTwentySteps) {
  const auto tied = [] {
    ModelDef model;
    const Scope scope(model.graph);
    const Output tokens = scope.Placeholder("tokens", DType::kInt64, Shape{6});
    const Output label = scope.Placeholder("label", DType::kInt64, Shape{6});
    const Output table = Variable(scope, "table", Shape{7, 4}, RandomNormal(0, 1));
    const Output rows = scope.Op("GatherV2", {table, tokens, scope.Const(Tensor::Scalar<int32_t>(0))});
    const Output scores = scope.Op("MatMul", {scope.Op("Tanh", {rows}), table}, {{"transpose_b", true}});
    const Output logits = scope.Op("Identity", {scores}, {}, "logits");
    const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
    scope.Op("Mean", {losses, IntsOf(scope, {0})}, {}, "loss");
    EXPECT_OK(scope.status());
    model.train_loss = model.eval_loss = "loss";
    auto variables = VariablesOf(model.graph);
    EXPECT_OK(variables);
    model.variables = *variables;
    return model;
  };
  const ModelDef base = tied();
  ModelDef model = tied();
  ASSERT_OK(AddLora(model, {.targets = {"table"}, .rank = 2, .alpha = 2}));
  EXPECT_THAT(SegmentOf(model, "trainable"), ElementsAre("table/lora_A", "table/lora_B"));
  OptimizerSpec sgd;
  sgd.learning_rate = 0.2;
  ASSERT_OK_AND_ASSIGN(const std::string step, testing::AddTrainingStep(model, sgd));
  const Session::Feeds feeds = {{"tokens", Tensor::Of<int64_t>({6}, {0, 1, 2, 3, 4, 6})},
                                {"label", Tensor::Of<int64_t>({6}, {1, 2, 3, 4, 5, 0})}};
  const auto adapted = Begun(model), merged = Begun(base);
  ASSERT_OK_AND_ASSIGN(const auto before, adapted->Run(feeds, {"logits", "loss"}));
  for (int i = 0; i < 20; ++i) ASSERT_THAT(adapted->Run(feeds, {}, {step}), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto after, adapted->Run(feeds, {"logits", "loss"}));
  EXPECT_LT(after[1].flat<float>()[0], before[1].flat<float>()[0] - 0.1f);
  const auto adapters = LoraAdaptersOf(model.graph);
  ASSERT_EQ(adapters.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const Tensor a, adapted->GetVariable(adapters[0].a));
  ASSERT_OK_AND_ASSIGN(const Tensor b, adapted->GetVariable(adapters[0].b));
  ASSERT_OK_AND_ASSIGN(const Tensor table, merged->GetVariable("table"));
  ASSERT_OK_AND_ASSIGN(const Tensor sum, MergeLora(adapters[0], table, a, b));
  ASSERT_OK(merged->SetVariable("table", sum));
  ASSERT_OK_AND_ASSIGN(const auto whole, merged->Run(feeds, {"logits"}));
  for (size_t i = 0; i < 42; ++i) EXPECT_NEAR(whole[0].flat<float>()[i], after[0].flat<float>()[i], 1e-5);
}

TEST(Lora, WhatHasNoAdapter_IsRefusedByName) {
  const auto error = [](const std::string& preset, const LoraOptions& options) {
    ModelDef model = PresetModel(preset);
    return std::string(Message(AddLora(model, options)));
  };
  EXPECT_THAT(error("mlp", {.targets = {"dense1/kernal"}}),
              HasSubstr("no variable matches 'dense1/kernal'. Did you mean 'dense1/kernel'?"));
  EXPECT_THAT(error("mlp", {.targets = {"*bias"}}), HasSubstr("no product has one of them as its weight"));
  EXPECT_THAT(error("char_lstm", {.targets = {"*"}}), HasSubstr("is a weight of the recurrent cell"));
  EXPECT_THAT(error("mobilenet_v2", {.targets = {"*"}}), HasSubstr("is a depthwise convolution"));
  EXPECT_THAT(error("mlp", {.targets = {"*kernel"}, .modules_to_save = {"dense1/*"}}),
              HasSubstr("'dense1/kernel' is to be trained as a whole, and to have an adapter"));
  ModelDef arrays;
  EXPECT_THAT(Message(AddLora(arrays, {.targets = {"*"}})), HasSubstr("no graph"));
}

TEST(Lora, TwoWeightsOfOneProduct_AreRefused) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output v = Variable(scope, "v", Shape{2, 3}, Ones()), w = Variable(scope, "w", Shape{3, 2}, Ones());
  scope.Op("Sum", {scope.Op("MatMul", {v, w}), IntsOf(scope, {0, 1})}, {}, "loss");
  model.train_loss = model.eval_loss = "loss";
  ASSERT_OK_AND_ASSIGN(model.variables, VariablesOf(model.graph));
  EXPECT_THAT(Message(AddLora(model, {.targets = {"*"}})), HasSubstr("multiplies the variables 'v' and 'w'"));
}

TEST(Lora, AWeightThatSomethingElseTakes_IsRefused) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{4, 3});
  const Output w = Variable(scope, "w", Shape{3, 2}, Ones());
  const Output product = scope.Op("MatMul", {x, w});
  const Output norm = scope.Op("Sum", {scope.Op("Square", {w}, {}, "square"), IntsOf(scope, {0, 1})});
  scope.Op("AddV2", {norm, scope.Op("Sum", {product, IntsOf(scope, {0, 1})})}, {}, "loss");
  model.train_loss = model.eval_loss = "loss";
  ASSERT_OK_AND_ASSIGN(model.variables, VariablesOf(model.graph));
  EXPECT_THAT(Message(AddLora(model, {.targets = {"w"}})), HasSubstr("'w' has no adapter: 'square' (Square)"));
}

TEST(Lora, ScoresThatWereAProduct_StayKnownByTheirName) {
  ModelDef model;
  const Scope scope(model.graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{2, 3});
  const Output w = Variable(scope, "w", Shape{3, 2}, Ones());
  const Output logits = scope.Op("MatMul", {x, w}, {}, "logits");
  scope.Op("Sum", {logits, IntsOf(scope, {0, 1})}, {}, "loss");
  model.train_loss = model.eval_loss = "loss";
  model.outputs = {{"logits", "logits"}};
  ASSERT_OK_AND_ASSIGN(model.variables, VariablesOf(model.graph));
  ASSERT_OK(AddLora(model, {.targets = {"w"}, .rank = 1, .alpha = 1}));
  EXPECT_THAT(model.outputs, ElementsAre(Pair("logits", "logits")));
  const auto session = Begun(model);
  Set(*session, "w/lora_A", [](int64_t) { return 1; });
  Set(*session, "w/lora_B", [](int64_t) { return 10; });
  ASSERT_OK_AND_ASSIGN(const auto scores,
                       session->Run({{"x", Tensor::Of<float>(Shape{2, 3}, {1, 0, 0, 0, 1, 1})}}, {"logits", "loss"}));
  EXPECT_THAT(scores[0].flat<float>(), ElementsAre(11, 11, 22, 22));
  EXPECT_EQ(scores[1].flat<float>()[0], 66);
}

}  // namespace
}  // namespace rivulet
