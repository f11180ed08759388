// Reads of variables see what program order says, with as few copies as that allows.
#include <gmock/gmock.h>

#include <random>

#include "engine/base/philox.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int64_t kChunk = 16;  // floats in 64 bytes

TEST(Variables, ReadUsedAfterAWrite_SeesTheOldValue) {
  Graph graph;
  Scope scope(graph);
  const Output v = VariableHandle(scope, "v", Shape{kChunk});
  const Output before = ReadVariable(scope, v);
  Node* assign = scope.AddNode("AssignVariableOp", {v, scope.Placeholder("x", DType::kFloat32, Shape{kChunk})});
  scope.WithControl({assign}).Op("Neg", {before}, {}, "y");
  Signature s;
  s.feeds = {{"x", F32({kChunk})}};
  s.fetches = {"y"};
  s.variables = {{"v", 0, 0, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {kChunk});
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->Count("copy"), 2);  // the read, and the assignment of a feed
  (*runner)->floats(0)[0] = 3;
  Tensor x(DType::kFloat32, {kChunk});
  x.flat<float>()[0] = 8;
  ASSERT_OK((*runner)->Run({x}));
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], -3);
  EXPECT_EQ((*runner)->floats(0)[0], 8);
}

TEST(Variables, ReadUsedBeforeTheWrite_IsNotCopied) {
  Graph graph;
  Scope scope(graph);
  const Output v = VariableHandle(scope, "v", Shape{kChunk});
  scope.Op("Neg", {ReadVariable(scope, v)}, {}, "y");
  scope.AddNode("AssignAddVariableOp", {v, scope.Const(Tensor(DType::kFloat32, {kChunk}))}, {}, "add");
  Signature s;
  s.fetches = {"y"};
  s.targets = {"add"};
  s.variables = {{"v", 0, 0, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {kChunk});
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->Count("copy"), 0);
}

TEST(Variables, WriteToOverlappingMemoryUnderAnotherName_IsSeenAsAWrite) {
  Graph graph;
  Scope scope(graph);
  const Output slice = VariableHandle(scope, "slice", Shape{kChunk}),
               flat = VariableHandle(scope, "flat", Shape{2 * kChunk});
  const Output before = ReadVariable(scope, slice);
  Tensor ones(DType::kFloat32, {2 * kChunk});
  for (float& one : ones.flat<float>()) one = 1;
  Node* add = scope.AddNode("AssignAddVariableOp", {flat, scope.Const(ones)});
  scope.WithControl({add}).Op("Sub", {ReadVariable(scope.WithControl({add}), slice), before}, {}, "change");
  Signature s;
  s.fetches = {"change"};
  s.variables = {{"slice", 0, 64, F32({kChunk})}, {"flat", 0, 0, F32({2 * kChunk})}};
  auto runner = Runner::Create(graph, s, {2 * kChunk});
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->Count("copy"), 1);
  ASSERT_OK((*runner)->Run());
  EXPECT_THAT((*runner)->fetched[0].flat<float>(), Each(1));
  EXPECT_THAT((*runner)->floats(0), Each(1));
}

TEST(Variables, WriteBesideTheRead_CopiesNothing) {
  Graph graph;
  Scope scope(graph);
  const Output a = VariableHandle(scope, "a", Shape{kChunk}), b = VariableHandle(scope, "b", Shape{kChunk});
  const Output read = ReadVariable(scope, a);
  Node* add = scope.AddNode("AssignAddVariableOp", {b, scope.Const(Tensor(DType::kFloat32, {kChunk}))});
  scope.WithControl({add}).Op("Neg", {read}, {}, "y");
  Signature s;
  s.fetches = {"y"};
  s.variables = {{"a", 0, 0, F32({kChunk})}, {"b", 0, 64, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {2 * kChunk});
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->Count("copy"), 0);
}

TEST(Variables, AssignedResult_IsWrittenByItsProducer) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kChunk});
  scope.AddNode("AssignVariableOp", {VariableHandle(scope, "v", Shape{kChunk}), scope.Op("Neg", {x})}, {}, "assign");
  Signature s;
  s.feeds = {{"x", F32({kChunk})}};
  s.targets = {"assign"};
  s.variables = {{"v", 0, 0, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {kChunk});
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->program->instructions().size(), 1u);
  EXPECT_EQ((*runner)->program->memory().arena_bytes, 0u);
  Tensor ones(DType::kFloat32, {kChunk});
  for (float& one : ones.flat<float>()) one = 1;
  ASSERT_OK((*runner)->Run({ones}));
  EXPECT_THAT((*runner)->floats(0), Each(-1));
}

TEST(Variables, AssignedResultWhileAReadLives_IsCopied) {
  Graph graph;
  Scope scope(graph);
  const Output v = VariableHandle(scope, "v", Shape{kChunk});
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{kChunk});
  const Output old = ReadVariable(scope, v);
  const Output made = scope.Op("Neg", {x});
  scope.Op("AddV2", {old, made}, {}, "sum");  // between producer and assignment
  scope.AddNode("AssignVariableOp", {v, made}, {}, "assign");
  Signature s;
  s.feeds = {{"x", F32({kChunk})}};
  s.fetches = {"sum"};
  s.targets = {"assign"};
  s.variables = {{"v", 0, 0, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {kChunk});
  ASSERT_OK(runner);
  (*runner)->floats(0)[0] = 100;
  Tensor x_value(DType::kFloat32, {kChunk});
  x_value.flat<float>()[0] = 1;
  ASSERT_OK((*runner)->Run({x_value}));
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], 99);
  EXPECT_EQ((*runner)->floats(0)[0], -1);
}

TEST(Variables, UpdateFromItsOwnRead_HappensInPlace) {
  Graph graph;
  Scope scope(graph);
  const Output v = VariableHandle(scope, "v", Shape{kChunk});
  const Output step = scope.Placeholder("step", DType::kFloat32, Shape{kChunk});
  scope.AddNode("AssignVariableOp", {v, scope.Op("Sub", {ReadVariable(scope, v), step})}, {}, "assign");
  Signature s;
  s.feeds = {{"step", F32({kChunk})}};
  s.targets = {"assign"};
  s.variables = {{"v", 0, 0, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {kChunk});
  ASSERT_OK(runner);
  EXPECT_EQ((*runner)->program->instructions().size(), 1u);
  Tensor ones(DType::kFloat32, {kChunk});
  for (float& one : ones.flat<float>()) one = 1;
  ASSERT_OK((*runner)->Run({ones}));
  ASSERT_OK((*runner)->Run({ones}));
  EXPECT_THAT((*runner)->floats(0), Each(-2));
}

TEST(Variables, Exchange_KeepsBothValues) {
  Graph graph;
  Scope scope(graph);
  const Output a = VariableHandle(scope, "a", Shape{kChunk}), b = VariableHandle(scope, "b", Shape{kChunk});
  const Output old_a = ReadVariable(scope, a), old_b = ReadVariable(scope, b);
  scope.AddNode("AssignVariableOp", {a, old_b}, {}, "first");
  scope.AddNode("AssignVariableOp", {b, old_a}, {}, "second");
  Signature s;
  s.targets = {"first", "second"};
  s.variables = {{"a", 0, 0, F32({kChunk})}, {"b", 1, 0, F32({kChunk})}};
  auto runner = Runner::Create(graph, s, {kChunk, kChunk});
  ASSERT_OK(runner);
  (*runner)->floats(0)[3] = 1;
  (*runner)->floats(1)[3] = 2;
  ASSERT_OK((*runner)->Run());
  EXPECT_EQ((*runner)->floats(0)[3], 2);
  EXPECT_EQ((*runner)->floats(1)[3], 1);
}

TEST(Variables, FetchedReadAndLaterWrite_GivesTheOldValue) {
  Graph graph;
  Scope scope(graph);
  const Output v = VariableHandle(scope, "v", Shape{});
  scope.Op("Identity", {ReadVariable(scope, v)}, {}, "before");
  scope.AddNode("AssignVariableOp", {v, scope.Const(5.0f)}, {}, "assign");
  Signature s;
  s.fetches = {"before"};
  s.targets = {"assign"};
  s.variables = {{"v", 0, 0, F32({})}};
  auto runner = Runner::Create(graph, s, {kChunk});
  ASSERT_OK(runner);
  (*runner)->floats(0)[0] = 2;
  ASSERT_OK((*runner)->Run());
  EXPECT_EQ((*runner)->fetched[0].flat<float>()[0], 2);
  EXPECT_EQ((*runner)->floats(0)[0], 5);
}

// Random programs of reads, sums and writes over variables that overlap in all ways, against an interpreter that
// carries out each node when it is created.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) : random_(seed), scope_(graph_), memory_(kChunks * kChunk) {
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<float>(static_cast<int>(random_() % 17) - 8);
    initial_ = memory_;
    for (int first = 0; first < kChunks; ++first) {
      for (const int length : {1, 2, 4}) {
        if (first + length > kChunks || (length == 4 && first != 0)) continue;
        const std::string name = fmt::format("v{}_{}", first, length);
        variables_.push_back({VariableHandle(scope_, name, Shape{length * kChunk}), first * kChunk, length * kChunk});
        signature_.variables.push_back({name, 0, static_cast<size_t>(first) * 64, F32({length * kChunk})});
      }
    }
  }

  void Build(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      const Variable& v = variables_[random_() % variables_.size()];
      const uint32_t kind = random_() % 10;
      if (kind < 4) {
        values_.push_back({ReadVariable(scope_, v.handle), Slice(v)});
        continue;
      }
      std::vector<Value> fitting;
      for (const Value& value : values_) {
        if (static_cast<int64_t>(value.data.size()) == v.elements) fitting.push_back(value);
      }
      if (fitting.empty()) continue;
      const Value a = fitting[random_() % fitting.size()], b = fitting[random_() % fitting.size()];
      if (kind == 4) {
        Value sum{scope_.Op("AddV2", {a.output, b.output}), a.data};
        for (size_t j = 0; j < sum.data.size(); ++j) sum.data[j] = a.data[j] + b.data[j];
        values_.push_back(sum);
      } else if (kind == 5) {
        Value negative{scope_.Op("Neg", {a.output}), a.data};
        for (float& x : negative.data) x = -x;
        values_.push_back(negative);
      } else if (kind == 6) {
        values_.push_back({scope_.Op("Identity", {a.output}), a.data});
      } else {
        static constexpr const char* kWrites[] = {"AssignVariableOp", "AssignVariableOp", "AssignAddVariableOp"};
        const char* op = kWrites[kind - 7];
        Node* node = scope_.AddNode(op, {v.handle, a.output});
        signature_.targets.push_back(node->name());
        for (size_t j = 0; j < a.data.size(); ++j) {
          float& x = memory_[static_cast<size_t>(v.offset) + j];
          x = kind == 9 ? x + a.data[j] : a.data[j];
        }
      }
    }
    for (const Value& value : values_) {
      if (random_() % 3 == 0) {
        signature_.fetches.push_back(value.output.name());
        expected_.push_back(value.data);
      }
    }
  }

  void Check() {
    ASSERT_OK(scope_.status());
    auto runner = Runner::Create(graph_, signature_, {memory_.size()});
    ASSERT_OK(runner);
    std::copy(initial_.begin(), initial_.end(), (*runner)->floats(0).begin());
    ASSERT_OK((*runner)->Run());
    for (size_t i = 0; i < expected_.size(); ++i) {
      const Tensor& fetched = (*runner)->fetched[i];
      ASSERT_THAT(Values(fetched), ::testing::ElementsAreArray(expected_[i])) << signature_.fetches[i];
    }
    ASSERT_THAT(std::vector<float>((*runner)->floats(0).begin(), (*runner)->floats(0).end()),
                ::testing::ElementsAreArray(memory_));
  }

 private:
  static constexpr int kChunks = 4;
  struct Variable {
    Output handle;
    int64_t offset, elements;
  };
  struct Value {
    Output output;
    std::vector<float> data;
  };
  std::vector<float> Slice(const Variable& v) const {
    return {memory_.begin() + v.offset, memory_.begin() + v.offset + v.elements};
  }
  std::mt19937 random_;
  Graph graph_;
  Scope scope_;
  Signature signature_;
  std::vector<float> memory_, initial_;
  std::vector<Variable> variables_;
  std::vector<Value> values_;
  std::vector<std::vector<float>> expected_;
};

TEST(Variables, RandomPrograms_DoWhatProgramOrderSays) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomProgram program(seed);
    program.Build(8 + static_cast<int>(seed % 40));
    program.Check();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace rivulet::testing
