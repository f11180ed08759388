// State that outlives a run: variables in containers, shared and isolated; growing graphs; limited memory.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "dataflow/session/allocation_report.h"
#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Graph VariableGraph(const std::string& name, const Shape& shape, const std::string& container = "",
                    const std::string& prefix = "") {
  Graph graph;
  const Scope scope(graph);
  const Output handle =
      scope.Op("VarHandleOp", {},
               {{"dtype", DType::kFloat32}, {"shape", shape}, {"shared_name", name}, {"container", container}},
               prefix + "handle");
  scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, prefix + "read");
  scope.AddNode("AssignVariableOp", {handle, scope.Const(Tensor(DType::kFloat32, shape), prefix + "zero")}, {},
                prefix + "clear");
  EXPECT_OK(scope.status());
  return graph;
}

float Read(Session& session, const std::string& fetch = "read") {
  const auto values = session.Run({}, {fetch});
  EXPECT_OK(values);
  return values.ok() ? (*values)[0].flat<float>()[0] : -1;
}

TEST(SharedStateTest, SessionsOfOneState_SeeEachOthersVariables) {
  SessionConfig config;
  config.shared_state = std::make_shared<ResourceManager>();
  ASSERT_OK_AND_ASSIGN(const auto a, Session::Create(VariableGraph("w", Shape{}), config));
  ASSERT_OK_AND_ASSIGN(const auto b, Session::Create(VariableGraph("w", Shape{}, "localhost"), config));
  ASSERT_OK_AND_ASSIGN(const auto isolated, Session::Create(VariableGraph("w", Shape{})));
  ASSERT_OK(a->SetVariable("w", Tensor::Scalar(4.0f)));
  EXPECT_EQ(Read(*b), 4.0f);
  ASSERT_OK(b->Run({}, {}, {"clear"}));
  EXPECT_EQ(Read(*a), 0.0f);
  EXPECT_THAT(isolated->Run({}, {"read"}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'w'")));
}

TEST(SharedStateTest, ContainersKeepVariablesOfOneNameApart) {
  SessionConfig config;
  config.shared_state = std::make_shared<ResourceManager>();
  ASSERT_OK_AND_ASSIGN(const auto a, Session::Create(VariableGraph("w", Shape{}, "one"), config));
  ASSERT_OK_AND_ASSIGN(const auto b, Session::Create(VariableGraph("w", Shape{}, "two"), config));
  ASSERT_OK(a->SetVariable("w", Tensor::Scalar(4.0f)));
  ASSERT_OK(b->SetVariable("w", Tensor::Scalar(5.0f)));
  EXPECT_EQ(Read(*a), 4.0f);
  EXPECT_EQ(Read(*b), 5.0f);
  a->Reset(std::vector<std::string>{"one"});
  EXPECT_THAT(a->Run({}, {"read"}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'w'")));
  EXPECT_EQ(Read(*b), 5.0f);
  ASSERT_OK(a->Run({}, {}, {"clear"}));
  EXPECT_EQ(Read(*a), 0.0f);
}

TEST(SharedStateTest, VariableOfAnotherShape_IsRefused) {
  SessionConfig config;
  config.shared_state = std::make_shared<ResourceManager>();
  ASSERT_OK_AND_ASSIGN(const auto a, Session::Create(VariableGraph("w", Shape{2}), config));
  EXPECT_THAT(Session::Create(VariableGraph("w", Shape{3}), config),
              StatusIs(absl::StatusCode::kInvalidArgument, "the variable 'w' is both float32[2] and float32[3]"));
}

TEST(SharedStateTest, OneNameInTwoContainersOfOneGraph_IsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(VariableGraph("w", Shape{}, "one")));
  EXPECT_THAT(session->Extend(VariableGraph("w", Shape{}, "two", "b/")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in the containers 'one' and 'two'")));
}

TEST(ExtendTest, AddsNodes_AndVariablesKeepTheirValues) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(VariableGraph("w", Shape{})));
  ASSERT_OK(session->SetVariable("w", Tensor::Scalar(3.0f)));
  EXPECT_EQ(Read(*session), 3.0f);
  ASSERT_OK(session->Extend(VariableGraph("w", Shape{}, "", "again/")));
  ASSERT_OK(session->Extend(VariableGraph("v", Shape{}, "", "other/")));
  EXPECT_EQ(Read(*session, "again/read"), 3.0f);
  EXPECT_EQ(Read(*session), 3.0f);
  EXPECT_THAT(session->variables(), ElementsAre("w", "v"));
}

TEST(ExtendTest, NameThatIsTaken_IsRefusedAndNothingAdded) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(VariableGraph("w", Shape{})));
  Graph more = VariableGraph("v", Shape{}, "", "other/");
  ASSERT_OK(more.AddNode({"read", "NoOp", {}}));
  EXPECT_THAT(session->Extend(more), StatusIs(absl::StatusCode::kAlreadyExists,
                                              "the session's graph has a node 'read' already; nothing was added"));
  EXPECT_EQ(session->graph().Find("other/read"), nullptr);
  EXPECT_THAT(session->ExtendDef(SerializeGraph(more)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'read'")));
  EXPECT_THAT(session->ExtendDef("no graph"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no GraphDef")));
}

TEST(ExtendTest, GraphDefMayReferToNodesOfTheSession) {
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(VariableGraph("w", Shape{})));
  ASSERT_OK(session->SetVariable("w", Tensor::Scalar(3.0f)));
  // The bytes of a node alone: cut out of a graph that has both.
  ASSERT_OK_AND_ASSIGN(const Graph text, ParseGraphText(R"(
      node { name: "read" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "shape" value { shape {} } } }
      node { name: "negated" op: "Neg" input: "read" attr { key: "T" value { type: DT_FLOAT } } })"));
  std::string both = SerializeGraph(text), placeholder;
  Graph only;
  ASSERT_OK(only.AddNode({"read", "Placeholder", {}, {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}}}));
  placeholder = SerializeGraph(only);
  // Both end with the same versions; the first node's bytes are what they begin with in common.
  size_t common = 0;
  while (common < placeholder.size() && both[common] == placeholder[common]) ++common;
  const size_t node_bytes = 2 + static_cast<unsigned char>(both[1]);
  ASSERT_LE(node_bytes, common);
  ASSERT_OK(session->ExtendDef(both.substr(node_bytes)));
  EXPECT_EQ(Read(*session, "negated"), -3.0f);
}

TEST(MemoryTest, VariableBeyondTheLimit_IsRefusedByName) {
  SessionConfig config;
  config.memory_limit_bytes = 1000;
  EXPECT_THAT(Session::Create(VariableGraph("w", Shape{251}), config),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "the variable 'w' needs 1004 bytes, and the session holds 0 of its 1000"));
  EXPECT_OK(Session::Create(VariableGraph("w", Shape{250}), config));
}

TEST(MemoryTest, SharedState_HasOneLimitForAllItsSessions) {
  SessionConfig config;
  config.shared_state = std::make_shared<ResourceManager>(1000);
  ASSERT_OK_AND_ASSIGN(auto a, Session::Create(VariableGraph("a", Shape{200}), config));
  EXPECT_EQ(config.shared_state->memory()->used(), 800u);
  EXPECT_THAT(Session::Create(VariableGraph("b", Shape{200}), config),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("holds 800 of its 1000")));
  a->Reset();
  EXPECT_EQ(config.shared_state->memory()->used(), 0u);
  EXPECT_OK(Session::Create(VariableGraph("b", Shape{200}), config));
}

// The flags that the system keeps for the mapping that `address` lies in, "" where it does not tell.
std::string MappingFlags(uintptr_t address) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      inside = begin <= address && address < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

TEST(MemoryTest, LargeBuffer_AsksForLargePagesWithinItAlone) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this system has no transparent large pages";
  constexpr size_t kBytes = size_t{40} << 20;  // malloc gives it a mapping of its own
  for (const bool refusable : {false, true}) {
    AlignedBuffer large;
    if (refusable) {
      StatusOr<AlignedBuffer> created = AlignedBuffer::Create(kBytes);
      ASSERT_OK(created);
      large = *std::move(created);
    } else {
      large = AlignedBuffer(kBytes);
    }
    EXPECT_TRUE(std::all_of(large.bytes().begin(), large.bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_THAT(MappingFlags(reinterpret_cast<uintptr_t>(large.data() + kBytes / 2)), HasSubstr(" hg "));
    // A large page that reaches beyond the buffer would take memory that is not its own.
    constexpr uintptr_t kPage = uintptr_t{2} << 20;
    if (const uintptr_t begin = reinterpret_cast<uintptr_t>(large.data()); begin % kPage != 0) {
      EXPECT_THAT(MappingFlags(begin), Not(HasSubstr(" hg ")));
    }
  }
}

TEST(MemoryTest, MoreThanTheMachineHas_IsRefusedAndNotFatal) {
  EXPECT_THAT(AlignedBuffer::Create(size_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("and the machine has")));
  EXPECT_THAT(Tensor::Create(DType::kFloat64, Shape{int64_t{1} << 39}), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Tensor::Create(DType::kResource, Shape{1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resource")));
  Graph vast;
  ASSERT_OK(
      vast.AddNode({"w", "VarHandleOp", {}, {}, {{"dtype", DType::kFloat32}, {"shape", Shape{int64_t{1} << 39}}}}));
  EXPECT_THAT(Session::Create(std::move(vast)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the variable 'w'")));
  // The arena of a program, and the fetched tensor.
  Graph graph;
  const Scope scope(graph);
  const Output huge = scope.Op(
      "Fill", {scope.Const(Tensor::Of<int32_t>(Shape{2}, {1 << 20, 1 << 19})), scope.Const(Tensor::Scalar(1.0f))}, {},
      "huge");
  scope.Op("Sum", {huge, scope.Const(Tensor::Of<int32_t>(Shape{2}, {0, 1}))}, {}, "sum");
  ASSERT_OK(scope.status());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  EXPECT_THAT(session->Run({}, {"sum"}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the arena of a program")));
  EXPECT_THAT(session->Run({}, {"huge"}), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MemoryTest, Report_SaysWhatLivesAtThePeak) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kUnknownDim});
  const Output axis = scope.Const(Tensor::Of<int32_t>(Shape{1}, {0}));
  const Output a = scope.Op("Square", {x}, {}, "a");
  const Output b = scope.Op("Sqrt", {a}, {}, "b");
  scope.Op("Sum", {scope.Op("Mul", {scope.Op("AddV2", {a, b}, {}, "c"), a}, {}, "d"), axis}, {}, "sum");
  ASSERT_OK(scope.status());
  Signature signature;
  signature.feeds = {{"x", {DType::kFloat32, Shape{1000}}}};
  signature.fetches = {"sum"};
  ASSERT_OK_AND_ASSIGN(const auto program, CompileProgram(graph, signature));
  const AllocationReport report = ReportAllocations(*program, nullptr, nullptr);
  // a and b live at once; c is b's memory and d one of theirs.
  EXPECT_EQ(report.live_bytes, 8000u);
  EXPECT_GE(report.arena_bytes, report.live_bytes);
  ASSERT_EQ(report.live.size(), 2u);
  EXPECT_EQ(report.live[0].bytes, 4000u);
  size_t by_op = 0;
  for (const auto& [op, bytes] : report.by_op) by_op += bytes;
  EXPECT_EQ(by_op, report.live_bytes);
  EXPECT_THAT(report.ToString(), HasSubstr("Square 'a' float32[1000]"));
}

}  // namespace
}  // namespace rivulet
