// Tables of a session: labels to numbers and back.
#include "dataflow/session/session.h"
#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
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

class Lookup : public ::testing::Test {
 protected:
  Output Handle(const char* op, const std::string& name, DType key, DType value) {
    return scope_.Op(op, {}, {{"key_dtype", key}, {"value_dtype", value}}, name);
  }
  // From the labels "cat", "dog" to 10 and 20, filled by "init".
  Output Labels() {
    const Output table = Handle("HashTableV2", "labels", DType::kString, DType::kInt64);
    scope_.AddNode("InitializeTableV2",
                   {table, scope_.Const(Texts({2}, {"cat", "dog"})), scope_.Const(Tensor::Of<int64_t>({2}, {10, 20}))},
                   {}, "init");
    return table;
  }
  StatusOr<std::vector<Tensor>> Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                                    const std::vector<std::string>& targets = {}) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    if (session_ == nullptr) {
      RIVULET_ASSIGN_OR_RETURN(session_, Session::Create(std::move(graph_)));
    }
    return session_->Run(feeds, fetches, targets);
  }

  Graph graph_;
  Scope scope_{graph_};
  std::unique_ptr<Session> session_;
};

TEST_F(Lookup, Labels_BecomeNumbersAndOthersTheDefault) {
  const Output table = Labels(), x = scope_.Placeholder("x", DType::kString, {-1});
  scope_.Op("LookupTableFindV2", {table, x, scope_.Const(Tensor::Scalar<int64_t>(-1))}, {}, "found");
  scope_.Op("LookupTableSizeV2", {table}, {}, "size");
  const Tensor words = Texts({4}, {"dog", "bird", "cat", "dog"});
  EXPECT_THAT(Run({{"x", words}}, {"found"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("run the target that initialises it")));
  ASSERT_OK(Run({}, {}, {"init"}).status());
  ASSERT_OK(Run({}, {}, {"init"}).status());  // the same entries again
  ASSERT_OK_AND_ASSIGN(const auto values, Run({{"x", words}}, {"found", "size"}));
  EXPECT_THAT(Values<int64_t>(values[0]), ElementsAre(20, -1, 10, 20));
  EXPECT_THAT(Values<int64_t>(values[1]), ElementsAre(2));
}

TEST_F(Lookup, NumbersOfAModel_BecomeLabels) {
  const Output table = Handle("HashTableV2", "names", DType::kInt64, DType::kString);
  scope_.AddNode("LookupTableImportV2",
                 {table, scope_.Const(Tensor::Of<int64_t>({2}, {0, 1})), scope_.Const(Texts({2}, {"cat", "dog"}))}, {},
                 "init");
  const Output scores = scope_.Placeholder("scores", DType::kFloat32, {-1, 2});
  const Output best = scope_.Op("ArgMax", {scores, scope_.Const(Tensor::Scalar<int32_t>(1))});
  const Output label = scope_.Op("LookupTableFindV2", {table, best, scope_.Const(Texts({}, {"?"}))}, {}, "label");
  scope_.Op("StringJoin", {scope_.Const(Texts({}, {"it is a"})), label},
            {{"separator", std::string(" ")}, {"N", int64_t{2}}}, "said");
  ASSERT_OK(Run({}, {}, {"init"}).status());
  ASSERT_OK_AND_ASSIGN(const auto values,
                       Run({{"scores", Tensor::Of<float>({2, 2}, {1, 3, 2, -1})}}, {"label", "said"}));
  EXPECT_THAT(TextsOf(values[0]), ElementsAre("dog", "cat"));
  EXPECT_THAT(TextsOf(values[1]), ElementsAre("it is a dog", "it is a cat"));
}

TEST_F(Lookup, TableThatIsFilledOnce_RefusesOtherEntries) {
  const Output table = Labels();
  const Output twice = scope_.Const(Texts({2}, {"cat", "cat"})),
               values = scope_.Const(Tensor::Of<int64_t>({2}, {1, 2}));
  scope_.AddNode("InitializeTableV2", {table, scope_.Const(Texts({2}, {"a", "b"})), values}, {}, "other");
  scope_.AddNode("InitializeTableV2", {table, twice, values}, {}, "contradiction");
  scope_.AddNode("LookupTableInsertV2", {table, twice, values}, {}, "insert");
  ASSERT_OK(Run({}, {}, {"init"}).status());
  EXPECT_THAT(Run({}, {}, {"other"}), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("with other entries")));
  EXPECT_THAT(Run({}, {}, {"contradiction"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("key 'cat' has two values")));
  EXPECT_THAT(Run({}, {}, {"insert"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("MutableHashTableV2 takes insertions")));
}

TEST_F(Lookup, MutableTable_TakesInsertionsAndGivesItsEntries) {
  const Output table = Handle("MutableHashTableV2", "counts", DType::kInt32, DType::kFloat32);
  const Output keys = scope_.Placeholder("k", DType::kInt32, {-1}),
               values = scope_.Placeholder("v", DType::kFloat32, {-1});
  scope_.AddNode("LookupTableInsertV2", {table, keys, values}, {}, "insert");
  scope_.AddNode("LookupTableExportV2", {table}, {{"Tkeys", DType::kInt32}, {"Tvalues", DType::kFloat32}}, "all");
  const auto insert = [&](std::vector<int32_t> k, std::vector<float> v) {
    const Shape shape({static_cast<int64_t>(k.size())});
    return Run({{"k", Tensor::Of<int32_t>(shape, std::span<const int32_t>(k))},
                {"v", Tensor::Of<float>(shape, std::span<const float>(v))}},
               {}, {"insert"})
        .status();
  };
  ASSERT_OK(insert({-7, 3}, {1, 2}));
  ASSERT_OK(insert({3, 9}, {5, 6}));
  ASSERT_OK_AND_ASSIGN(const auto all, Run({}, {"all", "all:1"}));
  EXPECT_THAT(Values<int32_t>(all[0]), ElementsAre(-7, 3, 9));
  EXPECT_THAT(Values<float>(all[1]), ElementsAre(1, 5, 6));
}

TEST_F(Lookup, TrainingPrograms_RefuseTablesByName) {
  const Output table = Labels(), x = scope_.Placeholder("x", DType::kString, {2});
  scope_.Op("LookupTableFindV2", {table, x, scope_.Const(Tensor::Scalar<int64_t>(-1))}, {}, "found");
  ASSERT_OK(scope_.status());
  Signature signature;
  signature.feeds.push_back({"x", {DType::kString, Shape{2}}});
  signature.fetches = {"found"};
  EXPECT_THAT(CompileProgram(graph_, signature, {}).status().ToString(), HasSubstr("HashTableV2 'labels'"));
}

}  // namespace
}  // namespace rivulet
