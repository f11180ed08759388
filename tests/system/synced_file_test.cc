#include "tests/system/synced_file.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/testing/temp_folder.h"

namespace rivulet::testing {
namespace {

class SyncedFileTest : public FolderTest {
 protected:
  // As a database does: in place.
  static void WriteAt(SyncedFile& file, const std::string& path, int64_t from, const std::string& bytes) {
    file.BeforeChange(from, from + std::ssize(bytes));
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(from);
    out << bytes;
  }
  const std::string synced_ = std::string(5000, 'a') + std::string(5000, 'b') + "end";
  const std::string path_ = Write("file", synced_);
};

TEST_F(SyncedFileTest, WrittenInPlaceAndBehindItsEnd_IsAsAtItsLastSync) {
  SyncedFile file(path_);
  WriteAt(file, path_, 4090, "over two pages");
  WriteAt(file, path_, 4090, "once more");
  WriteAt(file, path_, 9999, std::string(20'000, 'x'));
  file.Restore();
  EXPECT_EQ(ContentOf(path_), synced_);
}

TEST_F(SyncedFileTest, CutOffAndWrittenAgain_IsAsAtItsLastSync) {
  SyncedFile file(path_);
  file.BeforeChange(100, std::numeric_limits<int64_t>::max());
  std::filesystem::resize_file(path_, 100);
  WriteAt(file, path_, 50, std::string(200, 'x'));
  file.Restore();
  EXPECT_EQ(ContentOf(path_), synced_);
}

TEST_F(SyncedFileTest, Unchanged_StaysAsItIs) {
  SyncedFile(path_).Restore();
  EXPECT_EQ(ContentOf(path_), synced_);
}

}  // namespace
}  // namespace rivulet::testing
