// Functions in graphs: those that TensorFlow's Python wrote (tensorflow/make_function_graphs.py) load and give its
// results and gradients; bytes of ours come back as they were; damaged and hostile ones are refused by name.

#include "dataflow/session/session.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/function_builder.h"
#include "engine/graphdef/graph_def.h"
#include "engine/variables/variables.h"
#include "tests/engine/graphdef/tensorflow_file.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ConstantNamed;
using ::rivulet::testing::ReadTensorFlowFile;
using ::rivulet::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kCases[] = {"cond",   "cond_shapes", "while_sum", "while_power", "while_cond",
                                  "nested", "switch_case", "call",      "autograph",   "assigns"};

GraphImport Cases() {
  GraphImport import;
  for (const char* name : kCases) import.roots.push_back(fmt::format("case/{}", name));
  return import;
}

void ExpectClose(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  float largest = 1;
  for (const float value : expected.flat<float>()) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.flat<float>().size(); ++i)
    EXPECT_NEAR(got.flat<float>()[i], expected.flat<float>()[i], 2e-6f * largest) << what << " element " << i;
}

class TensorFlowFunctionsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(graph_, ParseGraph(ReadTensorFlowFile("functions.pb"), Cases()));
    ASSERT_OK_AND_ASSIGN(values_, ParseGraph(ReadTensorFlowFile("functions.values.pb")));
  }
  const Tensor& Value(const std::string& name) const { return ConstantNamed(values_, name); }
  // Runs `fetches` (name in the values → tensor) for every feed, and compares.
  void Compare(Graph graph, const std::vector<std::pair<std::string, std::string>>& fetches) {
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
    for (const int32_t n : {0, 1, 2, 5}) {
      for (const bool p : {true, false}) {
        for (const auto& [name, tensor] : fetches) {
          ASSERT_OK(session->SetVariable("w", Value("w")));
          ASSERT_OK(session->SetVariable("b", Value("b")));
          const std::string key = fmt::format("{}/{}/{}", name, n, p ? "True" : "False");
          ASSERT_OK_AND_ASSIGN(
              const std::vector<Tensor> results,
              session->Run({{"x", Value("x")}, {"n", Tensor::Scalar(n)}, {"p", Tensor::Scalar(p)}}, {tensor}));
          ExpectClose(results[0], Value(key), key);
        }
      }
    }
  }

  Graph graph_, values_;
};

TEST_P(TensorFlowFunctionsTest, GivesTensorFlowsResults) {
  const std::string name = fmt::format("case/{}", GetParam());
  Compare(std::move(graph_), {{name, name}});
}

TEST_P(TensorFlowFunctionsTest, GivesTensorFlowsGradients) {
  const std::string name = GetParam();
  if (values_.Find(fmt::format("grad/{}/x/0/True", name)) == nullptr) GTEST_SKIP() << "no gradients of this case";
  Scope scope(graph_);
  ASSERT_OK_AND_ASSIGN(const Output y, graph_.FindOutput("case/" + name));
  const Output loss =
      scope.Op("Sum", {scope.Op("Mul", {y, y}), scope.Const(Tensor::Of<int32_t>({2}, {0, 1}))}, {}, "loss");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const Output x, graph_.FindOutput("x"));
  ASSERT_OK_AND_ASSIGN(const Output w, FindVariable(graph_, "w"));
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph_, loss, std::vector{x, w}));
  Compare(std::move(graph_), {{fmt::format("grad/{}/x", name), gradients[0].name()},
                              {fmt::format("grad/{}/w", name), gradients[1].name()}});
}

INSTANTIATE_TEST_SUITE_P(Cases, TensorFlowFunctionsTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param); });

TEST(FunctionBytesTest, OfTensorFlow_ComeBackAsTheyAreWritten) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(ReadTensorFlowFile("functions.pb"), Cases()));
  EXPECT_GT(graph.functions().size(), 20u);
  const std::string bytes = SerializeGraph(graph);
  ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(bytes));
  EXPECT_EQ(again.functions().size(), graph.functions().size());
  EXPECT_EQ(SerializeGraph(again), bytes);
}

TEST(FunctionBytesTest, Damaged_NeverCrash) {
  const std::string bytes = ReadTensorFlowFile("functions.pb");
  int accepted = 0;
  for (size_t i = 0; i < 400; ++i) {
    std::string damaged = bytes;
    const size_t at = i * 2654435761u % bytes.size();
    damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ (1u << (i % 8)));
    accepted += ParseGraph(damaged, Cases()).ok();
  }
  EXPECT_LT(accepted, 400);
}

constexpr char kTwice[] = R"(
  signature { name: 'twice' input_arg { name: 'x' type: DT_FLOAT } output_arg { name: 'y' type: DT_FLOAT } }
  node_def { name: 'add' op: 'AddV2' input: 'x' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }
  ret { key: 'y' value: 'add:z:0' })";
constexpr char kPlaceholder[] = R"(node { name: 'p' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }
    attr { key: 'shape' value { shape { dim { size: 2 } } } } })";

StatusOr<Graph> Parse(const std::string& library, const std::string& op) {
  return ParseGraphText(
      fmt::format("{} node {{ name: 'call' op: '{}' input: 'p' }} library {{ {} }}", kPlaceholder, op, library));
}
std::string Def(const std::string& text) { return fmt::format("function {{ {} }}", text); }

TEST(FunctionBytesTest, NodeWhoseOpIsAFunction_BecomesACall) {
  ASSERT_OK_AND_ASSIGN(Graph graph, Parse(Def(kTwice), "twice"));
  EXPECT_EQ(graph.Find("call")->type(), "PartitionedCall");
  EXPECT_EQ(graph.Find("call")->outputs()[0].shape, Shape{2});
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK_AND_ASSIGN(const auto results, session->Run({{"p", Tensor::Of<float>({2}, {3, 4})}}, {"call"}));
  EXPECT_EQ(results[0].flat<float>()[1], 8);
}

TEST(FunctionBytesTest, FunctionsThatNothingCalls_AreDropped) {
  ASSERT_OK_AND_ASSIGN(
      const Graph graph,
      Parse(Def(kTwice) + "function { signature { name: 'odd' } node_def { name: 'n' op: 'NoSuchOp' } }", "twice"));
  EXPECT_EQ(graph.functions().size(), 1u);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  RIVULET_CHECK(at != std::string::npos, "{}", from);
  return text.replace(at, from.size(), to);
}

TEST(FunctionBytesTest, Faults_AreRefusedByName) {
  const auto refuse = [](const std::string& library, absl::StatusCode code, const std::string& what) {
    EXPECT_THAT(Parse(library, "twice").status(), StatusIs(code, HasSubstr(what))) << library;
  };
  const std::string twice = kTwice;
  refuse(Def(twice) + Def(twice), absl::StatusCode::kInvalidArgument, "two functions of the name 'twice'");
  refuse(Def(Replaced(twice, "op: 'AddV2'", "op: 'thrice'")), absl::StatusCode::kNotFound, "thrice");
  refuse(Def(Replaced(twice, "'add:z:0'", "'add:q:0'")), absl::StatusCode::kNotFound, "has no output 'q:0'");
  refuse(Def(Replaced(twice, "'add:z:0'", "'add:z:7'")), absl::StatusCode::kNotFound, "has no output 'z:7'");
  refuse(Def(Replaced(twice, "'add:z:0'", "'sub:z:0'")), absl::StatusCode::kNotFound, "no node of the function");
  refuse(Def(Replaced(twice, "input: 'x'", "input: 'w'")), absl::StatusCode::kNotFound, "no argument 'w'");
  refuse(Def(Replaced(twice, "input: 'x'", "input: 'add:z:0'")), absl::StatusCode::kInvalidArgument, "cycle");
  refuse(Def(Replaced(twice, "key: 'y'", "key: 'z'")), absl::StatusCode::kInvalidArgument, "its result 'y'");
  refuse(Def(Replaced(twice, "op: 'AddV2'", "op: 'AddV9'")), absl::StatusCode::kNotFound, "AddV9");
  refuse(Def(Replaced(twice, "'x' type: DT_FLOAT", "'x' type_attr: 'T'")), absl::StatusCode::kUnimplemented,
         "polymorphic by its argument 'x'");
  refuse(Def(Replaced(twice, "{ type: DT_FLOAT }", "{ placeholder: 'T' }")), absl::StatusCode::kUnimplemented,
         "polymorphic: attribute 'T'");
  refuse(Def(Replaced(twice, "'x' type: DT_FLOAT", "'x' type: DT_INT32")), absl::StatusCode::kInvalidArgument,
         "function 'twice'");
}

// A function `name` that calls `callee` so many times, one after the other.
std::string Calls(const std::string& name, const std::string& callee, int times) {
  std::string text = fmt::format(
      "signature {{ name: '{}' input_arg {{ name: 'x' type: DT_FLOAT }} output_arg {{ name: 'y' type: DT_FLOAT }} }}",
      name);
  for (int i = 0; i < times; ++i)
    text += fmt::format("node_def {{ name: 'n{}' op: '{}' input: '{}' }}", i, callee,
                        i == 0 ? "x" : fmt::format("n{}:y:0", i - 1));
  return Def(text + fmt::format("ret {{ key: 'y' value: 'n{}:y:0' }}", times - 1));
}

TEST(FunctionBytesTest, Recursion_IsRefusedAndTold) {
  EXPECT_THAT(Parse(Calls("f", "f", 1), "f").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("calls itself: 'f' -> 'f'")));
  EXPECT_THAT(Parse(Calls("f", "g", 1) + Calls("g", "h", 1) + Calls("h", "g", 1), "f").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("calls itself: 'g' -> 'h' -> 'g'")));
}

TEST(FunctionBytesTest, CallsThatWouldExplode_AreRefused) {
  std::string doubling = Def(kTwice), deep = Def(kTwice);
  for (int i = 0; i < 40; ++i)
    doubling += Calls(fmt::format("f{}", i), i == 0 ? "twice" : fmt::format("f{}", i - 1), 2);
  EXPECT_THAT(Parse(doubling, "f39").status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more than 1000000 nodes")));
  for (int i = 0; i < 100; ++i) deep += Calls(fmt::format("f{}", i), i == 0 ? "twice" : fmt::format("f{}", i - 1), 1);
  EXPECT_THAT(Parse(deep, "f99").status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("more than 64 deep")));
}

TEST(FunctionGradientTest, OfABodyThatDraws_SeesWhatTheBodyDrew) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {64});
  const auto dropout =
      MakeFunction(scope, "dropout", std::vector<TensorSpec>{{DType::kFloat32, {64}}}, [](const Scope& s, auto v) {
        const Output shape = s.Const(Tensor::Of<int32_t>({1}, {64}));
        s.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}});
        const Output drawn = s.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}});
        return std::vector{s.Op("Mul", {v[0], drawn})};
      });
  Call(scope, dropout, {x});  // draws from a place of its own
  const Output y = Call(scope, dropout, {x})[0];
  const Output loss = scope.Op("Sum", {y, scope.Const(Tensor::Of<int32_t>({1}, {0}))});
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto gradients, ComputeGradients(graph, loss, std::vector{x}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  const Tensor ones = Tensor::Of<float>({64}, std::vector<float>(64, 1.0f));
  ASSERT_OK_AND_ASSIGN(const auto results, session->Run({{"x", ones}}, {y.name(), gradients[0].name()}));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(results[0].flat<float>()[i], results[1].flat<float>()[i]);
}

TEST(FunctionGradientTest, ThroughWhatTheBodyChanges_IsRefusedByName) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, {2});
  const Output handle = scope.Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}}, "v");
  const auto made =
      MakeFunction(scope, "count", std::vector<TensorSpec>{{DType::kFloat32, {2}}}, [&](const Scope& s, auto v) {
        const Output read = s.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
        s.AddNode("AssignAddVariableOp", {handle, read});
        return std::vector{s.Op("Mul", {v[0], read})};
      });
  const Output loss = scope.Op("Sum", {Call(scope, made, {x})[0], scope.Const(Tensor::Of<int32_t>({1}, {0}))});
  ASSERT_OK(scope.status());
  EXPECT_THAT(ComputeGradients(graph, loss, std::vector{x}).status(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("function 'count' reads and changes the variable"), HasSubstr("'v'"))));
}

}  // namespace
}  // namespace rivulet
