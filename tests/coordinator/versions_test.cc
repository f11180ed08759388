// The versions in use: found by round and by digest, and kept while they are read.
#include "coordinator/versions.h"

#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// As it travels: its bytes are its name, repeated.
ServedVersion VersionAt(int64_t round) {
  ServedVersion version;
  version.row.round = round;
  version.encoded = std::make_shared<const std::string>(fmt::format("version {} version {}", round, round));
  version.sent_digest = Sha256Of(*version.encoded);
  return version;
}

Digest DigestAt(int64_t round) { return VersionAt(round).sent_digest; }

std::string TextOf(const Blob& blob, int64_t from = 0) {
  const std::span<const std::byte> bytes = blob.at(from);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(VersionsTest, NewestAndEarlier_AreFoundByRoundAndDigest) {
  const Versions versions(VersionAt(7), [] {
    std::vector<ServedVersion> earlier;
    earlier.push_back(VersionAt(3));
    return earlier;
  }());
  EXPECT_EQ(versions.current()->row.round, 7);
  EXPECT_EQ(versions.Of(7), versions.current());
  EXPECT_EQ(versions.Of(3)->row.round, 3);
  EXPECT_EQ(versions.Of(4), nullptr);
  EXPECT_EQ(versions.Find(DigestAt(3)), versions.Of(3));
  EXPECT_EQ(versions.Find(DigestAt(7)), versions.Of(7));
  EXPECT_EQ(versions.Find(DigestAt(4)), nullptr);
}

TEST(VersionsTest, Read_GivesTheBytesOfModelsInUse) {
  Versions versions(VersionAt(1), {});
  const auto blob = versions.Read({BlobId::Form::kModel, DigestAt(1)});
  ASSERT_TRUE(blob.has_value());
  EXPECT_EQ(blob->bytes, 19);
  EXPECT_EQ(TextOf(*blob), "version 1 version 1");
  EXPECT_EQ(TextOf(*blob, 10), "version 1");
  EXPECT_EQ(versions.Read({BlobId::Form::kBytes, DigestAt(1)}), std::nullopt) << "it is a model's digest";
  EXPECT_EQ(versions.Read({BlobId::Form::kModel, DigestAt(2)}), std::nullopt);
}

TEST(VersionsTest, Read_GivesBroadcastsBesideTheModel) {
  ServedVersion version = VersionAt(1);
  auto flats = std::make_shared<ServerFlats>();
  const std::vector<float> values = {1, 2};
  AlignedBuffer& bytes = flats->emplace("server/c", AlignedBuffer(values.size() * sizeof(float))).first->second;
  std::memcpy(bytes.data(), values.data(), values.size() * sizeof(float));
  version.flats = flats;
  const Digest digest = Sha256Of("c");
  version.broadcasts.push_back({"c", digest});
  Versions versions(std::move(version), {});
  versions.SetCurrent(VersionAt(2), true);
  const auto blob = versions.Read({BlobId::Form::kBytes, digest});
  ASSERT_TRUE(blob.has_value()) << "of an earlier version too";
  EXPECT_EQ(blob->bytes, 8);
  EXPECT_EQ(reinterpret_cast<const float*>(blob->at(4).data())[0], 2);
}

TEST(VersionsTest, SetCurrent_KeepsThePreviousVersionAsLongAsItIsNeeded) {
  Versions versions(VersionAt(1), {});
  versions.SetCurrent(VersionAt(2), true);
  versions.SetCurrent(VersionAt(3), false);
  EXPECT_EQ(versions.current()->row.round, 3);
  EXPECT_NE(versions.Of(1), nullptr);
  EXPECT_EQ(versions.Of(2), nullptr) << "nobody keeps it";
  versions.Keep([](int64_t round) { return round == 1; });
  EXPECT_NE(versions.Of(1), nullptr);
  versions.Keep([](int64_t) { return false; });
  EXPECT_EQ(versions.Of(1), nullptr);
  EXPECT_EQ(versions.current()->row.round, 3) << "the newest is always in use";
}

TEST(VersionsTest, VersionThatIsReplaced_StaysReadable) {
  Versions versions(VersionAt(1), {});
  const auto blob = versions.Read({BlobId::Form::kModel, DigestAt(1)});
  const Versions::Version had = versions.current();
  versions.SetCurrent(VersionAt(2), false);
  ASSERT_TRUE(blob.has_value());
  EXPECT_EQ(TextOf(*blob), "version 1 version 1");
  EXPECT_EQ(had->row.round, 1);
}

// A reader finds a version that it was told of while others replace the newest one.
TEST(VersionsTest, ReadersBesideAWriter_FindWholeVersions) {
  constexpr int64_t kLast = 200;
  Versions versions(VersionAt(0), {});
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      for (int64_t round = 0; round < kLast;) {
        const Versions::Version current = versions.current();
        EXPECT_GE(current->row.round, round);
        round = current->row.round;
        EXPECT_EQ(current->sent_digest, DigestAt(round));
        if (const auto blob = versions.Read({BlobId::Form::kModel, DigestAt(round)})) {
          EXPECT_EQ(TextOf(*blob), *current->encoded);
        }
      }
    });
  }
  for (int64_t round = 1; round <= kLast; ++round) {
    versions.SetCurrent(VersionAt(round), round % 2 == 0);
    versions.Keep([round](int64_t earlier) { return earlier > round - 4; });
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace rivulet
