// Passes with several model instances, with a separate loss and without gradients, compared with manual loops.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <functional>

#include "client/training/pass_programs.h"
#include "engine/graphdef/graph_def.h"
#include "federated/plan/flat_scope.h"
#include "federated/random/streams.h"
#include "proto/federated/plan.pb.h"
#include "setup/evaluator.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"

namespace rivulet {
namespace {

using testing::FourPixelRecords;
using testing::FourPixels;
using testing::FourPixelsBase;
using ::testing::HasSubstr;
using testing::MemoryDataset;
using testing::StatusIs;
using testing::TrainOne;

constexpr int kExamples = 7;
constexpr double kRate = 0.5;

// Of the four-pixel model: batches of all examples, two epochs, plain SGD.
std::string FourPixelPlan() {
  Scenario scenario = testing::LocalScenario();
  scenario.client.batch_size = kExamples;
  scenario.client.optimizer.learning_rate = kRate;
  auto bytes = BuildPlan(scenario, FourPixels());
  EXPECT_OK(bytes);
  return *bytes;
}

StatusOr<std::shared_ptr<const Plan>> Forge(const std::function<void(proto::Plan&)>& forge) {
  proto::Plan message;
  EXPECT_TRUE(message.ParseFromString(FourPixelPlan()));
  forge(message);
  return Plan::Open(message.SerializeAsString());
}

StatusOr<LocalResult> Do(const std::shared_ptr<const Plan>& plan, TaskKind kind, std::vector<float>* delta = nullptr) {
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<MemoryDataset>(FourPixelRecords(0, kExamples)), std::nullopt,
                                 decoder);
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  Task task;
  task.id = "run-r1-a1-a-0";
  task.kind = kind;
  task.stream_key = ClientKey(42, "a");
  const auto base = FourPixelsBase(*plan);
  const LaneTask lane{&task, "a", base.get(), &examples};
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  RIVULET_RETURN_IF_ERROR(results[0].status);
  for (const PartView& part : results[0].parts) {
    for (const FloatRun& run : part.runs)
      for (int64_t i = 0; delta != nullptr && i < run.count; ++i) delta->push_back(ValueOf(run, i));
  }
  results[0].parts.clear();  // what they name goes with the trainer
  return std::move(results[0]);
}

using Weights15 = std::array<double, 15>;

Weights15 Base() {
  Weights15 weights;
  for (int n = 0; n < 15; ++n) weights[static_cast<size_t>(n)] = static_cast<float>(n * 37 % 101 - 50) * 0.01f;
  return weights;
}

// The gradient of the mean cross entropy over all examples at `at`, and of `pull` / 2 times the mean square of what its
// logits differ from those at `from`.
Weights15 Gradient(const Weights15& at, double pull = 0, const Weights15& from = {}) {
  Weights15 gradient{};
  for (int i = 0; i < kExamples; ++i) {
    std::array<double, 4> x;
    for (int k = 0; k < 4; ++k) x[static_cast<size_t>(k)] = (71 * k + 37 * i) % 256 / 255.0;
    const auto logits = [&](const Weights15& w) {
      std::array<double, 3> z;
      for (size_t c = 0; c < 3; ++c) {
        z[c] = w[12 + c];
        for (size_t k = 0; k < 4; ++k) z[c] += x[k] * w[3 * k + c];
      }
      return z;
    };
    const auto z = logits(at), z0 = logits(from);
    const double sum = std::exp(z[0]) + std::exp(z[1]) + std::exp(z[2]);
    for (size_t c = 0; c < 3; ++c) {
      const double g = (std::exp(z[c]) / sum - (static_cast<int>(c) == i % 3 ? 1 : 0)) / kExamples +
                       pull * (z[c] - z0[c]) / (3 * kExamples);
      gradient[12 + c] += g;
      for (size_t k = 0; k < 4; ++k) gradient[3 * k + c] += g * x[k];
    }
  }
  return gradient;
}

void ExpectDelta(const std::vector<float>& delta, const Weights15& after) {
  const Weights15 before = Base();
  ASSERT_EQ(delta.size(), before.size());
  for (size_t i = 0; i < delta.size(); ++i) EXPECT_NEAR(delta[i], after[i] - before[i], 1e-6) << i;
}

TEST(Passes, GradientAtTheBase_IsThatOfTheInstanceOverIt) {
  ASSERT_OK_AND_ASSIGN(const auto plan, Forge([](proto::Plan& message) {
                         proto::PassDef& pass = *message.mutable_programs(0)->mutable_passes(0);
                         pass.mutable_models(0)->set_buffer("base_params");
                         pass.set_gradient_by("base_params");
                       }));
  std::vector<float> delta;
  ASSERT_OK_AND_ASSIGN(const LocalResult result, Do(plan, TaskKind::kTrain, &delta));
  EXPECT_EQ(result.steps, 2);
  Weights15 weights = Base();
  const Weights15 gradient = Gradient(Base());  // the same in both steps
  for (size_t i = 0; i < weights.size(); ++i) weights[i] -= 2 * kRate * gradient[i];
  ExpectDelta(delta, weights);
}

// Loss + mean square of what the logits differ from the base model's: two instances in one loss, and the gradient goes
// through one of them.
Graph PulledLoss() {
  Graph graph;
  const Scope scope(graph);
  const Output own = scope.Placeholder("own", DType::kFloat32, {});
  const Output now = scope.Placeholder("now", DType::kFloat32, {-1, 3});
  const Output then = scope.Placeholder("then", DType::kFloat32, {-1, 3});
  const Output square = scope.Op("Square", {scope.Op("Sub", {now, then})});
  const Output mean = scope.Op("Mean", {square, scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))});
  scope.Op("AddV2", {own, mean}, {}, "loss");
  EXPECT_OK(scope.status());
  return graph;
}

void PutLoss(proto::PassDef& pass, const Graph& loss, const std::string& then = "global/logits") {
  proto::ModelInstanceDef& global = *pass.add_models();
  global.set_prefix("global");
  global.set_buffer("base_params");
  pass.set_loss(SerializeGraph(loss));
  for (const auto& [name, tensor] :
       {std::pair("own", "loss"), std::pair("now", "logits"), std::pair("then", then.c_str())}) {
    proto::NamedTensor& input = *pass.add_loss_inputs();
    input.set_name(name);
    input.set_tensor(tensor);
  }
}

TEST(Passes, TwoInstancesInOneLoss_MatchAHandWrittenLoop) {
  ASSERT_OK_AND_ASSIGN(const auto plan, Forge([](proto::Plan& message) {
                         PutLoss(*message.mutable_programs(0)->mutable_passes(0), PulledLoss());
                       }));
  std::vector<float> delta;
  ASSERT_OK_AND_ASSIGN(const LocalResult result, Do(plan, TaskKind::kTrain, &delta));
  Weights15 weights = Base();
  for (int step = 0; step < 2; ++step) {
    const Weights15 gradient = Gradient(weights, 2, Base());
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradient[i];
  }
  ExpectDelta(delta, weights);
  // What is reported is the model's own loss, as without the term.
  EXPECT_GT(result.train_loss, 0.5);
}

// A pass that only adds up gradients, and one that trains: as variance reduction does.
TEST(Passes, GradientPassThenTraining_MatchAHandWrittenLoop) {
  ASSERT_OK_AND_ASSIGN(const auto plan, Forge([](proto::Plan& message) {
                         ASSERT_OK_AND_ASSIGN(const ModelLayout layout, ModelLayoutOf(FourPixels()));
                         proto::LocalProgramDef& program = *message.mutable_programs(0);
                         *program.add_passes() = program.passes(0);
                         message.mutable_flats()->set_slots(1);
                         proto::PassDef& first = *program.mutable_passes(0);
                         first.set_epochs(1);
                         FlatScope keep(layout);
                         keep.Assign("slots/0", keep.grads());
                         ASSERT_OK_AND_ASSIGN(const Graph kept, std::move(keep).Finish());
                         first.set_step(SerializeGraph(kept));
                         // w ← w − rate · (g − g0 / 2)
                         FlatScope use(layout);
                         const Output corrected = use.Sub(use.grads(), use.Scale(0.5, use.Read("slots/0")));
                         use.Assign("params", use.Sub(use.params(), use.Scale(kRate, corrected)));
                         ASSERT_OK_AND_ASSIGN(const Graph used, std::move(use).Finish());
                         program.mutable_passes(1)->set_step(SerializeGraph(used));
                       }));
  std::vector<float> delta;
  ASSERT_OK_AND_ASSIGN(const LocalResult result, Do(plan, TaskKind::kTrain, &delta));
  EXPECT_EQ(result.steps, 3);
  Weights15 weights = Base();
  const Weights15 first = Gradient(Base());
  for (int step = 0; step < 2; ++step) {
    const Weights15 gradient = Gradient(weights);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * (gradient[i] - first[i] / 2);
  }
  ExpectDelta(delta, weights);
}

void PutEvaluation(proto::Plan& message) {
  proto::LocalProgramDef& program = *message.add_programs();
  program.set_kind(static_cast<int32_t>(TaskKind::kEvaluate));
  proto::PassDef& pass = *program.add_passes();
  pass.add_models()->set_buffer("base_params");
  pass.set_dataset("train");
  pass.set_batch_size(3);
  pass.set_epochs(1);
  for (const auto& [name, sum] : {std::pair("loss", false), std::pair("losses", true)}) {
    proto::PassScalarDef& scalar = *pass.add_scalars();
    scalar.set_name(name);
    scalar.set_tensor("loss");
    scalar.set_sum(sum);
  }
}

// The base model is evaluated where it lies: no gradient, no step, nothing of the trainer's own is written.
TEST(Passes, Evaluation_ReportsTheCentralEvaluatorsNumbers) {
  ASSERT_OK_AND_ASSIGN(const auto plan, Forge(PutEvaluation));
  ASSERT_OK_AND_ASSIGN(const LocalResult result, Do(plan, TaskKind::kEvaluate));
  EXPECT_EQ(result.examples, kExamples);
  EXPECT_EQ(result.steps, 3);
  EXPECT_TRUE(result.parts.empty());
  const auto data = std::make_shared<MemoryDataset>(FourPixelRecords(0, kExamples));
  ASSERT_OK_AND_ASSIGN(const auto evaluator, CentralEvaluator::Create(plan, data, {.batch_size = 3, .threads = 1}));
  ASSERT_OK_AND_ASSIGN(const auto central, evaluator->Evaluate(*FourPixelsBase(*plan)));
  EXPECT_EQ(result.declared.at("loss"), central.at("test/loss").value);
  // Batches of 3, 3 and 1.
  EXPECT_GT(result.declared.at("losses"), 2 * result.declared.at("loss"));
  EXPECT_EQ(result.declared.size(), 4u);  // with examples and steps
}

TEST(Passes, EvaluationOfOtherData_IsRefused) {
  EXPECT_EQ(testing::ErrorOf(Forge([](proto::Plan& plan) {
              PutEvaluation(plan);
              plan.mutable_programs(1)->mutable_passes(0)->set_dataset("test");
            })),
            "the plan's programs read the data sets 'train' and 'test'; a client binds one for a plan");
}

TEST(Passes, PlanWithoutEvaluation_SaysSo) {
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan::Open(FourPixelPlan()));
  EXPECT_THAT(Do(plan, TaskKind::kEvaluate),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("plan 'local' does not say how to evaluate")));
}

TEST(Passes, ForgedModelsAndLosses_AreRefusedInASentence) {
  const auto error = [](const std::function<void(proto::PassDef&)>& change) {
    return testing::ErrorOf(Forge([&](proto::Plan& plan) { change(*plan.mutable_programs(0)->mutable_passes(0)); }));
  };
  EXPECT_THAT(error([](auto& p) { p.clear_models(); }), HasSubstr("0 instances of the model; a client runs 1 to 8"));
  EXPECT_THAT(error([](auto& p) {
                for (int i = 0; i < 8; ++i) *p.add_models() = p.models(0);
              }),
              HasSubstr("9 instances"));
  EXPECT_THAT(error([](auto& p) { *p.add_models() = p.models(0); }), HasSubstr("calls an instance of the model ''"));
  EXPECT_THAT(error([](auto& p) { p.mutable_models(0)->set_prefix("a"); }),
              HasSubstr("calls an instance of the model 'a'"));
  EXPECT_THAT(error([](auto& p) { p.mutable_models(0)->set_buffer("grads"); }),
              HasSubstr("runs the model over 'grads'"));
  EXPECT_THAT(error([](auto& p) { p.set_gradient_by("base_params"); }),
              HasSubstr("by 'base_params', over which no instance of the model is"));
  EXPECT_THAT(error([](auto& p) {
                p.clear_gradient_by();
                p.clear_step();
                p.clear_scalars();
              }),
              HasSubstr("neither changes nor reports anything"));
  EXPECT_THAT(error([](auto& p) { p.clear_gradient_by(); }), HasSubstr("the plan's step graph uses 'grads'"));
  EXPECT_THAT(error([](auto& p) { p.mutable_scalars(0)->set_name("examples"); }), HasSubstr("reported already"));
  EXPECT_THAT(error([](auto& p) { p.mutable_scalars(0)->set_tensor("nowhere"); }), HasSubstr("a pass of the plan: "));
  EXPECT_THAT(error([](auto& p) { p.mutable_scalars(0)->set_tensor("logits"); }),
              HasSubstr("its train_loss 'logits' is float32[?,3]; it must be a float32 scalar"));
  EXPECT_THAT(error([](auto& p) { p.set_loss("x"); }), HasSubstr("the plan's loss graph: "));
  EXPECT_THAT(error([](auto& p) {
                PutLoss(p, PulledLoss());
                p.clear_loss_inputs();
              }),
              HasSubstr("the loss has an unbound placeholder 'own'"));
  EXPECT_THAT(error([](auto& p) { PutLoss(p, PulledLoss(), "other/logits"); }), HasSubstr("other/logits"));
  EXPECT_THAT(error([](auto& p) { PutLoss(p, PulledLoss(), "label"); }), HasSubstr("a pass of the plan: "));
}

// Whatever the graph of the model does, the base model stays as it is: other tasks train from it too.
TEST(Passes, InstanceThatWritesTheBaseModel_IsRefused) {
  ModelDef model = FourPixels();
  Scope scope(model.graph);
  const Output w = model.graph.Find("w")->output();
  Node* const write = scope.AddNode("AssignVariableOp", {w, scope.Const(Tensor(DType::kFloat32, {4, 3}))},
                                    {{"dtype", DType::kFloat32}}, "write");
  const Output loss = *model.graph.FindOutput("loss");
  model.train_loss = scope.WithControl({write}).Op("Identity", {loss}, {}, "writing_loss").name();
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const std::string bytes, BuildPlan(testing::LocalScenario(), model));
  proto::Plan message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  proto::PassDef& pass = *message.mutable_programs(0)->mutable_passes(0);
  pass.mutable_models(0)->set_buffer("base_params");
  pass.set_gradient_by("base_params");
  EXPECT_THAT(testing::ErrorOf(Plan::Open(message.SerializeAsString())),
              HasSubstr("it gives 'base_params/w', which can only be read, to AssignVariableOp 'write'"));
}

}  // namespace
}  // namespace rivulet
