#include "coordinator/history/pointers.h"

#include <thread>

#include "coordinator/history/history.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

PointerRow Row(const std::string& label, int64_t round, char digit = 'a', const std::string& name = "mnist") {
  return {.name = name,
          .label = label,
          .run_id = "run-1",
          .round = round,
          .digest = std::string(64, digit),
          .plan_digest = std::string(64, 'f'),
          .at = 1'738'333'530'123,
          .author = "ada"};
}

class PointersTest : public ::testing::Test {
 protected:
  PointersTest() { EXPECT_OK(History::Open(path_, History::Access::kReadWrite).status()); }
  std::unique_ptr<Pointers> Open(Database::Access access = Database::Access::kReadWrite) {
    auto pointers = Pointers::Open(path_, access);
    EXPECT_OK(pointers);
    return *std::move(pointers);
  }
  testing::TempFolder folder_;
  const std::string path_ = folder_.path() + "/runs.sqlite";
};

TEST_F(PointersTest, Add_ReadAgain_IsTheSame) {
  PointerRow row = Row("canary", 20);
  row.share = 5;
  row.note = "a trial";
  row.rolled_back = true;
  const auto version = Open()->Add(row);
  EXPECT_OK(version);
  EXPECT_EQ(*version, 1);
  const auto rows = Open(Database::Access::kReadOnly)->Rows();
  ASSERT_TRUE(rows.ok() && rows->size() == 1);
  const PointerRow& found = rows->front();
  EXPECT_EQ(found.name, "mnist");
  EXPECT_EQ(found.label, "canary");
  EXPECT_EQ(found.run_id, "run-1");
  EXPECT_EQ(found.round, 20);
  EXPECT_EQ(found.digest, row.digest);
  EXPECT_EQ(found.plan_digest, row.plan_digest);
  EXPECT_EQ(found.version, 1);
  EXPECT_EQ(found.share, 5);
  EXPECT_EQ(found.at, row.at);
  EXPECT_EQ(found.author, "ada");
  EXPECT_EQ(found.note, "a trial");
  EXPECT_TRUE(found.rolled_back);
}

// Of a name, run, round and digest a version keeps its number; another digest of the same round is another version.
TEST_F(PointersTest, Version_CountsOfANameByTarget) {
  const auto pointers = Open();
  EXPECT_EQ(pointers->Add(Row("stable", 50)).value_or(0), 1);
  EXPECT_EQ(pointers->Add(Row("stable", 60)).value_or(0), 2);
  EXPECT_EQ(pointers->Add(Row("canary", 50)).value_or(0), 1);
  EXPECT_EQ(pointers->Add(Row("stable", 50, 'b')).value_or(0), 3);
  EXPECT_EQ(pointers->Add(Row("stable", 50, 'a', "other")).value_or(0), 1);
}

TEST_F(PointersTest, DataVersion_ChangesWithAnothersRowAlone) {
  const auto reader = Open(Database::Access::kReadOnly);
  const auto before = reader->DataVersion();
  EXPECT_OK(before);
  EXPECT_EQ(reader->DataVersion().value_or(-1), *before);
  EXPECT_OK(Open()->Add(Row("stable", 1)).status());
  EXPECT_NE(reader->DataVersion().value_or(*before), *before);
}

TEST_F(PointersTest, Add_OfTwoAtOnce_GivesTwoNumbers) {
  const auto add = [&](int64_t first) {
    const auto pointers = Open();
    for (int64_t round = first; round < first + 20; ++round) EXPECT_OK(pointers->Add(Row("stable", round)).status());
  };
  std::thread other([&] { add(100); });
  add(200);
  other.join();
  const auto rows = Open()->Rows();
  ASSERT_TRUE(rows.ok());
  std::set<int64_t> versions;
  for (const PointerRow& row : *rows) versions.insert(row.version);
  EXPECT_EQ(versions.size(), 40u);
  EXPECT_EQ(*versions.rbegin(), 40);
}

TEST_F(PointersTest, Add_NoDigest_IsRefusedAndNothingWritten) {
  PointerRow row = Row("stable", 1);
  row.digest = "12";
  EXPECT_THAT(Open()->Add(row).status(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Open()->Rows()->size(), 0u);
}

TEST_F(PointersTest, Open_NoSuchFile_IsNotFoundAndMakesNone) {
  const std::string path = folder_.path() + "/none.sqlite";
  EXPECT_THAT(Pointers::Open(path, Database::Access::kReadWrite).status(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(FileSystem::Default().Exists(path));
}

TEST_F(PointersTest, View_HasWordsAndTimes) {
  EXPECT_OK(Open()->Add(Row("stable", 7)).status());
  const auto history = History::Open(path_, History::Access::kReadOnly);
  ASSERT_TRUE(history.ok());
  const auto answer = (*history)->Ask("SELECT name, label, round, version, share, at, author FROM pointers");
  EXPECT_OK(answer);
  ASSERT_EQ(answer->rows.size(), 1u);
  EXPECT_EQ(std::get<std::string>(answer->rows[0][5]), "2025-01-31T14:25:30.123Z");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answer->rows[0][4]));
}

}  // namespace
}  // namespace rivulet
