#include "tests/fuzz/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::fuzz {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(CorpusTest, PackedFolder_IsReadAsItsSmallestInputsInOrderOfTheirSizes) {
  const testing::TempFolder folder;
  std::filesystem::create_directory(folder.File("inputs"));
  for (const auto& [name, bytes] : {std::pair{"a", "long one"}, {"b", "xy"}, {"c", ""}, {"d", "ab"}}) {
    folder.Write(std::string("inputs/") + name, bytes);
  }
  ASSERT_OK_AND_ASSIGN(const size_t count, PackCorpus(folder.File("inputs"), 11, folder.File("packed")));
  EXPECT_EQ(count, 3u);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> read, ReadCorpus(folder.File("packed")));
  EXPECT_THAT(read, ElementsAre("", "xy", "ab"));
  ASSERT_OK_AND_ASSIGN(const size_t all, PackCorpus(folder.File("inputs"), 12, folder.File("packed")));
  EXPECT_EQ(all, 4u);
}

TEST(CorpusTest, EmptyFolder_IsNoCorpus) {
  const testing::TempFolder folder;
  std::filesystem::create_directory(folder.File("inputs"));
  EXPECT_THAT(PackCorpus(folder.File("inputs"), 11, folder.File("packed")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no input")));
  EXPECT_FALSE(std::filesystem::exists(folder.File("packed")));
}

}  // namespace
}  // namespace rivulet::fuzz
