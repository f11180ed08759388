#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/base/file_system.h"
#include "engine/base/nearest.h"
#include "engine/base/philox.h"
#include "engine/base/sha256.h"
#include "engine/tensor/tensor.h"
#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// FIPS 180-4 examples.
TEST(Sha256Test, PublishedVectors_Agree) {
  EXPECT_EQ(Sha256Of("abc").Hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, UpdateInPieces_EqualsWhole) {
  Sha256 hash;
  hash.Update("a").UpdateU8('b').Update("c");
  EXPECT_EQ(std::move(hash).Finish(), Sha256Of("abc"));
  EXPECT_EQ(std::move(Sha256().UpdateU32(0x04030201)).Finish(), Sha256Of("\x01\x02\x03\x04"));
}

TEST(DigestTest, FromHex_WrongLengthOrDigit_IsRefused) {
  EXPECT_THAT(Digest::FromHex("ab"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Digest::FromHex(std::string(64, 'g')), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(*Digest::FromHex(Sha256Of("abc").Hex()), Sha256Of("abc"));
}

// Known-answer vectors of Random123 (kat_vectors, philox4x32 10).
TEST(PhiloxTest, PublishedVectors_Agree) {
  EXPECT_EQ(Philox4x32({{0, 0}}, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({{0xffffffff, 0xffffffff}}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({{0xa4093822, 0x299f31d0}}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(NearestTest, TypingError_IsSuggested_AndNonsenseIsNot) {
  const std::vector<std::string> known = {"learning_rate", "momentum", "kind"};
  EXPECT_EQ(DidYouMean("lerning_rate", known), " Did you mean 'learning_rate'?");
  EXPECT_EQ(DidYouMean("completely_else", known), "");
}

TEST(ShapeTest, Broadcast_NumPyRules) {
  EXPECT_EQ(*Shape::Broadcast({kUnknownDim, 1, 3}, {4, 1}), (Shape{kUnknownDim, 4, 3}));
  EXPECT_EQ(Shape::Broadcast({2, 3}, {4, 3}).status().message(),
            "the shapes [2,3] and [4,3] cannot be broadcast together: dimension 0 is 2 and 4");
}

TEST(ShapeTest, CheckedElements_OverflowIsRefused) {
  EXPECT_THAT(Shape({int64_t{1} << 40, int64_t{1} << 40}).CheckedElements(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Shape({kUnknownDim}).CheckedElements(), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(*Shape({int64_t{1} << 62, 0}).CheckedElements(), 0);
}

TEST(FileSystemTest, WriteFileAtomically_ReplacesAndLeavesNoTemporary) {
  FileSystem& fs = FileSystem::Default();
  const testing::TempFolder temp;
  const std::string& folder = temp.path();
  ASSERT_OK(WriteFileAtomically(fs, folder + "/a", "one"));
  ASSERT_OK(WriteFileAtomically(fs, folder + "/a", "two"));
  EXPECT_EQ(*fs.ReadAll(folder + "/a"), "two");
  EXPECT_THAT(*fs.List(folder), ::testing::ElementsAre("a"));
}

TEST(FileSystemTest, Create_OfALongerFile_LeavesNothingOfItAndKeepsItsMode) {
  FileSystem& fs = FileSystem::Default();
  const testing::TempFolder temp;
  const std::string path = temp.Write("a", "what was there before");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_OK_AND_ASSIGN(const auto file, fs.Create(path));
  EXPECT_EQ(*fs.ReadAll(path), "");
  ASSERT_OK(file->Append(std::as_bytes(std::span("new", 3))));
  ASSERT_OK(file->Close());
  EXPECT_EQ(*fs.ReadAll(path), "new");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_THAT(fs.Create(temp.path()), StatusIs(absl::StatusCode::kInternal, HasSubstr(temp.path())));
  ASSERT_OK_AND_ASSIGN(const auto device, fs.Create("/dev/null"));
  EXPECT_OK(device->Append(std::as_bytes(std::span("gone", 4))));
}

TEST(FileSystemTest, MissingFolderPipeAndFolder_AreErrorsThatNameThePath) {
  FileSystem& fs = FileSystem::Default();
  const testing::TempFolder temp;
  const std::string& folder = temp.path();
  const Status status = WriteFileAtomically(fs, folder + "/no/such", "x");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder + "/no/such")));
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(fs.ReadAll(folder + "/pipe"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(fs.ReadAll(folder), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Says what is asked of it.
class RecordingFileSystem : public testing::ForwardingFileSystem {
 public:
  Status CreateFolder(const std::string& folder) override {
    const Status status = base_.CreateFolder(folder);
    if (status.ok()) did_.push_back("made " + folder);
    return status;
  }
  Status SyncFolder(const std::string& folder) override {
    did_.push_back("synced " + folder);
    return base_.SyncFolder(folder);
  }
  std::vector<std::string> did_;
};

TEST(FileSystemTest, CreateFolders_SyncsEachNewOneIntoItsParent) {
  RecordingFileSystem fs;
  const testing::TempFolder temp;
  const std::string& folder = temp.path();
  ASSERT_OK(fs.CreateFolders(folder + "/a//b/"));
  EXPECT_THAT(fs.did_, ::testing::ElementsAre("made " + folder + "/a", "synced " + folder, "made " + folder + "/a//b",
                                              "synced " + folder + "/a/"));
  fs.did_.clear();
  ASSERT_OK(fs.CreateFolders(folder + "/a/b"));
  EXPECT_THAT(fs.did_, ::testing::IsEmpty());
}

TEST(FileSystemTest, CreateFolders_FileInTheWay_IsRefused) {
  FileSystem& fs = FileSystem::Default();
  const testing::TempFolder temp;
  const std::string file = temp.Write("file", "");
  for (const std::string& path : {file, file + "/below"}) {
    EXPECT_THAT(fs.CreateFolders(path), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'" + path + "'")));
  }
  EXPECT_THAT(fs.CreateFolders(""), StatusIs(absl::StatusCode::kNotFound));
}

TEST(FileLockTest, SecondHolder_IsRefusedUntilTheFirstIsGone) {
  const testing::TempFolder temp;
  const std::string path = temp.File("lock");
  StatusOr<std::unique_ptr<FileLock>> first = FileLock::Acquire(path);
  ASSERT_OK(first);
  EXPECT_THAT(FileLock::Acquire(path), StatusIs(absl::StatusCode::kUnavailable));
  first->reset();
  EXPECT_OK(FileLock::Acquire(path));
}

TEST(TensorTest, Of_KeepsValuesAndAlignment) {
  const Tensor tensor = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(tensor.flat<float>(), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
}

}  // namespace
}  // namespace rivulet
