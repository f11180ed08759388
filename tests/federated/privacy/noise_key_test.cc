#include "federated/privacy/noise_key.h"

#include <sys/stat.h>

#include "federated/privacy/noise_stream.h"
#include "tests/testing/forwarding_file_system.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::privacy {
namespace {

using absl::StatusCode;
using testing::ContentOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StatusIs;

std::string Hex(const NoiseKey& key) {
  std::string hex;
  for (size_t i = 0; i < NoiseKey::kBytes; ++i) hex += fmt::format("{:02x}", key.data()[i]);
  return hex;
}

NoiseKey Counting() {
  NoiseKey::Bytes bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  return NoiseKey::FromBytes(bytes);
}

class NoiseKeyFile : public testing::FolderTest {
 protected:
  FileSystem& files_ = FileSystem::Default();
};

TEST_F(NoiseKeyFile, CreateWritesWhatReadGivesBackForItsOwnerAlone) {
  ASSERT_OK_AND_ASSIGN(const NoiseKey made, NoiseKey::Create(files_, Path("noise.key")));
  struct stat info;
  ASSERT_EQ(stat(Path("noise.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_OK_AND_ASSIGN(const NoiseKey read, NoiseKey::Read(files_, Path("noise.key")));
  EXPECT_EQ(Hex(read), Hex(made));
  EXPECT_EQ(ContentOf(Path("noise.key")), "rivulet noise key 1 " + Hex(made) + "\n");
  EXPECT_FALSE(files_.Exists(Path("noise.key.part")));
  ASSERT_OK_AND_ASSIGN(const NoiseKey other, NoiseKey::Create(files_, Path("other.key")));
  EXPECT_NE(Hex(other), Hex(made));
}

TEST_F(NoiseKeyFile, CreateNeverReplacesAKey) {
  ASSERT_OK(NoiseKey::Create(files_, Path("noise.key")));
  const std::string before = ContentOf(Path("noise.key"));
  EXPECT_THAT(NoiseKey::Create(files_, Path("noise.key")),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("never replaced")));
  EXPECT_EQ(ContentOf(Path("noise.key")), before);
}

TEST_F(NoiseKeyFile, WhatACrashLeftIsReplacedWithItsModeMended) {
  Write("noise.key.part", "rivulet noise");
  ASSERT_EQ(chmod(Path("noise.key.part").c_str(), 0644), 0);
  ASSERT_OK(NoiseKey::Create(files_, Path("noise.key")));
  struct stat info;
  ASSERT_EQ(stat(Path("noise.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

// Whatever of the steps fails, no key is there afterwards that a run might take for its own.
TEST_F(NoiseKeyFile, CreateThatFailsLeavesNothing) {
  class Failing : public testing::ForwardingFileSystem {
   public:
    Status Rename(const std::string&, const std::string&) override { return ResourceExhausted("no space left"); }
  } failing;
  EXPECT_THAT(NoiseKey::Create(failing, Path("noise.key")),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("writing the noise key: no space left")));
  EXPECT_FALSE(files_.Exists(Path("noise.key")));
  EXPECT_FALSE(files_.Exists(Path("noise.key.part")));
  EXPECT_THAT(NoiseKey::Create(files_, Path("nowhere/noise.key")),
              StatusIs(StatusCode::kInternal, HasSubstr("nowhere/noise.key")));
}

TEST_F(NoiseKeyFile, ReadRefusesWhatOthersMayReadAndWhatIsDamaged) {
  EXPECT_THAT(NoiseKey::Read(files_, Path("none")), StatusIs(StatusCode::kNotFound, HasSubstr("no noise key")));
  ASSERT_OK(NoiseKey::Create(files_, Path("noise.key")));
  const std::string good = ContentOf(Path("noise.key"));
  for (const int mode : {0640, 0604}) {
    ASSERT_EQ(chmod(Path("noise.key").c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_THAT(NoiseKey::Read(files_, Path("noise.key")),
                StatusIs(StatusCode::kFailedPrecondition, HasSubstr(fmt::format("{:04o}", mode))));
  }
  std::string upper = good, other = good;
  upper[20] = 'G';
  other[0] = 'R';
  int number = 0;
  for (const std::string& bad :
       {good.substr(0, 40), good + "\n", upper, other, std::string(good.size(), '0'), std::string()}) {
    const std::string name = fmt::format("bad{}", number++);
    Write(name, bad);
    ASSERT_EQ(chmod(Path(name).c_str(), 0600), 0);
    const StatusOr<NoiseKey> read = NoiseKey::Read(files_, Path(name));
    EXPECT_THAT(read, StatusIs(StatusCode::kDataLoss, HasSubstr("no noise key of this program, or damaged")));
    EXPECT_THAT(testing::ErrorOf(read), Not(HasSubstr(good.substr(24, 8))));
  }
}

// By another implementation: HMAC-SHA256 of Python's hmac, as RFC 5869 puts it together.
TEST(NoiseKey, DeriveIsHkdfOfVersionAndPurpose) {
  ASSERT_OK_AND_ASSIGN(const NoiseKey derived, Counting().Derive(7, NoisePurpose::kSum));
  EXPECT_EQ(Hex(derived), "abfaf4fd71a5eb380691e7194840573acedd7330998bf25ff229236fcdc19cb6");
  ASSERT_OK_AND_ASSIGN(const NoiseKey other, Counting().Derive(uint64_t{1} << 40, NoisePurpose::kCohort));
  EXPECT_EQ(Hex(other), "173ec313258798515bf64b3c9b7614ffdc77732df4953b8afe22c4e76b252b0d");
}

TEST(NoiseKey, VersionsPurposesAndKeysHaveStreamsOfTheirOwn) {
  std::set<std::string> keys;
  for (const uint64_t version : {1, 2, 256}) {
    for (const NoisePurpose purpose : {NoisePurpose::kSum, NoisePurpose::kClip, NoisePurpose::kCohort}) {
      ASSERT_OK_AND_ASSIGN(const NoiseKey derived, Counting().Derive(version, purpose));
      keys.insert(Hex(derived));
    }
  }
  EXPECT_EQ(keys.size(), 9u);
}

TEST(NoiseKey, IsWipedWhereItWasMovedFrom) {
  NoiseKey key = Counting();
  const NoiseKey moved = std::move(key);
  EXPECT_EQ(Hex(key), std::string(64, '0'));  // NOLINT: that is what is tested
  EXPECT_EQ(Hex(moved), Hex(Counting()));
}

// Known answers of Python's `cryptography`.
TEST(NoiseStream, IsAesInCounterMode) {
  ASSERT_OK_AND_ASSIGN(NoiseStream stream, NoiseStream::Create(Counting(), 0x0102030405060708));
  EXPECT_EQ(stream.Word(), 0x6155f427d17b6265u);
  EXPECT_EQ(stream.Word(), 0xb42ddf81f0d0f98fu);
  for (int i = 2; i < 1000; ++i) stream.Word();  // beyond one buffer
  EXPECT_EQ(stream.Word(), 0x7177a703519dc7dbu);
}

TEST(NoiseStream, BelowIsUniformAndBitsAreFair) {
  ASSERT_OK_AND_ASSIGN(NoiseStream stream, NoiseStream::Create(Counting(), 1));
  std::vector<int> counts(7);
  int ones = 0;
  for (int i = 0; i < 70000; ++i) ++counts.at(stream.Below(7)), ones += stream.Bit();
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi_squared, 22.46);        // 99.9 % of 6 degrees of freedom
  EXPECT_NEAR(ones, 35000, 5 * 132.3);  // five deviations
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.Below(1), 0u);
}

}  // namespace
}  // namespace rivulet::privacy
