// What is checked against TensorFlow 2.21 was run there with the same graphs; its answers are quoted.
#include "dataflow/placement/placer.h"

#include <algorithm>

#include "dataflow/placement/colocation.h"
#include "engine/graph/compose.h"
#include "engine/graph/op.h"
#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlacementDevice DeviceOf(std::string_view name, int priority = 0, std::string_view unable = "") {
  return {*ParseDeviceName(name), priority, 1,
          [op = std::string(unable)](const Node& node) { return node.type() != op; }};
}

class PlacerTest : public ::testing::Test {
 protected:
  PlacerTest() : devices_(*DeviceSet::LocalCpus(2)) {}

  Output Float(const Scope& scope, std::string_view name) { return scope.Const(1.0f, name); }
  Output Add(const Scope& scope, Output a, Output b, std::string_view name) {
    return scope.Op("AddV2", {a, b}, {}, name);
  }
  StatusOr<Placement> Place(const PlacementOptions& options = {}) {
    EXPECT_OK(scope_.status());
    auto placement = PlaceGraph(graph_, devices_, options);
    if (placement.ok()) placement_ = *placement;
    return placement;
  }
  std::string On(std::string_view node) const {
    const size_t id = static_cast<size_t>(graph_.Find(node)->id());
    return devices_[static_cast<size_t>(placement_.device[id])].name.ToString();
  }
  std::string Why(std::string_view node) const { return placement_.why[static_cast<size_t>(graph_.Find(node)->id())]; }

  Graph graph_;
  Scope scope_{graph_};
  DeviceSet devices_;
  Placement placement_;
  const std::string cpu0_ = "/job:localhost/replica:0/task:0/device:CPU:0";
  const std::string cpu1_ = "/job:localhost/replica:0/task:0/device:CPU:1";
};

TEST_F(PlacerTest, Unconstrained_GoesToTheFirstDevice) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  Add(scope_, x, x, "y");
  ASSERT_OK(Place());
  EXPECT_EQ(On("y"), cpu0_);
  EXPECT_EQ(Why("y"), "default device");
}

// TensorFlow: "y: (AddV2): …CPU:0", "z: (Mul): …CPU:1", "w: (AddV2): …CPU:1", "x: (Const): …CPU:0".
TEST_F(PlacerTest, Constrained_GoesWhereItIsConstrainedTo) {
  const Scope cpu0 = scope_.WithDevice("/cpu:0"), cpu1 = scope_.WithDevice("/cpu:1");
  const Output x = Float(cpu0, "x");
  const Output y = Add(cpu0, x, x, "y");
  const Output z = cpu1.Op("Mul", {y, y}, {}, "z");
  Add(cpu1, y, z, "w");
  ASSERT_OK(Place());
  EXPECT_EQ(On("x"), cpu0_);
  EXPECT_EQ(On("y"), cpu0_);
  EXPECT_EQ(On("z"), cpu1_);
  EXPECT_EQ(On("w"), cpu1_);
  EXPECT_EQ(Why("z"), "constrained to '/device:CPU:1'");
}

TEST_F(PlacerTest, PartlyConstrained_TakesTheFirstThatFits) {
  Float(scope_.WithDevice("/job:localhost/device:CPU:*"), "x");
  ASSERT_OK(Place());
  EXPECT_EQ(On("x"), cpu0_);
}

// TensorFlow: "Cannot assign a device for operation c: {{node c}} was explicitly assigned to /device:CPU:5 but
// available devices are [ …CPU:0, …CPU:1 ]. Make sure the device specification refers to a valid device."
TEST_F(PlacerTest, NoSuchDevice_IsRefused_NamingNodeConstraintAndDevices) {
  Add(scope_.WithDevice("/cpu:5"), Float(scope_, "a"), Float(scope_, "b"), "c");
  EXPECT_THAT(Place(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("AddV2 'c' (placer_test.cc:"),
                                      HasSubstr("is constrained to '/device:CPU:5', which none of the devices"),
                                      HasSubstr(cpu0_ + ", " + cpu1_), HasSubstr("or allow soft placement"))));
}

// TensorFlow: c, a and b on CPU:0.
TEST_F(PlacerTest, NoSuchDevice_SoftPlacementFallsBackAndSaysSo) {
  Add(scope_.WithDevice("/gpu:0"), Float(scope_, "a"), Float(scope_, "b"), "c");
  ASSERT_OK(Place({.soft = true}));
  EXPECT_EQ(On("c"), cpu0_);
  EXPECT_EQ(Why("c"), "soft placement: no device fits '/device:GPU:0'");
  EXPECT_THAT(placement_.notes,
              ElementsAre("the constraint '/device:GPU:0' of 'c' gives way: soft placement: no device "
                          "fits '/device:GPU:0'"));
}

// TensorFlow refuses this with and without soft placement.
TEST_F(PlacerTest, NoSuchTask_IsRefusedEvenSoftly) {
  Add(scope_.WithDevice("/job:ps/task:1"), Float(scope_, "a"), Float(scope_, "b"), "z");
  EXPECT_THAT(Place({.soft = true}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is constrained to '/job:ps/task:1'")));
}

TEST_F(PlacerTest, NoDeviceName_IsRefusedWithTheNode) {
  ASSERT_OK(graph_.AddNode({"n", "NoOp", {}, {}, {}, "", "/cpus:0"}));
  EXPECT_THAT(Place(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("NoOp 'n'"), HasSubstr("the device name '/cpus:0' has a part"))));
}

TEST_F(PlacerTest, Colocated_FollowsTheConstraintOfItsGroup) {
  const Output a = Float(scope_, "a");
  const Output b = scope_.ColocateWith(a.node).Op("Neg", {a}, {}, "b");
  const Output c = scope_.ColocateWith(b.node).Op("Neg", {b}, {}, "c");
  scope_.ColocateWith(c.node).WithDevice("/cpu:1").Op("Neg", {c}, {}, "d");
  ASSERT_OK(Place());
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(On(name), cpu1_) << name;
  EXPECT_EQ(Why("a"),
            "'d' is constrained to '/device:CPU:1': 'b' is colocated with 'a', 'c' is colocated with 'b', "
            "'d' is colocated with 'c'");
}

// TensorFlow: "Cannot colocate nodes {{colocation_node y}} and {{colocation_node x}}: Cannot merge devices with
// incompatible ids: '/device:CPU:1' and '/device:CPU:0'".
TEST_F(PlacerTest, ColocatedWithClashingConstraints_IsRefusedWithTheChain) {
  const Output x = Float(scope_.WithDevice("/cpu:0"), "x");
  const Output m = scope_.ColocateWith(x.node).WithDevice("/cpu:*").Op("Neg", {x}, {}, "m");
  scope_.ColocateWith(m.node).WithDevice("/cpu:1").Op("Neg", {m}, {}, "y");
  // Colocation takes the leader's constraint, so m is at CPU:0 too, and y overrides the number.
  EXPECT_THAT(Place(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("Neg 'y' (placer_test.cc:"), HasSubstr("constrained to '/device:CPU:1'"),
                             HasSubstr("constrained to '/device:CPU:0'"), HasSubstr("differ in their number"),
                             HasSubstr("'y' is colocated with 'm'"))));
}

TEST_F(PlacerTest, ClashFarAway_ChainNamesEveryTie) {
  const auto node = [&](std::string name, std::vector<std::string> groups, std::string device) {
    ASSERT_OK(graph_.AddNode({name, "NoOp", {}, {}, {{"_class", groups}}, "", device}));
  };
  node("a", {}, "/cpu:0");
  node("b", {"loc:@a"}, "");
  node("d", {}, "/cpu:1");
  node("c", {"loc:@d"}, "");
  node("e", {"loc:@b", "loc:@c"}, "");
  EXPECT_THAT(Place(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("NoOp 'd'"), HasSubstr("NoOp 'a'"),
                             HasSubstr("'b' is colocated with 'a', 'e' is colocated with 'b', 'e' is colocated "
                                       "with 'c', 'c' is colocated with 'd'"))));
}

// TensorFlow: both on CPU:0.
TEST_F(PlacerTest, ColocatedWithClashingConstraints_SoftPlacementLeavesTheNumberOpen) {
  const Output x = Float(scope_.WithDevice("/cpu:0"), "x");
  scope_.ColocateWith(x.node).WithDevice("/cpu:1").Op("Neg", {x}, {}, "y");
  ASSERT_OK(Place({.soft = true}));
  EXPECT_EQ(On("x"), cpu0_);
  EXPECT_EQ(On("y"), cpu0_);
}

TEST_F(PlacerTest, GroupWithoutItsLeader_StillSharesADevice) {
  for (const char* name : {"a", "b"})
    ASSERT_OK(graph_.AddNode({name,
                              "NoOp",
                              {},
                              {},
                              {{"_class", std::vector<std::string>{"loc:@gone"}}},
                              "",
                              name[0] == 'b' ? "/cpu:1" : ""}));
  ASSERT_OK(Place());
  EXPECT_EQ(On("a"), cpu1_);
  EXPECT_THAT(Why("a"), HasSubstr("are of one colocation group 'gone'"));
}

// TensorFlow: "Ignoring device specification /device:CPU:1 for node 'AssignAddVariableOp' because the input edge from
// 'v' is a reference connection and already has a device field set to /device:CPU:0"; all of them are on CPU:0.
TEST_F(PlacerTest, UsersOfAHandle_GoWhereItIs) {
  const Output v = Variable(scope_.WithDevice("/cpu:0"), "v", Shape{2}, Constant(1));
  const Scope cpu1 = scope_.WithDevice("/cpu:1");
  cpu1.AddNode("AssignAddVariableOp", {v.node->input(0), cpu1.Const(Tensor::Of<float>({2}, {1, 2}), "two")}, {}, "add");
  ASSERT_OK(Place());
  EXPECT_EQ(On("v"), cpu0_);
  EXPECT_EQ(On("add"), cpu0_);
  EXPECT_EQ(On(v.node->name()), cpu0_);
  EXPECT_EQ(On("two"), cpu1_);
  EXPECT_THAT(placement_.notes, Contains(HasSubstr("the constraint '/device:CPU:1' of 'add' is left aside: it uses the "
                                                   "handle 'v', which is on '/device:CPU:0'")));
}

TEST_F(PlacerTest, HandlesOfOneVariable_ShareADevice) {
  const auto handle = [&](std::string name, std::string device) {
    return graph_.AddNode({name,
                           "VarHandleOp",
                           {},
                           {},
                           {{"dtype", DType::kFloat32}, {"shape", Shape{1}}, {"shared_name", std::string("v")}},
                           "",
                           device});
  };
  ASSERT_OK(handle("first", ""));
  ASSERT_OK(handle("second", "/cpu:1"));
  ASSERT_OK(Place());
  EXPECT_EQ(On("first"), cpu1_);
  EXPECT_THAT(Why("first"), HasSubstr("handles of one resource 'v'"));
}

TEST_F(PlacerTest, NodeOfOneOutput_WithoutInputs_GoesToItsUsers) {
  const Output x = Float(scope_, "x");
  Add(scope_.WithDevice("/cpu:1"), x, x, "y");
  const Output both = Float(scope_, "both");
  scope_.WithDevice("/cpu:1").Op("Neg", {both}, {}, "n1");
  scope_.WithDevice("/cpu:0").Op("Neg", {both}, {}, "n0");
  ASSERT_OK(Place());
  EXPECT_EQ(On("x"), cpu1_);
  EXPECT_EQ(Why("x"), "with its user 'y'");
  EXPECT_EQ(On("both"), cpu0_);
}

TEST_F(PlacerTest, ShapeOfAValue_IsAskedWhereTheValueIs) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
  const Output y = Add(scope_.WithDevice("/cpu:1"), x, x, "y");
  scope_.Op("Shape", {y}, {}, "s");
  scope_.Op("Neg", {y}, {}, "n");
  ASSERT_OK(Place());
  EXPECT_EQ(On("s"), cpu1_);
  EXPECT_EQ(Why("s"), "with its input 'y', whose shape it reads");
  EXPECT_EQ(On("n"), cpu0_);
}

TEST_F(PlacerTest, Priority_DecidesBeforeTheName) {
  devices_ = *DeviceSet::Create(
      {DeviceOf("/job:a/replica:0/task:0/device:CPU:0"), DeviceOf("/job:a/replica:0/task:0/device:GPU:0", 10, "Neg")});
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  scope_.Op("Square", {x}, {}, "fast");
  scope_.Op("Neg", {x}, {}, "neg");
  ASSERT_OK(Place());
  EXPECT_EQ(On("fast"), "/job:a/replica:0/task:0/device:GPU:0");
  EXPECT_EQ(On("neg"), "/job:a/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(Why("neg"), "the only device that can run it");
}

TEST_F(PlacerTest, OpWithoutAKernelThere_IsRefusedOrMovedSoftly) {
  devices_ = *DeviceSet::Create(
      {DeviceOf("/job:a/replica:0/task:0/device:CPU:0"), DeviceOf("/job:a/replica:0/task:0/device:GPU:0", 10, "Neg")});
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  scope_.WithDevice("/gpu:0").Op("Neg", {x}, {}, "neg");
  EXPECT_THAT(Place(), StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("Neg 'neg'"), HasSubstr("cannot run on '/device:GPU:0'"),
                                      HasSubstr("has no kernel for Neg there"))));
  ASSERT_OK(Place({.soft = true}));
  EXPECT_EQ(On("neg"), "/job:a/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(Why("neg"), "soft placement: '/device:GPU:0' cannot run the Neg 'neg'");
}

TEST_F(PlacerTest, ColocatedWithAnOpWithoutAKernel_ErrorTellsTheChain) {
  devices_ = *DeviceSet::Create(
      {DeviceOf("/job:a/replica:0/task:0/device:CPU:0"), DeviceOf("/job:a/replica:0/task:0/device:GPU:0", 10, "Neg")});
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  const Output neg = scope_.Op("Neg", {x}, {}, "neg");
  scope_.ColocateWith(neg.node).WithDevice("/gpu:0").Op("Square", {x}, {}, "square");
  EXPECT_THAT(Place(),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("has no kernel for Neg there"),
                                                                 HasSubstr("and 'square' is colocated with 'neg'"))));
}

TEST_F(PlacerTest, OpWithoutAKernelAnywhere_IsRefused) {
  devices_ = *DeviceSet::Create({DeviceOf("/job:a/replica:0/task:0/device:CPU:0", 0, "Neg")});
  scope_.Op("Neg", {scope_.Placeholder("x", DType::kFloat32, Shape{2})}, {}, "neg");
  EXPECT_THAT(Place(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cannot run on any of the devices [ /job:a/replica:0/task:0/device:CPU:0 ]")));
}

TEST_F(PlacerTest, Pinned_StaysWithItsGroup) {
  const Output a = scope_.Placeholder("a", DType::kFloat32, Shape{2});
  scope_.ColocateWith(a.node).Op("Neg", {a}, {}, "b");
  const std::map<std::string, std::string> pinned = {{"b", cpu1_}, {"not here", cpu1_}};
  ASSERT_OK(Place({.pinned = &pinned}));
  EXPECT_EQ(On("b"), cpu1_);
  EXPECT_EQ(On("a"), cpu1_);
}

TEST_F(PlacerTest, Log_HasALinePerNode) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  scope_.WithDevice("/cpu:1").Op("Neg", {x}, {}, "neg");
  ASSERT_OK(Place());
  EXPECT_THAT(PlacementLog(graph_, devices_, placement_),
              ElementsAre("x: (Placeholder): " + cpu1_ + " -- with its user 'neg'",
                          "neg: (Neg): " + cpu1_ + " -- constrained to '/device:CPU:1'"));
}

TEST(DeviceSetTest, Filter_KeepsWhatFitsAnyFilter_AndRefusesWhenNoneIsLeft) {
  ASSERT_OK_AND_ASSIGN(const DeviceSet all, DeviceSet::Create({DeviceOf("/job:ps/replica:0/task:0/device:CPU:0"),
                                                               DeviceOf("/job:ps/replica:0/task:1/device:CPU:0"),
                                                               DeviceOf("/job:worker/replica:0/task:3/device:CPU:0"),
                                                               DeviceOf("/job:worker/replica:0/task:3/device:GPU:0")}));
  const auto kept = [&](std::vector<std::string> filters) { return all.Filter(filters)->size(); };
  EXPECT_EQ(kept({}), 4u);
  EXPECT_EQ(kept({"/job:ps"}), 2u);
  EXPECT_EQ(kept({"/job:ps", "/job:worker/replica:0/task:3"}), 4u);
  EXPECT_EQ(kept({"/device:GPU:*"}), 1u);
  EXPECT_THAT(all.Filter(std::vector<std::string>{"/job:ps/task:7"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the device filter '/job:ps/task:7' leaves none of the devices [ /job:ps")));
  EXPECT_THAT(all.Filter(std::vector<std::string>{"/jib:ps"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a device filter: the device name '/jib:ps'")));
}

TEST(DeviceSetTest, Create_RefusesIncompleteAndEqualNames) {
  EXPECT_THAT(DeviceSet::Create({DeviceOf("/cpu:0")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'/device:CPU:0' is incomplete")));
  const PlacementDevice device = DeviceOf("/job:a/replica:0/task:0/device:CPU:0");
  EXPECT_THAT(DeviceSet::Create({device, device}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two devices")));
  EXPECT_THAT(DeviceSet::Create({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no device")));
  EXPECT_THAT(DeviceSet::LocalCpus(0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 64")));
}

// ---- by cost

class CostPlacerTest : public PlacerTest {};

// Two chains of 1 ms each, and a sum.
TEST_F(CostPlacerTest, IndependentWork_IsSpread_AndEndsSooner) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{4});
  const Output a = scope_.Op("Neg", {scope_.Op("Square", {x}, {}, "a1")}, {}, "a2");
  const Output b = scope_.Op("Neg", {scope_.Op("Square", {x}, {}, "b1")}, {}, "b2");
  Add(scope_, a, b, "sum");
  CostModel costs;
  for (const char* name : {"a1", "a2", "b1", "b2"}) costs.Record(name, 1e-3);
  ASSERT_OK(Place({.costs = &costs}));
  EXPECT_EQ(On("a1"), On("a2"));
  EXPECT_EQ(On("b1"), On("b2"));
  EXPECT_NE(On("a1"), On("b1"));
  EXPECT_THAT(Why("b2"), HasSubstr("cost model: ends after 20"));
}

TEST_F(CostPlacerTest, WorkThatCostsLessThanItsTransfer_StaysTogether) {
  const Output x = scope_.Op("Abs", {scope_.Placeholder("x", DType::kFloat32, Shape{1 << 20})}, {}, "abs");
  const Output a = scope_.Op("Square", {x}, {}, "a"), b = scope_.Op("Neg", {x}, {}, "b");
  Add(scope_, a, b, "sum");
  CostModel costs;
  costs.Record("a", 50e-6);
  costs.Record("b", 50e-6);
  costs.transfer_bytes_per_second = 1e9;  // 4 MB: 4 ms
  ASSERT_OK(Place({.costs = &costs}));
  EXPECT_EQ(On("a"), On("b"));
}

TEST_F(CostPlacerTest, ConstraintsAndColocation_AreKept) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{4});
  const Output a = scope_.WithDevice("/cpu:1").Op("Square", {x}, {}, "a");
  const Output b = scope_.Op("Square", {x}, {}, "b");
  scope_.ColocateWith(b.node).Op("Neg", {a}, {}, "c");
  CostModel costs;
  for (const char* name : {"a", "b", "c"}) costs.Record(name, 1e-3);
  ASSERT_OK(Place({.costs = &costs}));
  EXPECT_EQ(On("a"), cpu1_);
  EXPECT_EQ(On("b"), cpu0_);
  EXPECT_EQ(On("c"), cpu0_);
}

TEST_F(CostPlacerTest, SameModel_SamePlacement) {
  Output layer = scope_.Placeholder("x", DType::kFloat32, Shape{4});
  CostModel costs;
  for (int i = 0; i < 30; ++i) {
    const Output a = scope_.Op("Square", {layer}), b = scope_.Op("Neg", {layer}), c = scope_.Op("Abs", {b});
    costs.Record(a.node->name(), 1e-6 * (37 * i % 11 + 1));
    costs.Record(c.node->name(), 1e-6 * (53 * i % 13 + 1));
    layer = Add(scope_, a, c, "sum");
  }
  costs.transfer_latency_seconds = 1e-6;
  ASSERT_OK_AND_ASSIGN(const Placement first, Place({.costs = &costs}));
  ASSERT_OK_AND_ASSIGN(const Placement second, Place({.costs = &costs}));
  EXPECT_EQ(first.device, second.device);
  EXPECT_EQ(std::ranges::count(first.device, 0) == static_cast<long>(first.device.size()), false);
}

}  // namespace
}  // namespace rivulet
