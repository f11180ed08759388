#include "federated/secure/shamir.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "federated/secure/share_decoding.h"

namespace rivulet::secure {
namespace {

FieldElement Random(std::mt19937_64& random) { return {random(), random()}; }

TEST(Field, BothProductsAreEqualAndObeyTheLaws) {
  std::mt19937_64 random(1);
  const FieldElement one{0, 1};
  for (int i = 0; i < 2000; ++i) {
    const FieldElement a = Random(random), b = Random(random), c = Random(random);
    ASSERT_EQ(a * b, PortableProduct(a, b));
    ASSERT_EQ(a * b, b * a);
    ASSERT_EQ((a * b) * c, a * (b * c));
    ASSERT_EQ(a * (b + c), a * b + a * c);
    ASSERT_EQ(a * one, a);
    ASSERT_EQ(a * Inverse(a), one);
  }
  EXPECT_EQ(Inverse({}), FieldElement{});
  // x^127 times x is the polynomial's rest.
  EXPECT_EQ((FieldElement{uint64_t{1} << 63, 0} * FieldElement{0, 2}), (FieldElement{0, 0x87}));
}

TEST(Field, InvertAllInvertsEach) {
  std::mt19937_64 random(2);
  std::vector<FieldElement> elements(50);
  for (FieldElement& element : elements) element = Random(random);
  const std::vector<FieldElement> before = elements;
  InvertAll(elements);
  for (size_t i = 0; i < elements.size(); ++i) EXPECT_EQ(elements[i], Inverse(before[i]));
}

TEST(Field, BytesAreBigEndian) {
  std::array<uint8_t, kFieldBytes> bytes{};
  bytes[15] = 3;
  bytes[0] = 0x80;
  EXPECT_EQ(ElementOf(bytes), (FieldElement{uint64_t{1} << 63, 3}));
  std::array<uint8_t, kFieldBytes> again{};
  WriteElement(ElementOf(bytes), again);
  EXPECT_EQ(again, bytes);
}

struct Shared {
  SecretBytes secret, shares;
  std::vector<uint32_t> holders;
};

Shared ShareAmong(int count, int threshold) {
  Shared shared;
  shared.secret = SecretBytes::Random(kSecretBytes).value();
  for (int i = 0; i < count; ++i) shared.holders.push_back(static_cast<uint32_t>(3 * i + 1));
  shared.shares = ShareSecret(shared.secret.span().first<kSecretBytes>(), threshold, shared.holders).value();
  return shared;
}

std::span<const uint8_t> ShareOf(const Shared& shared, size_t i) {
  return shared.shares.part(i * kShareBytes, kShareBytes);
}

TEST(Shamir, AnyThresholdSharesGiveTheSecretAndFewerDoNot) {
  const Shared shared = ShareAmong(7, 4);
  for (unsigned set = 0; set < 1u << 7; ++set) {
    std::vector<uint32_t> holders;
    std::vector<std::span<const uint8_t>> shares;
    for (size_t i = 0; i < 7; ++i) {
      if ((set >> i & 1) == 0) continue;
      holders.push_back(shared.holders[i]);
      shares.push_back(ShareOf(shared, i));
    }
    const bool enough = holders.size() >= 4;
    const SecretBytes secret = Recombination(holders).Secret(shares);
    EXPECT_EQ(EqualSecrets(secret.span(), shared.secret.span()), enough) << set;
  }
}

class Decoding : public ::testing::Test {
 protected:
  void Make(int count, int threshold) {
    threshold_ = threshold;
    shared_ = ShareAmong(count, threshold);
  }
  std::optional<DecodedSecret> Decode() {
    std::vector<HeldShare> held;
    for (size_t i = 0; i < shared_.holders.size(); ++i) held.push_back({shared_.holders[i], ShareOf(shared_, i)});
    return DecodeSecret(held, threshold_, [&](std::span<const uint8_t, kSecretBytes> secret) {
      return EqualSecrets(secret, shared_.secret.span());
    });
  }
  // One bit of the share's first or second half.
  void Corrupt(size_t share, size_t half = 0) { shared_.shares.data()[share * kShareBytes + half * kFieldBytes] ^= 4; }
  void ExpectFound(const std::vector<uint32_t>& wrong) {
    const auto decoded = Decode();
    ASSERT_TRUE(decoded.has_value());
    EXPECT_TRUE(EqualSecrets(decoded->secret.span(), shared_.secret.span()));
    EXPECT_EQ(decoded->wrong, wrong);
  }
  Shared shared_;
  int threshold_ = 0;
};

TEST_F(Decoding, EachCorruptedShareIsNamed) {
  for (size_t share = 0; share < 9; ++share) {
    for (size_t half = 0; half < 2; ++half) {
      Make(9, 5);
      Corrupt(share, half);
      ExpectFound({shared_.holders[share]});
    }
  }
}

TEST_F(Decoding, HalfOfTheSpareSharesMayBeWrong) {
  Make(100, 60);
  std::vector<uint32_t> wrong;
  for (size_t share = 0; share < 100; share += 5) {
    Corrupt(share, share % 2);
    wrong.push_back(shared_.holders[share]);
  }
  ASSERT_EQ(wrong.size(), 20u);
  ExpectFound(wrong);
}

// One spare share is too few for the decoder, and the subsets are few.
TEST_F(Decoding, WithOneSpareShareOneWrongIsFound) {
  for (size_t share = 0; share < 6; ++share) {
    Make(6, 5);
    Corrupt(share);
    ExpectFound({shared_.holders[share]});
  }
}

TEST_F(Decoding, AllSpareSharesMayBeWrongWhereSubsetsAreFew) {
  Make(9, 5);
  for (const size_t share : {0u, 2u, 3u, 8u}) Corrupt(share);
  ExpectFound({shared_.holders[0], shared_.holders[2], shared_.holders[3], shared_.holders[8]});
}

TEST_F(Decoding, WithoutSpareSharesAWrongOneGivesNothing) {
  Make(5, 5);
  Corrupt(2);
  EXPECT_FALSE(Decode().has_value());
}

TEST_F(Decoding, MoreWrongSharesThanSpareOnesGiveNothing) {
  Make(200, 150);
  for (size_t share = 0; share < 51; ++share) Corrupt(share);
  EXPECT_FALSE(Decode().has_value());
}

TEST_F(Decoding, NoneWrong) {
  Make(10, 7);
  ExpectFound({});
}

}  // namespace
}  // namespace rivulet::secure
