#include "engine/data/record_index.h"

#include <sys/stat.h>

#include "engine/data/dataset.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The file system with one folder that cannot be written.
class ReadOnlyFolder : public testing::ForwardingFileSystem {
 public:
  explicit ReadOnlyFolder(std::string folder) : folder_(std::move(folder) + "/") {}
  StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    if (path.starts_with(folder_) && path.find('/', folder_.size()) == std::string::npos)
      return PermissionDenied("read-only");
    return base_.Create(path);
  }

 private:
  std::string folder_;
};

class RecordIndexTest : public DataTest {
 protected:
  std::vector<uint64_t> Load(const std::string& path, FileSystem& fs = FileSystem::Default()) {
    const auto file = MappedFile::Open(path);
    const auto offsets = LoadOrBuildIndex(**file, fs, Path("cache/rivulet"));
    EXPECT_OK(offsets);
    return offsets.ok() ? *offsets : std::vector<uint64_t>{};
  }
  IndexKey Key(const std::string& path) { return *MakeIndexKey(**MappedFile::Open(path)); }
  size_t FilesIn(const std::string& folder) {
    if (!std::filesystem::exists(folder)) return 0;
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }
};

// Frozen: an index that an earlier version wrote must open for ever.
TEST_F(RecordIndexTest, FrozenSample_Decodes) {
  const std::string sample(
      "RVLINDEX"
      "\x01\0\0\0"
      "\x78\x56\x34\x12"
      "\x27\0\0\0\0\0\0\0"
      "\x15\xCD\x5B\x07\0\0\0\0"
      "\x02\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\x13\0\0\0\0\0\0\0"
      "\xD9\xCF\xCF\xE9",
      60);
  const IndexKey key{39, 123456789, 0x12345678};
  EXPECT_EQ(EncodeIndex(key, {0, 19}), sample);
  const auto offsets = DecodeIndex(sample, key);
  ASSERT_OK(offsets);
  EXPECT_THAT(*offsets, ElementsAre(0, 19));
}

TEST_F(RecordIndexTest, FirstUse_WritesASidecarThatTheSecondUses) {
  const std::string path = Write("f", Frames({"abc", "defg"}));
  EXPECT_THAT(Load(path), ElementsAre(0, 19));
  ASSERT_TRUE(std::filesystem::exists(path + ".index"));
  EXPECT_EQ(FilesIn(folder_.path()), 2u);  // no temporary is left, nothing in the cache
  // Seen to be used: an index with the right key and other offsets is believed.
  Write("f.index", EncodeIndex(Key(path), {0, 20}));
  EXPECT_THAT(Load(path), ElementsAre(0, 20));
}

TEST_F(RecordIndexTest, ChangedFile_IsIndexedAgain) {
  const std::string path = Write("f", Frames({"abc", "defg"}));
  const std::string old_index = EncodeIndex(Key(path), {0, 19});
  // Another size; the same size at another time; the same size and time with other content.
  Write("f.index", old_index);
  Write("f", Frames({"abc", "defg", "h"}));
  EXPECT_THAT(Load(path), ElementsAre(0, 19, 39));
  const auto time = std::filesystem::last_write_time(path);
  Write("f", Frames({"abcd", "defg", ""}));
  std::filesystem::last_write_time(path, time);
  EXPECT_THAT(Load(path), ElementsAre(0, 20, 40));
  Write("f.index", EncodeIndex(Key(path), {0, 17}));
  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_THAT(Load(path), ElementsAre(0, 20, 40));
}

TEST_F(RecordIndexTest, ContentChangedInTheMiddleOfALargeFile_IsSeen) {
  std::vector<std::string> records(3000, std::string(200, 'a'));
  const std::string path = Write("f", Frames(records));
  const IndexKey before = Key(path);
  for (auto& record : records) record[0] = 'b';
  const auto time = std::filesystem::last_write_time(path);
  Write("f", Frames(records));
  std::filesystem::last_write_time(path, time);
  const IndexKey after = Key(path);
  EXPECT_EQ(before.file_bytes, after.file_bytes);
  EXPECT_EQ(before.modified_nanoseconds, after.modified_nanoseconds);
  EXPECT_NE(before.sample_crc, after.sample_crc);
}

TEST_F(RecordIndexTest, DamagedIndex_IsMadeAgain) {
  const std::string path = Write("f", Frames({"abc", "defg"}));
  const IndexKey key = Key(path);
  const std::string good = EncodeIndex(key, {0, 19});
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(DecodeIndex(good.substr(0, size), key), StatusIs(absl::StatusCode::kDataLoss)) << size;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 4;
    EXPECT_THAT(DecodeIndex(bad, key), ::testing::Not(::rivulet::testing::IsOk())) << at;
    if (at < 8) continue;
    Write("f.index", bad);
    EXPECT_THAT(Load(path), ElementsAre(0, 19));
    EXPECT_EQ(testing::ContentOf(path + ".index"), good);
  }
  // Right checksum, impossible offsets.
  for (const std::vector<uint64_t>& offsets :
       std::vector<std::vector<uint64_t>>{{1, 19}, {0, 15}, {0, 24}, {0, ~uint64_t{0}}, {}}) {
    EXPECT_THAT(DecodeIndex(EncodeIndex(key, offsets), key).status().ToString(), HasSubstr("the index is damaged"));
  }
}

TEST_F(RecordIndexTest, ReadOnlyFolder_KeepsItsIndexInTheCache) {
  const std::string path = Write("f", Frames({"abc", "defg"}));
  ReadOnlyFolder fs(folder_.path());
  EXPECT_THAT(Load(path, fs), ElementsAre(0, 19));
  EXPECT_FALSE(std::filesystem::exists(path + ".index"));
  ASSERT_EQ(FilesIn(Path("cache/rivulet")), 1u);
  const std::string cached = std::filesystem::directory_iterator(Path("cache/rivulet"))->path();
  Write(folder_.Relative(cached), EncodeIndex(Key(path), {0, 20}));
  EXPECT_THAT(Load(path, fs), ElementsAre(0, 20));
}

TEST_F(RecordIndexTest, NoPlaceToKeepIt_IsNoError) {
  const std::string path = Write("f", Frames({"abc", "defg"}));
  Write("cache", "a file where the folder should be");
  ReadOnlyFolder fs(folder_.path());
  EXPECT_THAT(Load(path, fs), ElementsAre(0, 19));
  EXPECT_EQ(FilesIn(folder_.path()), 2u);
}

TEST_F(RecordIndexTest, SomethingElseOfThatName_IsLeftAlone) {
  const std::string path = Write("f", Frames({"abc"}));
  Write("f.index", "my own notes");
  EXPECT_THAT(Load(path), ElementsAre(0));
  EXPECT_EQ(testing::ContentOf(path + ".index"), "my own notes");
  EXPECT_EQ(FilesIn(Path("cache/rivulet")), 1u);
  std::filesystem::remove(path + ".index");
  ASSERT_EQ(mkfifo((path + ".index").c_str(), 0600), 0);
  EXPECT_THAT(Load(path), ElementsAre(0));  // and does not block
}

TEST_F(RecordIndexTest, IndexGivenAsData_IsRefusedByName) {
  const std::string path = Write("f", Frames({"abc"}));
  Load(path);
  EXPECT_THAT(Dataset::Open({path + ".index"}).status().ToString(),
              HasSubstr("f.index: record 0 at byte 0: an index, not records"));
}

TEST_F(RecordIndexTest, CacheFolder_FollowsTheEnvironment) {
  EXPECT_EQ(DefaultCacheFolder(), Path("cache") + "/rivulet");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/x", 1);
  EXPECT_EQ(DefaultCacheFolder(), "/home/x/.cache/rivulet");
}

}  // namespace
}  // namespace rivulet
