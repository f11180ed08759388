#include "engine/graph/device_name.h"

#include <array>
#include <string>
#include <vector>

#include "engine/base/philox.h"
#include "engine/graph/compose.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DeviceName Device(std::string_view text) {
  const StatusOr<DeviceName> name = ParseDeviceName(text);
  EXPECT_OK(name) << text;
  return name.ok() ? *name : DeviceName{};
}
std::string Canonical(std::string_view text) { return Device(text).ToString(); }

TEST(DeviceNameTest, Parse_WholeName_EveryPartIsRead) {
  const DeviceName name = Device("/job:worker/replica:0/task:3/device:GPU:1");
  EXPECT_EQ(name.job, "worker");
  EXPECT_EQ(name.replica, 0);
  EXPECT_EQ(name.task, 3);
  EXPECT_EQ(name.type, "GPU");
  EXPECT_EQ(name.id, 1);
  EXPECT_TRUE(name.complete());
  EXPECT_EQ(name.ToString(), "/job:worker/replica:0/task:3/device:GPU:1");
}

// What tf.DeviceSpec.from_string(…).to_string() gives in TensorFlow 2.21.
TEST(DeviceNameTest, ToString_IsTensorFlowsCanonicalForm) {
  for (const auto& [text, canonical] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"/", ""},
           {"/cpu:0", "/device:CPU:0"},
           {"/CPU:0", "/device:CPU:0"},
           {"cpu:0", "/device:CPU:0"},
           {"/cpu", "/device:CPU:*"},
           {"/cpu:*", "/device:CPU:*"},
           {"/device:cpu:0", "/device:CPU:0"},
           {"/device:CPU:*", "/device:CPU:*"},
           {"/gpu:1", "/device:GPU:1"},
           {"/task:3/job:w", "/job:w/task:3"},
           {"/device:*:3", "/device:*:3"},
           {"/job:a_b", "/job:a_b"},
           {"/device:_x:0", "/device:_x:0"},
           {"/device:XLA_CPU:0", "/device:XLA_CPU:0"},
           {"/task:01", "/task:1"},
       })
    EXPECT_EQ(Canonical(text), canonical) << text;
  EXPECT_EQ(Canonical("/job:*/replica:*/task:*/device:*"), "");
}

TEST(DeviceNameTest, Parse_WhatIsNoDeviceName_IsRefusedInOneSentence) {
  const auto refused = [](std::string_view text, std::string_view why) {
    EXPECT_THAT(ParseDeviceName(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(why))))
        << text;
  };
  refused("/jobs:a", "has a part 'jobs:a'; parts are /job:, /replica:, /task: and /device:");
  refused("//cpu:0", "has a part ''");
  refused("/cpu:0/", "ends with '/'");
  refused("/job", "gives no value for 'job'");
  refused("/job:", "has a job ''");
  refused("/job:9", "has a job '9'");
  refused("/job:a-b", "a job is a letter and then letters, digits and '_'");
  refused("/replica:x", "has a replica 'x'; it is a number from 0 to 2147483647, or '*'");
  refused("/task:-1", "has a task '-1'");
  refused("/task:+1", "has a task '+1'");
  refused("/device:9:0", "has a device type '9'");
  refused("/device::0", "has a device type ''");
  refused("/device:CPU:", "has a number ''");
  refused("/device:CPU:99999999999", "has a number '99999999999'");
  refused("/device:CPU:0:1", "has a number '0:1'");
  refused("/job:a/job:b", "the device name '/job:a/job:b' states its job twice; keep one");
  refused("/cpu:0/gpu:1", "states its device twice");
  refused("/job:\n", "the device name '/job:?'");
  refused(std::string(10'000, 'a'), "a device name of 10000 characters is refused; at most 512 are read");
}

// Valid names with a few bytes changed, taken out or doubled: each is refused or read, and what is read prints to a
// name that reads the same.
TEST(DeviceNameTest, Parse_MutatedNames_AreRefusedOrReadAsTheyPrint) {
  const std::array<std::string, 6> seeds = {"/job:worker/replica:0/task:3/device:GPU:1",
                                            "/cpu:0",
                                            "/device:*:3",
                                            "/job:*/task:12",
                                            "/device:CPU:*",
                                            "/replica:7/gpu"};
  const std::string alphabet = "/:*cgpujobtaskdevicereplica0189_-CPU \xff";
  int read = 0, refused = 0;
  for (uint32_t trial = 0; trial < 20'000; ++trial) {
    const PhiloxKey key{{trial, 7}};
    std::string text = seeds[trial % seeds.size()];
    for (uint32_t edit = 0; edit <= trial % 3; ++edit) {
      const auto draw = Philox4x32(key, {edit, 0, 0, 0});
      if (text.empty()) break;
      const size_t at = draw[0] % text.size();
      const char c = alphabet[draw[1] % alphabet.size()];
      switch (draw[2] % 4) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.erase(at, 1 + draw[3] % 3);
          break;
        case 2:
          text.insert(at, 1, c);
          break;
        default:
          text += text.substr(at);
          break;
      }
    }
    const StatusOr<DeviceName> name = ParseDeviceName(text);
    if (!name.ok()) {
      ++refused;
      EXPECT_THAT(name, StatusIs(absl::StatusCode::kInvalidArgument));
      EXPECT_FALSE(Message(name.status()).empty());
      continue;
    }
    ++read;
    EXPECT_EQ(Device(name->ToString()), *name) << text;
    EXPECT_TRUE(IsSpecificationOf(*name, *name));
    EXPECT_TRUE(IsSpecificationOf(DeviceName{}, *name));
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(DeviceNameTest, IsSpecificationOf_HoldsWhenEveryStatedPartAgrees) {
  const DeviceName device = Device("/job:worker/replica:0/task:3/device:GPU:1");
  for (const char* pattern : {"", "/job:worker", "/gpu:1", "/task:3", "/job:*/device:GPU:*", "/device:*:1"})
    EXPECT_TRUE(IsSpecificationOf(Device(pattern), device)) << pattern;
  for (const char* pattern : {"/job:ps", "/gpu:0", "/task:2", "/cpu:1"})
    EXPECT_FALSE(IsSpecificationOf(Device(pattern), device)) << pattern;
  EXPECT_FALSE(IsSpecificationOf(device, Device("/job:worker")));  // which says less
}

TEST(DeviceNameTest, AreCompatible_HoldsWhenSomeDeviceFitsBoth) {
  EXPECT_TRUE(AreCompatible(Device("/job:worker"), Device("/task:3/cpu:0")));
  EXPECT_TRUE(AreCompatible(Device("/device:*:1"), Device("/gpu:*")));
  EXPECT_FALSE(AreCompatible(Device("/job:worker"), Device("/job:ps/cpu:0")));
  EXPECT_FALSE(AreCompatible(Device("/cpu:0"), Device("/cpu:1")));
}

TEST(DeviceNameTest, Merge_JoinsParts_AndNamesThePartThatClashes) {
  const auto merge = [](std::string_view a, std::string_view b) { return MergeDevices(Device(a), Device(b)); };
  ASSERT_OK_AND_ASSIGN(const DeviceName merged, merge("/job:ps/task:1", "/device:CPU:*"));
  EXPECT_EQ(merged.ToString(), "/job:ps/task:1/device:CPU:*");
  EXPECT_THAT(merge("/job:ps", "/job:worker"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        "the devices '/job:ps' and '/job:worker' differ in their job"));
  EXPECT_THAT(merge("/replica:0", "/replica:1"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("their replica")));
  EXPECT_THAT(merge("/task:0", "/task:1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("their task")));
  EXPECT_THAT(merge("/cpu:0", "/gpu:0"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("their type")));
  EXPECT_THAT(merge("/cpu:0", "/cpu:1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("their number")));
}

TEST(DeviceNameTest, MergeSoft_LeavesTheDeviceOpen_ButNeverTheTask) {
  ASSERT_OK_AND_ASSIGN(const DeviceName type, MergeDevices(Device("/task:1/cpu:0"), Device("/gpu:0"), true));
  EXPECT_EQ(type.ToString(), "/task:1");
  ASSERT_OK_AND_ASSIGN(const DeviceName number, MergeDevices(Device("/cpu:0"), Device("/cpu:1"), true));
  EXPECT_EQ(number.ToString(), "/device:CPU:*");
  EXPECT_THAT(MergeDevices(Device("/task:0"), Device("/task:1"), true), StatusIs(absl::StatusCode::kInvalidArgument));
}

class DeviceScopeTest : public ::testing::Test {
 protected:
  std::string DeviceOf(std::string_view node) { return graph_.Find(node)->device(); }
  Graph graph_;
  Scope root_{graph_};
};

TEST_F(DeviceScopeTest, WithDevice_InnerPartsWinOverOuterOnes) {
  const Scope worker = root_.WithDevice("/job:worker/task:1");
  worker.Const(1.0f, "worker");
  worker.WithDevice("/cpu:1").Const(1.0f, "cpu");
  worker.WithDevice("/cpu:1").WithDevice("/task:2/device:GPU:*").Const(1.0f, "other");
  worker.WithDevice("").SubScope("in").Const(1.0f, "scope");
  root_.Const(1.0f, "free");
  ASSERT_OK(root_.status());
  EXPECT_EQ(DeviceOf("worker"), "/job:worker/task:1");
  EXPECT_EQ(DeviceOf("cpu"), "/job:worker/task:1/device:CPU:1");
  EXPECT_EQ(DeviceOf("other"), "/job:worker/task:2/device:GPU:1");
  EXPECT_EQ(DeviceOf("in/scope"), "/job:worker/task:1");
  EXPECT_EQ(DeviceOf("free"), "");
}

TEST_F(DeviceScopeTest, WithDevice_WhatIsNoName_FailsTheScope) {
  root_.WithDevice("/cpu:x").Const(1.0f, "never");
  EXPECT_THAT(root_.status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the device name '/cpu:x'")));
  EXPECT_EQ(graph_.Find("never"), nullptr);
}

TEST_F(DeviceScopeTest, ColocateWith_TakesTheNodesConstraintAndNamesIt) {
  const Output home = root_.WithDevice("/cpu:1").Const(1.0f, "home");
  root_.WithDevice("/cpu:0").ColocateWith(home.node).Const(2.0f, "guest");
  ASSERT_OK(root_.status());
  EXPECT_EQ(DeviceOf("guest"), "/device:CPU:1");
  EXPECT_THAT(graph_.Find("guest")->attr<std::vector<std::string>>("_class"), ElementsAre("loc:@home"));
}

TEST_F(DeviceScopeTest, DevicesAndColocation_LastThroughBytesCloneAndCopies) {
  const Output home = root_.WithDevice("/job:ps/cpu:1").Const(1.0f, "home");
  root_.ColocateWith(home.node).Op("Square", {home}, {}, "guest");
  ASSERT_OK(root_.status());
  const auto check = [](const Graph& graph, const std::string& prefix) {
    const Node* guest = graph.Find(prefix + "guest");
    ASSERT_NE(guest, nullptr);
    EXPECT_EQ(guest->device(), "/job:ps/device:CPU:1");
    EXPECT_EQ(graph.Find(prefix + "home")->device(), "/job:ps/device:CPU:1");
    EXPECT_THAT(guest->attr<std::vector<std::string>>("_class"), ElementsAre("loc:@" + prefix + "home"));
  };
  check(graph_.Clone(), "");
  ASSERT_OK_AND_ASSIGN(const Graph read, ParseGraph(SerializeGraph(graph_)));
  check(read, "");
  Graph larger;
  ASSERT_OK(ImportInto(larger, graph_, "tower"));
  check(larger, "tower/");
}

}  // namespace
}  // namespace rivulet
