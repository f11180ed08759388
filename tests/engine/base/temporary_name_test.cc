#include "engine/base/temporary_name.h"

#include <filesystem>
#include <set>

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;

TEST(TemporaryName, IsAnotherEachTimeAndSaysWhatItBecomes) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(TemporaryNameOf("folder/index.txt"));
  EXPECT_EQ(names.size(), 100u);
  for (const std::string& name : names) EXPECT_EQ(TargetOfTemporary(name), "folder/index.txt");
}

TEST(TemporaryName, AnythingElse_IsNone) {
  for (const char* name :
       {"index.txt", "index.txt.tmp-", "index.txt.tmp-0", "index.txt.tmp-77-0", ".tmp-0123456789abcdef",
        "index.txt.tmp-0123456789ABCDEF", "index.txt.tmp-0123456789abcdef0", "index.txt.tmp-0123456789abcdeg",
        "index.txt.tmp-0123456789abcdef.bak", "index.txt-tmp-0123456789abcdef", "notes.tmp-mine-0123456789abcdef"}) {
    EXPECT_EQ(TargetOfTemporary(name), std::nullopt) << name;
    EXPECT_EQ(WithoutTemporary(name), name);
  }
}

class Temporaries : public testing::FolderTest {};

TEST_F(Temporaries, OnlyPlainFilesOfOurTargets_AreRemoved) {
  const std::string ours = TemporaryNameOf("index.txt"), folder = TemporaryNameOf("index.txt"),
                    link = TemporaryNameOf("index.txt"), other = TemporaryNameOf("letter.txt");
  Write(ours, "half");
  Write(other, "somebody's");
  Write("index.txt.tmp-mine", "somebody's");
  std::filesystem::create_directory(Path(folder));
  std::filesystem::create_symlink(Path(other), Path(link));
  RemoveTemporaries(FileSystem::Default(), folder_.path(), [](std::string_view name) { return name == "index.txt"; });
  EXPECT_FALSE(std::filesystem::exists(Path(ours)));
  for (const std::string& name : {folder, link, other, std::string("index.txt.tmp-mine")})
    EXPECT_TRUE(std::filesystem::exists(Path(name))) << name;
  RemoveTemporaries(FileSystem::Default(), Path("none"), [](std::string_view) { return true; });
}

// A name that could be foreseen could be taken: by a link to another file, or a folder that blocks all writing.
TEST_F(Temporaries, WriterOfAFile_TouchesNothingBesideIt) {
  std::filesystem::create_directory(Path("a.tmp-1"));
  Write("a.tmp-2", "somebody's");
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("a"), "bytes"));
  EXPECT_THAT(FileSystem::Default().List(folder_.path()).value(), ElementsAre("a", "a.tmp-1", "a.tmp-2"));
  EXPECT_EQ(testing::ContentOf(Path("a.tmp-2")), "somebody's");
}

}  // namespace
}  // namespace rivulet
