#include "engine/io/sealed_file.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class SealedFileTest : public testing::FolderTest {
 protected:
  FileSystem& fs_ = FileSystem::Default();
};

TEST_F(SealedFileTest, WhatIsWritten_IsReadJoined) {
  ASSERT_OK(WriteSealedFile(fs_, Path("a"), {"head ", "", "body"}));
  EXPECT_EQ(*ReadSealedFile(fs_, Path("a")), "head body");
  ASSERT_OK(WriteSealedFile(fs_, Path("a"), {}));
  EXPECT_EQ(*ReadSealedFile(fs_, Path("a")), "");
}

// Long pieces are written and summed by parts.
TEST_F(SealedFileTest, LongPieces_AreReadJoined) {
  std::string body(1'300'001, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>((i * 2654435761u) >> 13);
  ASSERT_OK(WriteSealedFile(fs_, Path("a"), {"head ", body, "tail"}));
  EXPECT_TRUE(*ReadSealedFile(fs_, Path("a")) == "head " + body + "tail");
}

TEST_F(SealedFileTest, FileAndItsFolder_AreTheOwnersAlone) {
  ASSERT_OK(WriteSealedFile(fs_, Path("new/deep/a"), {"body"}));
  const auto mode = [this](const char* name) { return std::filesystem::status(Path(name)).permissions(); };
  EXPECT_EQ(mode("new/deep"), std::filesystem::perms::owner_all);
  EXPECT_EQ(mode("new/deep/a"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

// Looks at each file in the instant in which it can be written.
class WatchingFileSystem : public testing::ForwardingFileSystem {
 public:
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    auto file = base_.Create(path);
    modes.push_back(std::filesystem::status(path).permissions());
    if (fails) return Unavailable("it cannot be made");
    return file;
  }
  std::vector<std::filesystem::perms> modes;
  bool fails = false;
};

TEST_F(SealedFileTest, File_IsTheOwnersAloneFromItsFirstInstant) {
  WatchingFileSystem watching;
  ASSERT_OK(WriteSealedFile(watching, Path("a"), {"body"}));
  ASSERT_OK(WriteSealedFile(watching, Path("a"), {"anew"}));
  using std::filesystem::perms;
  EXPECT_THAT(watching.modes, ::testing::Each(perms::owner_read | perms::owner_write));
  EXPECT_EQ(watching.modes.size(), 2u);
  EXPECT_EQ(*ReadSealedFile(fs_, Path("a")), "anew");
}

TEST_F(SealedFileTest, FileThatCannotBeMade_LeavesNothing) {
  WatchingFileSystem watching;
  watching.fails = true;
  EXPECT_FALSE(WriteSealedFile(watching, Path("a"), {"body"}).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SealedFileTest, AnyBitOrLengthThatDiffers_IsDamage) {
  ASSERT_OK(WriteSealedFile(fs_, Path("a"), {"body"}));
  const std::string whole = testing::ContentOf(Path("a"));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    Write("a", damaged);
    EXPECT_THAT(ReadSealedFile(fs_, Path("a")), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a' is damaged")));
    Write("a", whole.substr(0, i));
    EXPECT_FALSE(ReadSealedFile(fs_, Path("a")).ok()) << i;
  }
  EXPECT_THAT(ReadSealedFile(fs_, Path("b")), StatusIs(absl::StatusCode::kNotFound, HasSubstr("b")));
}

// A disk that has room for nothing more.
class FullFileSystem : public testing::ForwardingFileSystem {
 public:
  Status Rename(const std::string&, const std::string&) override {
    return absl::ResourceExhaustedError("no space left on the device");
  }
};

TEST_F(SealedFileTest, DiskThatIsFull_LeavesTheOldFileAndNoOther) {
  ASSERT_OK(WriteSealedFile(fs_, Path("a"), {"old"}));
  FullFileSystem full;
  EXPECT_THAT(WriteSealedFile(full, Path("a"), {"new"}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no space left")));
  EXPECT_EQ(*ReadSealedFile(fs_, Path("a")), "old");
  EXPECT_THAT(*fs_.List(folder_.path()), ElementsAre("a"));
}

}  // namespace
}  // namespace rivulet
