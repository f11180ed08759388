// Tensor lists: immutable values, and memory that later runs reuse.
#include "engine/program/tensor_list.h"

#include "tests/engine/program/allocations.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::CountAllocations;
using testing::F32;
using testing::Runner;
using testing::StatusIs;

constexpr DType kInt = DType::kInt32;

const TensorList* Pushed(TensorListStore& store, const TensorList* list, int32_t value) {
  std::byte* element = nullptr;
  const StatusOr<const TensorList*> made = store.Push(list, kInt, sizeof value, &element);
  EXPECT_OK(made);
  if (!made.ok()) return list;
  std::memcpy(element, &value, sizeof value);
  return *made;
}
const TensorList* Replaced(TensorListStore& store, const TensorList* list, int64_t index, int32_t value) {
  std::byte* element = nullptr;
  const StatusOr<const TensorList*> made = store.Set(list, index, kInt, sizeof value, &element);
  EXPECT_OK(made);
  if (!made.ok()) return list;
  std::memcpy(element, &value, sizeof value);
  return *made;
}
// Elements that are not set are -1.
std::vector<int32_t> ValuesOf(const TensorList* list) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < TensorListStore::Length(list); ++i) {
    values.push_back(-1);
    if (const std::byte* element = TensorListStore::Get(list, i); element != nullptr)
      std::memcpy(&values.back(), element, sizeof(int32_t));
  }
  return values;
}
using Ints = std::vector<int32_t>;

// Two lists that begin as one empty list, as equal ops become one.
TEST(TensorListStore, ElementsOfTwoListsThatWereOneEmptyList_MayDifferInSize) {
  TensorListStore store;
  const TensorList* empty = *store.Create(kInt, 0);
  const TensorList* one = Pushed(store, empty, 1);
  std::byte* element = nullptr;
  ASSERT_OK_AND_ASSIGN(const TensorList* pair, store.Push(empty, kInt, 2 * sizeof(int32_t), &element));
  std::memset(element, 0, 2 * sizeof(int32_t));
  EXPECT_EQ(ValuesOf(one), Ints({1}));
  EXPECT_EQ(ValuesOf(pair), Ints({0}));
  EXPECT_EQ(TensorListStore::ElementBytes(pair), 2 * sizeof(int32_t));
  EXPECT_THAT(store.Push(one, kInt, 2 * sizeof(int32_t), &element), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorListStore, ChangesOfAnyVersion_LeaveAllOthersAsTheyWere) {
  TensorListStore store;
  const TensorList* empty = *store.Create(kInt, 0);
  const TensorList* one = Pushed(store, empty, 1);
  const TensorList* two = Pushed(store, one, 2);
  const TensorList* popped = *store.Resize(two, 1);
  const TensorList* other_two = Pushed(store, popped, 3);
  const TensorList* from_one = Pushed(store, one, 4);
  const TensorList* changed = Replaced(store, two, 0, 5);
  const TensorList* changed_again = Replaced(store, changed, 0, 6);
  const TensorList* longer = *store.Resize(popped, 3);
  EXPECT_EQ(ValuesOf(empty), Ints{});
  EXPECT_EQ(ValuesOf(one), Ints({1}));
  EXPECT_EQ(ValuesOf(two), Ints({1, 2}));
  EXPECT_EQ(ValuesOf(popped), Ints({1}));
  EXPECT_EQ(ValuesOf(other_two), Ints({1, 3}));
  EXPECT_EQ(ValuesOf(from_one), Ints({1, 4}));
  EXPECT_EQ(ValuesOf(changed), Ints({5, 2}));
  EXPECT_EQ(ValuesOf(changed_again), Ints({6, 2}));
  EXPECT_EQ(ValuesOf(longer), Ints({1, -1, -1}));
}

// A thousand random changes of random versions, beside vectors that are copied each time.
TEST(TensorListStore, RandomChanges_EqualThoseOfCopiedVectors) {
  TensorListStore store;
  std::vector<std::pair<const TensorList*, Ints>> all = {{*store.Create(kInt, 0), {}},
                                                         {*store.Create(kInt, 3), {-1, -1, -1}}};
  uint64_t state = 7;
  const auto below = [&](size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % n;
  };
  for (int32_t step = 0; step < 1000; ++step) {
    // Mostly the newest, as a loop does.
    auto [list, values] = all[below(3) > 0 ? all.size() - 1 : below(all.size())];
    switch (below(4)) {
      case 0:
        list = *store.Resize(list, static_cast<int64_t>(values.size() / 2 + below(3)));
        values.resize(static_cast<size_t>(TensorListStore::Length(list)), -1);
        break;
      case 1:
        if (values.empty()) continue;
        values[static_cast<size_t>(step) % values.size()] = step;
        list = Replaced(store, list, static_cast<int64_t>(static_cast<size_t>(step) % values.size()), step);
        break;
      default:
        values.push_back(step);
        list = Pushed(store, list, step);
    }
    all.emplace_back(list, values);
  }
  for (const auto& [list, values] : all) ASSERT_EQ(ValuesOf(list), values);
}

TEST(TensorListStore, MoreThanTheLimit_IsRefused) {
  TensorListStore store(1 << 20);
  EXPECT_THAT(store.Create(kInt, int64_t{1} << 30).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("1048576 bytes")));
  const TensorList* list = *store.Create(kInt, 0);
  Status status;
  std::byte* element = nullptr;
  for (int i = 0; i < 100'000 && status.ok(); ++i) {
    const auto next = store.Push(list, kInt, 64, &element);
    status = next.status();
    if (next.ok()) list = *next;
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_LE(store.bytes_held(), size_t{2} << 20);
}

TEST(TensorListStore, ElementsOfAnotherSizeOrType_AreRefused) {
  TensorListStore store;
  const TensorList* list = Pushed(store, *store.Create(kInt, 0), 1);
  std::byte* element = nullptr;
  EXPECT_THAT(store.Push(list, kInt, 8, &element).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("all have one shape")));
  EXPECT_THAT(store.Push(list, DType::kFloat32, 4, &element).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("a list of int32")));
  EXPECT_THAT(store.Create(kInt, -1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(store.Push(*store.Create(kInt, 0, 0), kInt, 4, &element), StatusIs(absl::StatusCode::kInvalidArgument));
}

// y = the rows of x, the last one put first, and the list as it was.
struct Turned {
  Graph graph;
  Signature signature;
  Turned() {
    Scope scope(graph);
    const Output x = scope.Placeholder("x", DType::kFloat32, {kUnknownDim, 2});
    const Output shape = scope.Const(Tensor::Of<int32_t>({1}, {2}));
    const Output list = scope.Op("TensorListFromTensor", {x, shape}, {}, "list");
    Node* pop = scope.AddNode("TensorListPopBack", {list, shape}, {{"element_dtype", DType::kFloat32}}, "pop");
    const Output zero = scope.Const(Tensor::Scalar<int32_t>(0));
    const Output set = scope.Op("TensorListSetItem", {list, zero, pop->output(1)}, {}, "set");
    const AttrMap floats = {{"element_dtype", DType::kFloat32}};
    scope.Op("TensorListStack", {set, shape}, floats, "turned");
    scope.Op("TensorListStack", {list, shape}, floats, "as_it_was");
    scope.Op("TensorListStack", {pop->output(0), shape}, floats, "rest");
    scope.Op("TensorListLength", {pop->output(0)}, {}, "length");
    EXPECT_OK(scope.status());
    signature.feeds = {{"x", F32({3, 2})}};
    signature.fetches = {"turned", "as_it_was", "rest", "length"};
  }
};

TEST(TensorListProgram, ListsAreValues) {
  Turned turned;
  auto runner = Runner::Create(turned.graph, turned.signature);
  ASSERT_OK(runner);
  const Tensor x = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  for (int run = 0; run < 2; ++run) {
    ASSERT_OK((*runner)->Run({x}));
    const auto floats = [&](size_t i) {
      const auto flat = (*runner)->fetched[i].flat<float>();
      return std::vector<float>(flat.begin(), flat.end());
    };
    EXPECT_EQ(floats(0), std::vector<float>({5, 6, 3, 4, 5, 6}));
    EXPECT_EQ(floats(1), std::vector<float>({1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(floats(2), std::vector<float>({1, 2, 3, 4}));
    EXPECT_EQ((*runner)->fetched[3].flat<int32_t>()[0], 2);
  }
}

TEST(TensorListProgram, LaterRuns_AllocateNothing) {
  Turned turned;
  auto runner = Runner::Create(turned.graph, turned.signature);
  ASSERT_OK(runner);
  const std::vector<Tensor> inputs = {Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})};
  ASSERT_OK((*runner)->Run(inputs));
  const Bindings bindings = (*runner)->bindings(inputs);
  Status status;
  EXPECT_EQ(CountAllocations([&] { status = (*runner)->instance->Run(bindings); }), 0);
  EXPECT_OK(status);
}

Status RunOnList(std::string_view op, std::vector<Tensor> more, AttrMap attrs, std::string_view fetch = "op") {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Const(Tensor::Of<float>({2, 2}, {1, 2, 3, 4}));
  std::vector<Output> inputs = {scope.Op("TensorListFromTensor", {x, scope.Const(Tensor::Of<int32_t>({1}, {2}))})};
  Signature signature;
  std::vector<Tensor> feeds;
  for (const Tensor& tensor : more) {
    signature.feeds.push_back({fmt::format("feed{}", inputs.size()), {tensor.dtype(), tensor.shape()}});
    inputs.push_back(scope.Placeholder(signature.feeds.back().tensor, tensor.dtype(), tensor.shape()));
    feeds.push_back(tensor);
  }
  scope.AddNode(op, inputs, std::move(attrs), "op");
  RIVULET_RETURN_IF_ERROR(scope.status());
  signature.fetches = {std::string(fetch)};
  RIVULET_ASSIGN_OR_RETURN(auto runner, Runner::Create(graph, signature));
  return runner->Run(feeds);
}

TEST(TensorListProgram, WhatAListCannotGive_IsRefused) {
  const AttrMap floats = {{"element_dtype", DType::kFloat32}};
  const Tensor any = Tensor::Scalar<int32_t>(-1);
  EXPECT_OK(RunOnList("TensorListGetItem", {Tensor::Scalar<int32_t>(1), any}, floats));
  for (const int32_t index : {-1, 2})
    EXPECT_THAT(RunOnList("TensorListGetItem", {Tensor::Scalar(index), any}, floats),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("but the list has 2")));
  EXPECT_THAT(RunOnList("TensorListGetItem", {Tensor::Scalar<int32_t>(0), any}, {{"element_dtype", DType::kFloat64}}),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("float64 in 16 bytes was asked for")));
  EXPECT_THAT(RunOnList("TensorListGather", {Tensor::Of<int32_t>({2}, {0, 7}), any}, floats),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("element 7")));
  EXPECT_THAT(RunOnList("TensorListPushBack", {Tensor::Of<float>({3}, {1, 2, 3})}, floats),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(RunOnList("TensorListStack", {any}, {{"element_dtype", DType::kFloat32}, {"num_elements", int64_t{3}}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet
