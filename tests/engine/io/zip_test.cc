#include "engine/io/zip.h"

#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::HasSubstr;

std::string LittleEndian(uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// Where numbers stand in an entry of the directory, from its beginning, and in the record at the archive's end.
constexpr size_t kPacked = 20, kSize = 24, kExtraLength = 30, kName = 46, kDirectoryBytes = 12, kDirectoryAt = 16;
// And in a member's own header.
constexpr size_t kLocalExtraLength = 28, kLocalName = 30;

class ZipTest : public testing::FolderTest {
 protected:
  // An archive of one stored member "m" of ten bytes.
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const auto file, AtomicFile::Create(FileSystem::Default(), Path("a.zip")));
    ZipWriter writer(*file);
    ASSERT_OK(writer.Add("m", "0123456789", {}));
    ASSERT_OK(writer.Finish());
    ASSERT_OK(file->Commit());
    ASSERT_OK_AND_ASSIGN(bytes_, FileSystem::Default().ReadAll(Path("a.zip")));
    entry_ = bytes_.find("PK\x01\x02");
    ASSERT_NE(entry_, bytes_.npos);
  }
  void Put(size_t at, uint64_t value, int width) {
    bytes_.replace(at, static_cast<size_t>(width), LittleEndian(value, width));
  }

  std::string bytes_;
  size_t entry_ = 0;
};

TEST_F(ZipTest, MemberThatReachesIntoTheDirectory_IsToldByItsNumber) {
  Put(entry_ + kPacked, 1000, 4);
  Put(entry_ + kSize, 1000, 4);
  EXPECT_THAT(ErrorOf(ReadZipDirectory(bytes_)), HasSubstr("a member 1 that reaches beyond its data"));
}

// An entry's last extra field ends where the entry's extra fields do.
TEST_F(ZipTest, ExtraFieldThatFillsItsRoom_IsRead) {
  const std::string extra =
      LittleEndian(1, 2) + LittleEndian(16, 2) + LittleEndian(10, 8) + LittleEndian(10, 8);  // ZIP64: both sizes
  Put(entry_ + kPacked, 0xffffffff, 4);
  Put(entry_ + kSize, 0xffffffff, 4);
  Put(entry_ + kExtraLength, extra.size(), 2);
  bytes_.insert(entry_ + kName + 1, extra);
  Put(bytes_.rfind("PK\x05\x06") + kDirectoryBytes, kName + 1 + extra.size(), 4);
  ASSERT_OK_AND_ASSIGN(const auto members, ReadZipDirectory(bytes_));
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].size, 10u);
  EXPECT_EQ(ReadZipMember(members[0], 100).value(), "0123456789");
  Put(entry_ + kName + 1 + 2, 17, 2);  // one more than there is
  EXPECT_THAT(ErrorOf(ReadZipDirectory(bytes_)), HasSubstr("an extra field that is cut off"));
}

TEST_F(ZipTest, DirectoryOutsideOfTheArchive_IsRefused) {
  const size_t end = bytes_.rfind("PK\x05\x06");
  const std::string whole = bytes_;
  Put(end + kDirectoryAt, end + 1, 4);
  EXPECT_THAT(ErrorOf(ReadZipDirectory(bytes_)), HasSubstr("a directory outside of the file"));
  bytes_ = whole;
  Put(end + kDirectoryBytes, end - entry_ + 1, 4);
  EXPECT_THAT(ErrorOf(ReadZipDirectory(bytes_)), HasSubstr("a directory outside of the file"));
  bytes_ = whole;
  Put(end + kDirectoryAt, entry_ + 2, 4);
  Put(end + kDirectoryBytes, kName - 1, 4);
  EXPECT_THAT(ErrorOf(ReadZipDirectory(bytes_)), HasSubstr("claims 1 members, more than its directory"));
}

TEST_F(ZipTest, DirectoryThatEndsWithinAnEntry_SaysWhich) {
  Put(entry_ + kExtraLength, 1, 2);
  EXPECT_THAT(ErrorOf(ReadZipDirectory(bytes_)), HasSubstr("a directory that ends within member 1 of 1"));
}

// A member's own header may have extra fields that the directory has not, and either of them fields of other programs.
TEST_F(ZipTest, ExtraFieldsOfOthers_ArePassedOver) {
  const std::string other = LittleEndian(0x4242, 2) + LittleEndian(5, 2) + "other";
  const std::string zip64 = LittleEndian(1, 2) + LittleEndian(16, 2) + LittleEndian(10, 8) + LittleEndian(10, 8);
  Put(kLocalExtraLength, other.size(), 2);
  bytes_.insert(kLocalName + 1, other);
  entry_ += other.size();
  Put(entry_ + kPacked, 0xffffffff, 4);
  Put(entry_ + kSize, 0xffffffff, 4);
  Put(entry_ + kExtraLength, other.size() + zip64.size(), 2);
  bytes_.insert(entry_ + kName + 1, other + zip64);
  const size_t end = bytes_.rfind("PK\x05\x06");
  Put(end + kDirectoryBytes, end - entry_, 4);
  Put(end + kDirectoryAt, entry_, 4);
  ASSERT_OK_AND_ASSIGN(const auto members, ReadZipDirectory(bytes_));
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(ReadZipMember(members[0], 100).value(), "0123456789");
}

}  // namespace
}  // namespace rivulet
