#include "dataflow/placement/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "dataflow/placement/device_placer.h"
#include "dataflow/placement/receive_schedule.h"
#include "dataflow/session/session.h"
#include "engine/base/philox.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/function_builder.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/optimizers/apply_gradients.h"
#include "engine/variables/initializers.h"
#include "engine/variables/variables.h"
#include "proto/graph/run_metadata.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kCpu0 = "/job:localhost/replica:0/task:0/device:CPU:0";
const char* const kCpu1 = "/job:localhost/replica:0/task:0/device:CPU:1";

std::string Bits(const Tensor& tensor) {
  return std::string(reinterpret_cast<const char*>(tensor.data()), tensor.bytes());
}

std::vector<const Node*> OfType(const Graph& graph, std::string_view type) {
  std::vector<const Node*> nodes;
  for (const auto& node : graph.nodes())
    if (node->type() == type) nodes.push_back(node.get());
  return nodes;
}

class PartitionTest : public ::testing::Test {
 protected:
  Scope On(int cpu) { return scope_.WithDevice(fmt::format("/cpu:{}", cpu)); }

  // The cut graph of a run.
  StatusOr<RunGraph> Cut(std::vector<std::string> fetches, DevicePlacerOptions options = {.cpus = 2},
                         std::vector<std::string> feeds = {}, std::vector<std::string> targets = {}) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    RIVULET_ASSIGN_OR_RETURN(auto placer, DevicePlacer::Create(options));
    RIVULET_RETURN_IF_ERROR(placer->OnGraph(graph_));
    RIVULET_ASSIGN_OR_RETURN(RunGraph run, PruneForRun(graph_, feeds, fetches, targets));
    RIVULET_RETURN_IF_ERROR(placer->Partition(run));
    return run;
  }
  std::unique_ptr<Session> MakeSession(int cpus, DevicePlacerOptions options = {}) {
    SessionConfig config;
    config.inter_op_threads = 3;
    options.cpus = cpus;
    if (cpus > 0) config.placer = *DevicePlacer::Create(options);
    auto session = Session::Create(graph_.Clone(), config);
    EXPECT_OK(session);
    return session.ok() ? *std::move(session) : nullptr;
  }

  Graph graph_;
  Scope scope_{graph_};
};

// As TensorFlow cuts it: one _Send of y, one _Recv of it, used by both.
TEST_F(PartitionTest, ManyUsersOfOneTensor_OneSendAndOneReceive) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{2});
  const Output y = On(0).Op("Neg", {x}, {}, "y");
  const Output z = On(1).Op("Mul", {y, y}, {}, "z");
  On(1).Op("AddV2", {y, z}, {}, "w");
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({"w"}, {.cpus = 2}, {"x"}));
  const auto sends = OfType(run.graph, "_Send"), receives = OfType(run.graph, "_Recv");
  ASSERT_EQ(sends.size(), 1u);
  ASSERT_EQ(receives.size(), 1u);
  EXPECT_EQ(sends[0]->input(0).name(), "y");
  EXPECT_EQ(sends[0]->device(), kCpu0);
  EXPECT_EQ(receives[0]->device(), kCpu1);
  for (const Node* node : {sends[0], receives[0]}) {
    EXPECT_EQ(node->attr<std::string>("send_device"), kCpu0);
    EXPECT_EQ(node->attr<std::string>("recv_device"), kCpu1);
    EXPECT_EQ(node->attr<std::string>("tensor_name"), "edge_1_y");
    EXPECT_EQ(node->attr<int64_t>("send_device_incarnation"), 1);
    EXPECT_FALSE(node->attr<bool>("client_terminated"));
  }
  EXPECT_EQ(receives[0]->outputs()[0].shape, Shape{2});
  EXPECT_EQ(run.graph.Find("z")->input(0).node, receives[0]);
  EXPECT_EQ(run.graph.Find("w")->input(0).node, receives[0]);
  EXPECT_THAT(run.targets, ElementsAre(sends[0]->name()));
}

TEST_F(PartitionTest, TwoDestinations_OneSendEach) {
  const Output y = On(0).Op("Neg", {On(0).Placeholder("x", DType::kFloat32, Shape{2})}, {}, "y");
  for (int cpu : {1, 2}) On(cpu).Op("Abs", {y}, {}, fmt::format("abs{}", cpu));
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({"abs1", "abs2"}, {.cpus = 3}, {"x"}));
  EXPECT_EQ(OfType(run.graph, "_Send").size(), 2u);
  EXPECT_EQ(OfType(run.graph, "_Recv").size(), 2u);
}

TEST_F(PartitionTest, ControlEdge_IsCarriedByAnEmptyConstant_OncePerDevice) {
  Node* first = On(0).AddNode("NoOp", {}, {}, "first");
  On(1).WithControl({first}).AddNode("NoOp", {}, {}, "second");
  On(1).WithControl({first}).AddNode("NoOp", {}, {}, "third");
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({}, {.cpus = 2}, {}, {"second", "third"}));
  const auto receives = OfType(run.graph, "_Recv");
  ASSERT_EQ(receives.size(), 1u);
  for (const char* name : {"second", "third"})
    EXPECT_THAT(run.graph.Find(name)->control_inputs(), ElementsAre(receives[0]));
  const Node* dummy = OfType(run.graph, "_Send")[0]->input(0).node;
  EXPECT_EQ(dummy->type(), "Const");
  EXPECT_EQ(dummy->attr<Tensor>("value").elements(), 0);
  EXPECT_THAT(dummy->control_inputs(), ElementsAre(run.graph.Find("first")));
}

TEST_F(PartitionTest, ConstantsAndShapes_AreCopiedToTheirUsers) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 4});
  const Output axis = On(0).Const(Tensor::Of<int32_t>({1}, {0}), "axis");
  On(0).Op("Sum", {x, axis}, {}, "sum0");
  On(1).Op("Sum", {x, axis}, {}, "sum1");
  const Output flat = On(1).Op("Reshape", {On(1).Op("Neg", {x}), On(0).Op("Shape", {x}, {}, "shape")}, {}, "flat");
  ASSERT_TRUE(flat);
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({"sum0", "sum1", "flat"}, {.cpus = 2}, {"x"}));
  EXPECT_EQ(OfType(run.graph, "_Send").size(), 1u);  // x alone
  EXPECT_EQ(run.graph.Find("sum1")->input(1).node->type(), "Const");
  EXPECT_EQ(run.graph.Find("flat")->input(1).node->type(), "Shape");
  EXPECT_EQ(run.graph.Find("flat")->input(1).node->device(), kCpu1);
}

TEST_F(PartitionTest, GraphsOfDevices_AreWholeByThemselves) {
  const Output y = On(0).Op("Neg", {On(0).Placeholder("x", DType::kFloat32, Shape{2})}, {}, "y");
  On(0).Op("Abs", {On(1).Op("Square", {y}, {}, "z")}, {}, "w");
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(const auto placer, DevicePlacer::Create({.cpus = 2}));
  ASSERT_OK(placer->OnGraph(graph_));
  ASSERT_OK_AND_ASSIGN(RunGraph run,
                       PruneForRun(graph_, std::vector<std::string>{"x"}, std::vector<std::string>{"w"}, {}));
  ASSERT_OK(placer->Partition(run));
  ASSERT_OK_AND_ASSIGN(const auto parts, SplitByDevice(run.graph));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].first, kCpu0);
  EXPECT_EQ(parts[1].first, kCpu1);
  EXPECT_NE(parts[0].second.Find("w"), nullptr);
  EXPECT_NE(parts[1].second.Find("z"), nullptr);
  EXPECT_EQ(parts[1].second.nodes().size(), 3u);  // receive, square, send
  EXPECT_THAT(SplitByDevice(graph_), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the graph is not cut")));
}

TEST_F(PartitionTest, RunMetadata_HasTheGraphOfEachDevice) {
  const Output y = On(0).Op("Neg", {On(0).Placeholder("x", DType::kFloat32, Shape{2})}, {}, "y");
  On(1).Op("Square", {y}, {}, "z");
  ASSERT_OK(scope_.status());
  RunOptions options;
  options.output_partition_graphs = true;
  proto::RunMetadata metadata;
  ASSERT_OK(
      MakeSession(2)->RunWith(options, {{"x", Tensor(DType::kFloat32, Shape{2})}}, {"z"}, {}, &metadata).status());
  std::map<std::string, std::multiset<std::string>> ops;
  for (const proto::GraphDef& graph : metadata.partition_graphs())
    for (const proto::NodeDef& node : graph.node()) ops[node.device()].insert(node.op());
  EXPECT_THAT(ops[kCpu0], ElementsAre("Neg", "Placeholder", "_Send"));
  EXPECT_THAT(ops[kCpu1], ElementsAre("Square", "_Recv"));
  EXPECT_EQ(metadata.partition_graphs_size(), 2);
}

TEST_F(PartitionTest, Bfloat16Transfers_RoundFloatsOnTheWay) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{2});
  const Output y = On(0).Op("Neg", {x}, {}, "y");
  const Output n = On(0).Op("Cast", {y}, {{"DstT", DType::kInt32}}, "n");
  On(1).Op("Abs", {y}, {}, "z");
  On(1).Op("Neg", {n}, {}, "m");
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({"z", "m"}, {.cpus = 2, .enable_bfloat16_sendrecv = true}, {"x"}));
  std::multiset<DType> sent;
  for (const Node* send : OfType(run.graph, "_Send")) sent.insert(send->attr<DType>("T"));
  EXPECT_THAT(sent, ElementsAre(DType::kInt32, DType::kBFloat16));
  const auto session = MakeSession(2, {.enable_bfloat16_sendrecv = true});
  ASSERT_OK_AND_ASSIGN(const auto values,
                       session->Run({{"x", Tensor::Of<float>({2}, {1.0f + 3.0f / 256, 1000.0f})}}, {"z", "m"}));
  EXPECT_EQ(values[0].flat<float>()[0], 1.015625f);  // to the nearest even
  EXPECT_EQ(values[0].flat<float>()[1], 1000.0f);
  EXPECT_EQ(values[1].flat<int32_t>()[1], 1000);
}

// The sender makes eight tensors at once; the receiver uses one after the other.
TEST_F(PartitionTest, LateReceives_LowerThePeakAndKeepTheTimeForetold) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{1024});
  Output chain = On(1).Op("Neg", {x}, {}, "start");
  CostModel costs;
  std::vector<Output> made;
  for (int i = 0; i < 8; ++i) made.push_back(On(0).Op("Square", {x}, {}, fmt::format("made{}", i)));
  for (int i = 0; i < 8; ++i) {
    chain = On(1).Op("AddV2", {chain, made[static_cast<size_t>(i)]}, {}, fmt::format("use{}", i));
    costs.Record(fmt::format("use{}", i), 100e-6);
  }
  ASSERT_OK_AND_ASSIGN(RunGraph run, Cut({"use7"}, {.cpus = 2}, {"x"}));
  const RunForecast early = ForecastRun(run.graph, costs);
  ASSERT_OK(ScheduleReceivesLate(run.graph, costs));
  const RunForecast late = ForecastRun(run.graph, costs);
  EXPECT_GE(early.peak_bytes.at(kCpu1), 8 * 4096);
  EXPECT_LE(late.peak_bytes.at(kCpu1), 4 * 4096);
  EXPECT_LE(late.makespan, early.makespan * (1 + 1e-9));

  const Session::Feeds feeds = {{"x", Tensor::Of<float>({1024}, std::vector<float>(1024, 1.5f))}};
  ASSERT_OK_AND_ASSIGN(const auto values, MakeSession(2, {.enable_recv_scheduling = true})->Run(feeds, {"use7"}));
  EXPECT_EQ(values[0].flat<float>()[7], -1.5f + 8 * 2.25f);
}

TEST_F(PartitionTest, FailureOnOneDevice_EndsTheRunOnAll) {
  const Output labels = On(1).Placeholder("labels", DType::kInt64, Shape{1});
  const Output logits = On(1).Placeholder("logits", DType::kFloat32, Shape{1, 3});
  const Output loss = On(1).Op("SparseSoftmaxCrossEntropyWithLogits", {logits, labels}, {}, "loss");
  On(0).Op("Neg", {loss}, {}, "after");
  ASSERT_OK(scope_.status());
  const auto session = MakeSession(2);
  const auto run = [&](int64_t label) {
    return session->Run(
        {{"labels", Tensor::Of<int64_t>({1}, {label})}, {"logits", Tensor(DType::kFloat32, Shape{1, 3})}}, {"after"});
  };
  EXPECT_THAT(run(7), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loss")));
  EXPECT_OK(run(2).status());
}

// A loop on one device around a tensor of another, and a branch that changes a variable of the other.
TEST_F(PartitionTest, NodesWithFunctions_ArePlacedWhole) {
  const Output x = On(0).Placeholder("x", DType::kFloat32, Shape{});
  const Output v = Variable(On(1), "v", Shape{}, Constant(1));
  const Output two = On(0).Op("Mul", {x, On(0).Const(2.0f)}, {}, "two");
  const Output power = WhileLoop(
      On(1),
      [&](const Scope& s, auto args) {
        return s.Op("Less", {args[0], s.Const(100.0f)});
      },
      [&](const Scope& s, auto args) {
        return std::vector{s.Op("Mul", {args[0], two})};
      },
      {x}, "power")[0];
  const Output chosen = Cond(
      scope_, On(0).Op("Greater", {power, On(0).Const(128.0f)}),
      [&](const Scope& s) {
        s.AddNode("AssignAddVariableOp", {v.node->input(0), power}, {}, "grow");
        return std::vector{s.Op("Neg", {power})};
      },
      [&](const Scope& s) { return std::vector{s.Op("Abs", {power})}; }, "chosen")[0];
  ASSERT_OK(scope_.status());
  const std::string fetch = On(0).Op("Neg", {chosen}, {}, "last").name();
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({fetch}, {.cpus = 2}, {"x"}));
  EXPECT_EQ(run.graph.Find(power.node->name())->device(), kCpu1);
  EXPECT_EQ(run.graph.Find(chosen.node->name())->device(), kCpu1);  // with the variable that it changes
  for (float start : {1.5f, 3.0f}) {
    std::vector<std::string> bits;
    for (int cpus : {0, 2}) {
      const auto session = MakeSession(cpus);
      ASSERT_OK(session->Run({}, {}, {"init"}));
      ASSERT_OK_AND_ASSIGN(const auto values, session->Run({{"x", Tensor::Scalar(start)}}, {fetch}));
      bits.push_back(Bits(values[0]) + Bits(*session->GetVariable("v")));
    }
    EXPECT_EQ(bits[0], bits[1]) << start;
  }
}

TEST_F(PartitionTest, ConstraintThatCannotBeMet_IsRefusedWhenTheSessionGetsTheGraph) {
  On(7).Placeholder("x", DType::kFloat32, Shape{2});
  SessionConfig config;
  config.placer = *DevicePlacer::Create({.cpus = 2});
  EXPECT_THAT(Session::Create(graph_.Clone(), config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Placeholder 'x'")));
  // What is not run raises no error when only that is placed.
  scope_.Const(1.0f, "one");
  config.placer = *DevicePlacer::Create({.cpus = 2, .place_pruned_graph = true});
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph_.Clone(), config));
  EXPECT_OK(session->Run({}, {"one"}).status());
  EXPECT_THAT(session->Run({{"x", Tensor(DType::kFloat32, Shape{2})}}, {"x"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Placeholder 'x'")));
}

TEST_F(PartitionTest, Log_IsWrittenWhenTheGraphIsPlaced) {
  On(1).Const(1.0f, "one");
  std::vector<std::string> lines;
  MakeSession(2, {.log_device_placement = [&](const std::string& line) { lines.push_back(line); }});
  EXPECT_THAT(lines, ElementsAre(fmt::format("one: (Const): {} -- constrained to '/device:CPU:1'", kCpu1)));
}

TEST(DevicePlacerTest, OptionsThatMakeNoSense_AreRefused) {
  EXPECT_THAT(DevicePlacer::Create({.cpus = 0}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DevicePlacer::Create({.cpus = 2, .device_filters = {"/job:ps"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("leaves none")));
  EXPECT_THAT(DevicePlacer::Create({.place_pruned_graph = true, .placement_period = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("drop one")));
  EXPECT_THAT(DevicePlacer::Create({.placement_period = -1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("placement_period is -1")));
}

// A perceptron whose layers live on two devices.
class TrainingTest : public PartitionTest {
 protected:
  void SetUp() override {
    const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 12});
    const Output labels = scope_.Placeholder("labels", DType::kInt64, Shape{kUnknownDim});
    const Output w1 = Variable(On(0), "w1", Shape{12, 9}, GlorotUniform());
    const Output b1 = Variable(On(0), "b1", Shape{9}, Constant(0.1f));
    const Output w2 = Variable(On(1), "w2", Shape{9, 5}, GlorotUniform());
    const Output hidden = On(0).Op("Tanh", {On(0).Op("AddV2", {On(0).Op("MatMul", {x, w1}), b1})}, {}, "hidden");
    const Output logits = On(1).Op("MatMul", {hidden, w2}, {}, "logits");
    const Output losses = On(1).Op("SparseSoftmaxCrossEntropyWithLogits", {logits, labels});
    const Output loss = On(1).Op("Mean", {losses, On(1).Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
    ASSERT_OK(scope_.status());
    const std::vector variables{*FindVariable(graph_, "w1"), *FindVariable(graph_, "b1"), *FindVariable(graph_, "w2")};
    ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph_, loss, variables));
    ASSERT_OK_AND_ASSIGN(Node * step, ApplyGradients(scope_, {.learning_rate = 0.2}, variables, gradients));
    step_ = step->name();
  }
  static Session::Feeds Batch(int64_t rows, uint32_t seed) {
    Tensor x(DType::kFloat32, Shape{rows, 12}), labels(DType::kInt64, Shape{rows});
    uint32_t index = 0;
    for (float& value : x.flat<float>())
      value = static_cast<float>(Philox4x32({{seed, 1}}, {index++, 0, 0, 0})[0] % 2001) / 1000.0f - 1.0f;
    for (int64_t& label : labels.flat<int64_t>()) label = Philox4x32({{seed, 2}}, {index++, 0, 0, 0})[0] % 5;
    return {{"x", x}, {"labels", labels}};
  }
  // Losses and variables after some steps.
  std::vector<std::string> Train(Session& session, const std::function<void(int)>& after_step = nullptr) {
    std::vector<std::string> bits;
    EXPECT_OK(session.Run({}, {}, {"init"}).status());
    for (int i = 0; i < 6; ++i) {
      const auto values = session.Run(Batch(i == 4 ? 3 : 8, static_cast<uint32_t>(i)), {"loss"}, {step_});
      EXPECT_OK(values);
      if (!values.ok()) return {};
      bits.push_back(Bits(values->front()));
      if (after_step) after_step(i);
    }
    for (const char* name : {"w1", "b1", "w2"}) bits.push_back(Bits(*session.GetVariable(name)));
    return bits;
  }
  std::string step_;
};

TEST_F(TrainingTest, OnTwoDevices_SameBitsAsOnOne) {
  const auto expected = Train(*MakeSession(0));
  ASSERT_EQ(expected.size(), 9u);
  EXPECT_EQ(Train(*MakeSession(2)), expected);
  EXPECT_EQ(Train(*MakeSession(2, {.enable_recv_scheduling = true})), expected);
  EXPECT_NE(Train(*MakeSession(2, {.enable_bfloat16_sendrecv = true})), expected);
}

TEST_F(TrainingTest, VariablesLiveOnTheirDevice_AndTheStepIsCut) {
  ASSERT_OK_AND_ASSIGN(const RunGraph run, Cut({"loss"}, {.cpus = 2}, {"x", "labels"}, {step_}));
  EXPECT_EQ(run.graph.Find("w1")->device(), kCpu0);
  EXPECT_EQ(run.graph.Find("w2")->device(), kCpu1);
  EXPECT_GE(OfType(run.graph, "_Send").size(), 2u);
  for (const auto& node : run.graph.nodes()) {
    for (const Output& input : node->inputs()) EXPECT_EQ(input.node->device(), node->device()) << node->name();
    for (const Node* before : node->control_inputs()) EXPECT_EQ(before->device(), node->device()) << node->name();
  }
}

// Nothing is constrained any more; what steps cost decides.
TEST_F(TrainingTest, PlacedByMeasuredCosts_SameBits) {
  const auto expected = Train(*MakeSession(0));
  SessionConfig config;
  ASSERT_OK_AND_ASSIGN(const auto placer,
                       DevicePlacer::Create({.cpus = 2, .allow_soft_placement = true, .placement_period = 2}));
  config.placer = placer;
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph_.Clone(), config));
  const uint64_t before = placer->generation();
  const auto got = Train(*session, [&](int step) {
    CostObserver observer;
    RunOptions options;
    options.observer = &observer;
    options.observer_is_thread_safe = true;
    ASSERT_OK(session->RunWith(options, Batch(8, 99), {"loss"}).status());
    EXPECT_TRUE(observer.model().measured("loss") || observer.model().measured("logits")) << step;
    ASSERT_OK(placer->AddCosts(observer.model()));
  });
  EXPECT_EQ(got, expected);
  EXPECT_EQ(placer->generation(), before + 2);  // after 2 and 4 more
}

// Every way of placing a random graph computes the same.
TEST(RandomPartitionTest, EveryPlacement_SameBits) {
  int sends = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    uint32_t index = 0;
    const auto draw = [&](uint32_t bound) { return Philox4x32({{seed, 77}}, {index++, 0, 0, 0})[0] % bound; };
    const int cpus = static_cast<int>(draw(4)) + 1;
    Graph graph;
    const Scope root(graph);
    const auto scope = [&] {
      return draw(4) == 0 ? root : root.WithDevice(fmt::format("/cpu:{}", draw(static_cast<uint32_t>(cpus))));
    };
    std::vector<Output> pool;
    Session::Feeds feeds;
    for (int i = 0; i < 3; ++i) {
      pool.push_back(scope().Placeholder(fmt::format("x{}", i), DType::kFloat32, Shape{kUnknownDim, 4}));
      Tensor value(DType::kFloat32, Shape{4, 4});
      for (float& v : value.flat<float>()) v = static_cast<float>(draw(2001)) / 1000.0f - 1.0f;
      feeds.emplace_back(fmt::format("x{}", i), value);
    }
    std::vector<Output> variables;
    for (int i = 0; i < 2; ++i)
      variables.push_back(Variable(scope(), fmt::format("v{}", i), Shape{4, 4}, Constant(0.5f)));
    for (const Output& variable : variables) pool.push_back(variable);
    std::vector<Node*> effects;
    std::vector<std::string> fetches, targets;
    const auto pick = [&] { return pool[draw(static_cast<uint32_t>(pool.size()))]; };
    for (int i = 0; i < 25; ++i) {
      Scope here = scope();
      if (!effects.empty() && draw(4) == 0)
        here = here.WithControl({effects[draw(static_cast<uint32_t>(effects.size()))]});
      const std::string name = fmt::format("n{}", i);
      switch (draw(9)) {
        case 0:
          pool.push_back(here.Op("MatMul", {pick(), pick()}, {}, name));
          break;
        case 1:
          pool.push_back(here.Op("AddV2", {pick(), pick()}, {}, name));
          break;
        case 2:
          pool.push_back(here.Op("Mul", {pick(), pick()}, {}, name));
          break;
        case 3:
          pool.push_back(here.Op("Tanh", {pick()}, {}, name));
          break;
        case 4:
          pool.push_back(here.Op("Reshape", {pick(), here.Op("Shape", {pick()})}, {}, name));
          break;
        case 5: {
          const Output handle = variables[draw(2)].node->input(0);
          effects.push_back(here.AddNode("AssignAddVariableOp", {handle, here.Op("Tanh", {pick()})}, {}, name));
          targets.push_back(name);
          break;
        }
        case 6: {
          const Output handle = variables[draw(2)].node->input(0);
          pool.push_back(here.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, name));
          break;
        }
        case 7: {
          const Output sum =
              here.Op("Sum", {pick(), root.Const(Tensor::Of<int32_t>({1}, {1}))}, {{"keep_dims", true}}, name);
          pool.push_back(here.Op("AddV2", {pick(), sum}));
          break;
        }
        default:
          effects.push_back(here.WithControl({pick().node}).AddNode("NoOp", {}, {}, name));
          targets.push_back(name);
      }
    }
    ASSERT_OK(root.status());
    for (int i = 0; i < 5; ++i) fetches.push_back(pick().name());
    const auto run = [&](std::shared_ptr<Placer> placer) {
      std::vector<std::string> bits;
      SessionConfig config;
      config.inter_op_threads = 3;
      config.placer = std::move(placer);
      auto session = Session::Create(graph.Clone(), config);
      EXPECT_OK(session);
      if (!session.ok()) return bits;
      EXPECT_OK((*session)->Run({}, {}, {"init"}).status());
      for (int step = 0; step < 2; ++step) {
        const auto values = (*session)->Run(feeds, fetches, targets);
        EXPECT_OK(values) << "seed " << seed;
        if (!values.ok()) return bits;
        for (const Tensor& value : *values) bits.push_back(Bits(value));
      }
      for (const char* name : {"v0", "v1"}) bits.push_back(Bits(*(*session)->GetVariable(name)));
      return bits;
    };
    const auto expected = run(nullptr);
    ASSERT_OK_AND_ASSIGN(const auto early, DevicePlacer::Create({.cpus = cpus}));
    EXPECT_EQ(run(early), expected) << "seed " << seed << ", " << cpus << " devices";
    ASSERT_OK_AND_ASSIGN(const auto late, DevicePlacer::Create({.cpus = cpus, .enable_recv_scheduling = true}));
    EXPECT_EQ(run(late), expected) << "seed " << seed << ", " << cpus << " devices, late receives";
    ASSERT_OK_AND_ASSIGN(RunGraph cut,
                         PruneForRun(graph, std::vector<std::string>{"x0", "x1", "x2"}, fetches, targets));
    ASSERT_OK(early->Partition(cut));
    sends += static_cast<int>(OfType(cut.graph, "_Send").size());
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(sends, 1000);
}

TEST(CostModelTest, MeanTime_LargestOutput_AndWhatWasNotMeasured) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim, 10});
  const Output y = scope.Op("Neg", {x}, {}, "y");
  CostModel costs;
  costs.Record("y", 2e-3);
  costs.Record("y", 4e-3);
  costs.RecordBytes("y", 0, 800);
  costs.RecordBytes("y", 0, 400);
  EXPECT_DOUBLE_EQ(costs.Seconds(*y.node), 3e-3);
  EXPECT_EQ(costs.Bytes(y), 800);
  EXPECT_DOUBLE_EQ(costs.Seconds(*x.node), CostModel::kUnmeasuredSeconds);
  EXPECT_EQ(costs.Bytes(x), 40);
}

TEST(CostModelTest, Serialize_ReadsBack) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{3});
  const Output y = scope.Op("Neg", {x}, {}, "y");
  CostModel costs;
  costs.Record("y", 3e-3);
  costs.RecordBytes("y", 0, 800);
  ASSERT_OK_AND_ASSIGN(const CostModel read, CostModel::Parse(costs.Serialize(graph)));
  EXPECT_TRUE(read.measured("y"));
  EXPECT_FALSE(read.measured("x"));
  EXPECT_NEAR(read.Seconds(*y.node), 3e-3, 1e-9);
  EXPECT_EQ(read.Bytes(y), 800);
}

TEST(CostModelTest, Parse_WhatIsNoCostModel_IsRefused) {
  EXPECT_THAT(CostModel::Parse("\xff\xff"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no CostGraphDef")));
  // node { name: "a" } twice; node { }; node { name: "a" compute_cost: -1 }.
  EXPECT_THAT(CostModel::Parse("\x0a\x03\x0a\x01\x61\x0a\x03\x0a\x01\x61"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two nodes 'a'")));
  EXPECT_THAT(CostModel::Parse(std::string("\x0a\x00", 2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no name")));
  EXPECT_THAT(CostModel::Parse("\x0a\x0e\x0a\x01\x61\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gives 'a' -1 us")));
}

}  // namespace
}  // namespace rivulet
