#include "federated/secure/secret.h"

#include <sys/resource.h>

#include <cstring>

namespace rivulet::secure {
namespace {

TEST(SecretBytes, LieInTheSecureHeapAndMove) {
  ASSERT_OK_AND_ASSIGN(SecretBytes bytes, SecretBytes::Random(32));
  EXPECT_TRUE(bytes.in_secure_heap());
  const SecretBytes copy = SecretBytes::CopyOf(bytes.span());
  const SecretBytes moved = std::move(bytes);
  EXPECT_TRUE(bytes.empty());
  EXPECT_TRUE(EqualSecrets(moved.span(), copy.span()));
  ASSERT_OK_AND_ASSIGN(const SecretBytes other, SecretBytes::Random(32));
  EXPECT_FALSE(EqualSecrets(moved.span(), other.span()));
  EXPECT_FALSE(EqualSecrets(moved.span(), moved.part(0, 31)));
}

// More than the secure heap holds: bytes are there all the same.
TEST(SecretBytes, BeyondTheSecureHeapTheyLieElsewhere) {
  SecretBytes large(size_t{4} << 20);
  EXPECT_FALSE(large.in_secure_heap());
  large.data()[large.size() - 1] = 7;
  const SecretBytes moved = std::move(large);
  EXPECT_EQ(moved.data()[moved.size() - 1], 7);
}

// The secure heap's pages stay mapped, so that its bytes can be looked at after they were given back.
TEST(SecretBytes, AreWipedWhenTheyGo) {
  const uint8_t* where = nullptr;
  {
    SecretBytes bytes(4096);
    ASSERT_TRUE(bytes.in_secure_heap());
    std::memset(bytes.data(), 0x5A, bytes.size());
    where = bytes.data();
  }
  int left = 0;
  for (size_t i = 64; i < 4096; ++i) left += where[i] == 0x5A ? 1 : 0;  // the first bytes are the heap's own list
  EXPECT_EQ(left, 0);
}

TEST(ForbidCoreDumps, LeavesALimitOfZero) {
  const auto in_child = [] {
    const bool forbidden = ForbidCoreDumps().ok();
    rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    exit(forbidden && limit.rlim_cur == 0 && limit.rlim_max == 0 ? 0 : 1);
  };
  EXPECT_EXIT(in_child(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rivulet::secure
