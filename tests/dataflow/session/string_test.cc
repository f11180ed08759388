// Strings in the runs of a session: fed, moved, compared, in branches, in assertions, cut into parts.
#include "dataflow/session/session.h"
#include "engine/graph/function.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/tensor/text.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::rivulet::testing::Values;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Texts(Shape shape, const std::vector<std::string>& texts) { return TextTensor(std::move(shape), texts).value(); }

TEST(Text, EqualTexts_AreOneNumberAndZeroIsEmpty) {
  ASSERT_OK_AND_ASSIGN(const uint64_t first, NumberOfText("a label"));
  ASSERT_OK_AND_ASSIGN(const uint64_t second, NumberOfText(std::string("a la") + "bel"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(TextOfNumber(first), "a label");
  EXPECT_EQ(TextOfNumber(0), "");
  EXPECT_EQ(TextOfNumber(UINT64_MAX), "");
  EXPECT_THAT(TextsOf(Tensor(DType::kString, Shape{2})), ElementsAre("", ""));
}

TEST(Text, TextBeyondTheTable_IsRefused) {
  EXPECT_THAT(NumberOfText(std::string(kMostTextBytes, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("keep records in input pipelines")));
}

class Strings : public ::testing::Test {
 protected:
  StatusOr<std::vector<Tensor>> Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                                    const std::vector<std::string>& targets = {}) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    RIVULET_ASSIGN_OR_RETURN(session_, Session::Create(std::move(graph_)));
    return session_->Run(feeds, fetches, targets);
  }
  Output Integer(int32_t value) { return scope_.Const(Tensor::Scalar(value)); }

  Graph graph_;
  Scope scope_{graph_};
  std::unique_ptr<Session> session_;
};

TEST_F(Strings, Unique_AndWhatFollowsIt_RunOnTexts) {
  const Output x = scope_.Placeholder("x", DType::kString, {-1});
  Node* unique = scope_.AddNode("UniqueWithCounts", {x}, {}, "u");
  scope_.Op("ConcatV2", {unique->output(0), scope_.Const(Texts({1}, {"end"})), Integer(0)}, {}, "y");
  ASSERT_OK_AND_ASSIGN(const auto values, Run({{"x", Texts({4}, {"b", "a", "b", ""})}}, {"y", "u:1", "u:2"}));
  EXPECT_THAT(TextsOf(values[0]), ElementsAre("b", "a", "", "end"));
  EXPECT_THAT(Values<int32_t>(values[1]), ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(Values<int32_t>(values[2]), ElementsAre(2, 1, 1));
}

TEST_F(Strings, StringSplitV2_GivesThePartsOfEachRow) {
  const Output x = scope_.Placeholder("x", DType::kString, {-1});
  scope_.AddNode("StringSplitV2", {x, scope_.Const(Texts({}, {","}))}, {}, "comma");
  scope_.AddNode("StringSplitV2", {x, scope_.Const(Texts({}, {""}))}, {{"maxsplit", int64_t{1}}}, "space");
  ASSERT_OK_AND_ASSIGN(const auto values, Run({{"x", Texts({3}, {"a,b,,c", "", " d e  f "})}},
                                              {"comma", "comma:1", "comma:2", "space", "space:1", "space:2"}));
  EXPECT_THAT(Values<int64_t>(values[0]), ElementsAre(0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 2, 0));
  EXPECT_THAT(TextsOf(values[1]), ElementsAre("a", "b", "", "c", "", " d e  f "));
  EXPECT_THAT(Values<int64_t>(values[2]), ElementsAre(3, 4));
  EXPECT_THAT(Values<int64_t>(values[3]), ElementsAre(0, 0, 2, 0, 2, 1));
  EXPECT_THAT(TextsOf(values[4]), ElementsAre("a,b,,c", "d", "e  f "));
  EXPECT_THAT(Values<int64_t>(values[5]), ElementsAre(3, 2));
}

TEST_F(Strings, Branches_HandTextsOn) {
  const auto branch = [&](const char* name, const char* text) {
    Graph body;
    Scope inside(body);
    Node* x = inside.AddNode("_Arg", {}, {{"T", DType::kString}, {"index", int64_t{0}}}, "x");
    const Output joined = inside.Op("StringJoin", {x->output(), inside.Const(Texts({}, {text}))}, {{"N", int64_t{2}}});
    ASSERT_OK(inside.status());
    ASSERT_OK_AND_ASSIGN(auto function, Function::Create(name, std::move(body), {joined}));
    ASSERT_OK(graph_.AddFunction(function));
  };
  branch("yes", "!");
  branch("no", "?");
  const Output p = scope_.Placeholder("p", DType::kBool, {}), x = scope_.Placeholder("x", DType::kString, {});
  scope_.AddNode("StatelessIf", {p, x},
                 {{"then_branch", FunctionRef{"yes"}},
                  {"else_branch", FunctionRef{"no"}},
                  {"Tout", std::vector<DType>{DType::kString}}},
                 "y");
  ASSERT_OK_AND_ASSIGN(const auto values, Run({{"p", Tensor::Scalar(true)}, {"x", Texts({}, {"well"})}}, {"y"}));
  EXPECT_THAT(TextsOf(values[0]), ElementsAre("well!"));
  ASSERT_OK_AND_ASSIGN(const auto others,
                       session_->Run({{"p", Tensor::Scalar(false)}, {"x", Texts({}, {"well"})}}, {"y"}));
  EXPECT_THAT(TextsOf(others[0]), ElementsAre("well?"));
}

TEST_F(Strings, FailedAssertion_SaysItsMessage) {
  const Output x = scope_.Placeholder("x", DType::kInt32, {2});
  const Output fine = scope_.Op("Less", {scope_.Op("Sum", {x, Integer(0)}), Integer(5)});
  scope_.AddNode("Assert", {fine, scope_.Const(Texts({}, {"the sum is too large:"})), x}, {}, "check");
  const auto refused = Run({{"x", Tensor::Of<int32_t>({2}, {3, 4})}}, {}, {"check"});
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("the assertion failed: the sum is too large: [3 4]")));
}

TEST_F(Strings, TextThatIsNoNumber_IsNamed) {
  const Output x = scope_.Placeholder("x", DType::kString, {2});
  scope_.Op("StringToNumber", {x}, {}, "y");
  EXPECT_THAT(Run({{"x", Texts({2}, {"1", "1,5"})}}, {"y"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("element 1, '1,5', is no float32")));
}

TEST_F(Strings, Variables_HoldNoTexts) {
  scope_.Op("VarHandleOp", {}, {{"dtype", DType::kString}, {"shape", Shape{2}}}, "v");
  ASSERT_OK(scope_.status());
  EXPECT_THAT(Session::Create(std::move(graph_)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("variables hold numbers")));
}

TEST_F(Strings, Graphs_KeepTheirTextsInAFile) {
  scope_.Op("Identity", {scope_.Const(Texts({2}, {"one", "zw\xc3\xb6lf"}))}, {}, "y");
  ASSERT_OK(scope_.status());
  ASSERT_OK_AND_ASSIGN(Graph read, ParseGraph(SerializeGraph(graph_)));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(read)));
  ASSERT_OK_AND_ASSIGN(const auto values, session->Run({}, {"y"}));
  EXPECT_THAT(TextsOf(values[0]), ElementsAre("one", "zw\xc3\xb6lf"));
}

}  // namespace
}  // namespace rivulet
