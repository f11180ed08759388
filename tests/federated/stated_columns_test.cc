// Columns of a task's result in files that outlive a process: each is there again, also a column that comes later.
#include "federated/tasks/stated_columns.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// Every column that client or site state, each with a value of its own.
TaskResult AllStated() {
  TaskResult result;
  int next = 1;
  ForEachTaskColumn([&](const auto& column) {
    auto& member = result.*(column.member);
    using Value = std::remove_cvref_t<decltype(ValueIn(member))>;
    if constexpr (std::is_arithmetic_v<Value>) {
      if (column.by != StatedBy::kCoordinator) ValueIn(member) = static_cast<Value>(next++);
    }
  });
  return result;
}

TEST(StatedColumnsTest, EveryColumnOfClientAndSite_IsThereAgain) {
  const TaskResult all = AllStated();
  EXPECT_TRUE(all.train_seconds && all.examples && all.tf32);
  const std::string bytes = PackStated(all) + "an update";
  std::string_view rest = bytes;
  TaskResult read;
  ASSERT_TRUE(TakeStated(rest, read));
  EXPECT_EQ(read, all);
  EXPECT_EQ(rest, "an update");
}

TEST(StatedColumnsTest, ColumnsThatAreUnknownOrTheCoordinators_AreLeftOut) {
  const std::string none = PackStated({});
  EXPECT_EQ(none, std::string(4, '\0'));
  EXPECT_EQ(PackStated({.weight = 5, .bytes_up = 7, .wait_seconds = 1.5}), none);
}

TEST(StatedColumnsTest, ColumnOfALaterProgram_IsSkipped) {
  const std::string later = std::string("\4", 1) + "heat" + std::string(8, 'x');
  const std::string lanes = std::string("\5", 1) + "lanes" + std::string("\3\0\0\0\0\0\0\0", 8);
  const std::string weight = std::string("\6", 1) + "weight" + std::string(8, 'x');  // the coordinator's alone
  const std::string columns = later + lanes + weight;
  const std::string bytes = std::string(1, static_cast<char>(columns.size())) + std::string(3, '\0') + columns;
  std::string_view rest = bytes;
  TaskResult read;
  ASSERT_TRUE(TakeStated(rest, read));
  EXPECT_EQ(read, TaskResult{.lanes = 3});
  EXPECT_TRUE(rest.empty());
}

TEST(StatedColumnsTest, EveryTruncation_IsNoticed) {
  const std::string bytes = PackStated(AllStated());
  for (size_t length = 0; length < bytes.size(); ++length) {
    std::string_view rest = std::string_view(bytes).substr(0, length);
    TaskResult read;
    EXPECT_FALSE(TakeStated(rest, read)) << length;
  }
  // A length that ends within a column.
  std::string cut = bytes.substr(4, 5);
  cut = std::string("\5\0\0\0", 4) + cut;
  std::string_view rest = cut;
  TaskResult read;
  EXPECT_FALSE(TakeStated(rest, read));
}

}  // namespace
}  // namespace rivulet
