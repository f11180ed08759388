// The list of tensors that may leave a task.
#include "dataflow/distributed/send_list.h"

#include "engine/graph/scope.h"
#include "tests/engine/input/datasets.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOwner[] = "/job:host/replica:0/task:0", kOther[] = "/job:guest/replica:0/task:0";

TEST(SendListTest, OneTensorALine_WithCommentsAndPorts) {
  ASSERT_OK_AND_ASSIGN(const SendList listed,
                       ParseSendList("# what the host lets out\n\nactivations\n  split:1 \t# a half\r\nfirst:0"));
  EXPECT_THAT(listed, ElementsAre("activations", "first", "split:1"));
  ASSERT_OK_AND_ASSIGN(const SendList nothing, ParseSendList(""));
  EXPECT_TRUE(nothing.empty());
}

TEST(SendListTest, TextOfAnotherForm_IsRefusedByItsLine) {
  for (const std::string line : {"two words", "^control", "x:", "x:-1", "x:one", "x:01", "x:12345", ":0", "a:0:1"}) {
    EXPECT_THAT(ParseSendList("fine\n" + line),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2: '" + line + "'")))
        << line;
  }
}

class CheckSendsTest : public ::testing::Test {
 protected:
  void Send(Output value, const char* to = kOther) {
    scope_.AddNode("_Send", {value},
                   {{"tensor_name", fmt::format("edge_{}", ++edges_)},
                    {"send_device", fmt::format("{}/device:CPU:0", kOwner)},
                    {"send_device_incarnation", int64_t{1}},
                    {"recv_device", fmt::format("{}/device:CPU:0", to)},
                    {"client_terminated", to == std::string(kOwner)}});
    ASSERT_OK(scope_.status());
  }
  Graph graph_;
  Scope scope_{graph_};
  int edges_ = 0;
};

TEST_F(CheckSendsTest, UnlistedTensors_AreNamedWithTheirReceivers) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  Send(scope_.Op("Neg", {x}, {}, "activations"));
  Send(x);
  const Node* halves =
      scope_.AddNode("Split", {scope_.Const(Tensor::Scalar<int32_t>(0)), x}, {{"num_split", int64_t{2}}}, "halves");
  ASSERT_OK(scope_.status());
  Send({const_cast<Node*>(halves), 1}, kOwner);
  EXPECT_THAT(CheckSends(graph_, {"activations"}, kOwner),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("'x' to '/job:guest/replica:0/task:0'"),
                             HasSubstr("'halves:1' to its session's client"), Not(HasSubstr("activations")))));
  EXPECT_OK(CheckSends(graph_, {"activations", "x", "halves:1"}, kOwner));
  EXPECT_THAT(CheckSends(graph_, {"activations", "x", "halves"}, kOwner),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'halves:1'")));
}

TEST_F(CheckSendsTest, ConstantsAndRoundedCopies_NeedNoLine_AndFunctionsMayNotSend) {
  const Output x = scope_.Placeholder("x", DType::kFloat32, Shape{2});
  Send(scope_.Const(1.0f, "one"));
  Send(scope_.Op("Cast", {x}, {{"DstT", DType::kBFloat16}}, "x/_1"));
  EXPECT_OK(CheckSends(graph_, {"x"}, kOwner));
  EXPECT_THAT(CheckSends(graph_, {}, kOwner), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'x/_1'")));
  testing::AddFunction(graph_, "leak", {{DType::kFloat32, Shape{2}}},
                       [](const Scope& inner, std::vector<Output> values) {
                         inner.AddNode("_Send", {values[0]},
                                       {{"tensor_name", std::string("edge")},
                                        {"send_device", std::string(kOwner)},
                                        {"send_device_incarnation", int64_t{1}},
                                        {"recv_device", std::string(kOther)}});
                         return values;
                       });
  EXPECT_THAT(CheckSends(graph_, {"x"}, kOwner), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("'leak'")));
}

}  // namespace
}  // namespace rivulet
