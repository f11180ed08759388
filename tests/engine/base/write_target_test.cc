#include "engine/base/write_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/base/file_system.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class WriteTargetTest : public ::testing::Test {
 protected:
  WriteTargetTest() {
    std::string pattern = ::testing::TempDir() + "/write_target_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~WriteTargetTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  FileSystem& fs_ = FileSystem::Default();
  std::string folder_;
};

TEST_F(WriteTargetTest, Link_StaysAndWhatItPointsToIsWritten) {
  std::filesystem::create_directory(Path("real"));
  std::ofstream(Path("real/file")) << "old";
  ASSERT_EQ(symlink("real/file", Path("link").c_str()), 0);
  ASSERT_OK(WriteFileAtomically(fs_, Path("link"), "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(*fs_.ReadAll(Path("real/file")), "new");
  EXPECT_THAT(*fs_.List(Path("real")), ElementsAre("file"));
}

TEST_F(WriteTargetTest, LinkToNothingYet_MakesWhatItPointsTo) {
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  ASSERT_OK(WriteFileAtomically(fs_, Path("link"), "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(*fs_.ReadAll(Path("file")), "new");
}

TEST_F(WriteTargetTest, LinkToADevice_IsWrittenIntoAndStays) {
  ASSERT_EQ(symlink("/dev/null", Path("link").c_str()), 0);
  ASSERT_OK_AND_ASSIGN(const WriteTarget target, WriteTargetOf(Path("link")));
  EXPECT_EQ(target.path, "/dev/null");
  ASSERT_TRUE(target.in_place);
  ASSERT_OK(WriteFileAtomically(fs_, Path("link"), "gone"));
  EXPECT_THAT(*fs_.List(folder_), ElementsAre("link"));
}

TEST_F(WriteTargetTest, Pipe_IsWrittenIntoAndStays) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { std::getline(std::ifstream(Path("pipe")), got); });
  EXPECT_OK(WriteFileAtomically(fs_, Path("pipe"), "through"));
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(Path("pipe")));
  EXPECT_THAT(*fs_.List(folder_), ElementsAre("pipe"));
}

TEST_F(WriteTargetTest, FolderAndCircle_AreRefused) {
  EXPECT_THAT(WriteTargetOf(folder_).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a folder")));
  ASSERT_EQ(symlink("b", Path("a").c_str()), 0);
  ASSERT_EQ(symlink("a", Path("b").c_str()), 0);
  EXPECT_THAT(WriteTargetOf(Path("a")).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("circle")));
}

}  // namespace
}  // namespace rivulet
