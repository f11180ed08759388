// Files whose size, contents or kind differ from their appearance.
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "engine/io/atomic_file.h"
#include "engine/io/mapped_file.h"
#include "engine/io/new_folder.h"
#include "engine/io/safetensors.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HostileFilesTest : public ::testing::Test {
 protected:
  HostileFilesTest() {
    std::string pattern = ::testing::TempDir() + "/hostile_files_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~HostileFilesTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  FileSystem& fs_ = FileSystem::Default();
  std::string folder_;
};

TEST_F(HostileFilesTest, MoreMappedFilesThanDescriptors_AreAllOpen) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<std::unique_ptr<MappedFile>> files;
  for (int i = 0; i < 200; ++i) {
    std::ofstream(Path(std::to_string(i))) << "content " << i;
    auto file = MappedFile::Open(Path(std::to_string(i)));
    EXPECT_OK(file.status());
    if (!file.ok()) break;
    files.push_back(*std::move(file));
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(files.size(), 200u);
  std::string text(9, ' ');
  ASSERT_TRUE(files[7]->Copy(0, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "content 7");
}

TEST_F(HostileFilesTest, MappedFileWhoseNameAnotherTakes_IsUnchanged) {
  std::ofstream(Path("a")) << "0123456789";
  ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::Open(Path("a")));
  std::ofstream(Path("b")) << "012";
  std::filesystem::rename(Path("b"), Path("a"));
  EXPECT_EQ(file->CurrentSize(), 10u);
}

// 22 seconds before: the header's object and Find looked at every name for every name.
TEST_F(HostileFilesTest, HundredThousandTensors_AreReadAndFoundInSeconds) {
  constexpr size_t kTensors = 100'000;
  const float value = 1;
  std::vector<SafetensorsEntry> entries;
  for (size_t i = 0; i < kTensors; ++i)
    entries.push_back(
        {fmt::format("layer{}/kernel", i), DType::kFloat32, Shape{1}, std::as_bytes(std::span(&value, 1))});
  const std::clock_t begin = std::clock();  // the processor's time: a busy machine takes none of it
  ASSERT_OK_AND_ASSIGN(const std::string bytes, SerializeSafetensors(entries, {{"format", "test"}}));
  ASSERT_OK_AND_ASSIGN(const SafetensorsContent content, ParseSafetensors(bytes));
  ASSERT_EQ(content.tensors.size(), kTensors);
  for (size_t i = 0; i < kTensors; ++i) {
    EXPECT_EQ(content.tensors[i].name, entries[i].name);
    ASSERT_EQ(content.Find(entries[i].name), &content.tensors[i]);
  }
  EXPECT_EQ(content.Find("layer"), nullptr);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 12);  // 0.5 s; 5 under the thread sanitizer
}

TEST_F(HostileFilesTest, FolderWhoseSecondFileCannotBeWritten_StaysAsItWas) {
  std::filesystem::create_directories(Path("there/second"));  // a folder where a file should be
  const NamedBytes files[] = {{"first", "1"}, {"second", "2"}};
  EXPECT_FALSE(WriteFolderAtomically(fs_, Path("there"), files).ok());
  EXPECT_THAT(*fs_.List(Path("there")), ElementsAre("second"));
  ASSERT_OK(WriteFolderAtomically(fs_, Path("new/folder"), files));
  EXPECT_THAT(*fs_.List(Path("new/folder")), ElementsAre("first", "second"));
}

TEST_F(HostileFilesTest, NewFolder_GoesUnlessItIsKeptOrUsed) {
  { ASSERT_OK(NewFolder::Create(fs_, Path("a/b/c")).status()); }
  EXPECT_FALSE(fs_.Exists(Path("a")));
  {
    ASSERT_OK_AND_ASSIGN(const auto folder, NewFolder::Create(fs_, Path("a/b/c")));
    std::ofstream(Path("a/other")) << "somebody's";
  }
  EXPECT_THAT(*fs_.List(Path("a")), ElementsAre("other"));
  {
    ASSERT_OK_AND_ASSIGN(const auto folder, NewFolder::Create(fs_, Path("d")));
    std::filesystem::remove(Path("d"));
    std::ofstream(Path("d")) << "a file of somebody who was quicker";
  }
  EXPECT_TRUE(fs_.Exists(Path("d")));
  ASSERT_OK_AND_ASSIGN(auto folder, NewFolder::Create(fs_, Path("kept/")));
  folder->Keep();
  folder.reset();
  EXPECT_TRUE(fs_.Exists(Path("kept")));
}

TEST_F(HostileFilesTest, NewFolder_ALinkThatLeadsNowhere_IsRefusedAndStays) {
  std::filesystem::create_symlink("nowhere/else", Path("link"));
  EXPECT_THAT(ErrorOf(NewFolder::Create(fs_, Path("link"))), HasSubstr("a link of that name leads nowhere"));
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
}

TEST_F(HostileFilesTest, AFileLargerThanMemory_IsToldByName) {
  std::ofstream(Path("hole")).close();
  std::filesystem::resize_file(Path("hole"), uintmax_t{1} << 42);  // takes no room
  EXPECT_THAT(ErrorOf(fs_.ReadAll(Path("hole"))),
              AllOf(HasSubstr("hole' has 4398046511104 bytes"), HasSubstr("memory")));
}

}  // namespace
}  // namespace rivulet
