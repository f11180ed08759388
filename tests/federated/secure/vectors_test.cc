// The reference values of the test data (privacy/vectors.json) that are of secure aggregation: shares by PyCryptodome,
// and k and t by SciPy's hypergeometric distribution.
#include <cmath>

#include "federated/secure/graph_shape.h"
#include "federated/secure/shamir.h"
#include "tests/testing/hexadecimal.h"
#include "tests/testing/privacy_vectors.h"

namespace rivulet::secure {
namespace {

using testing::PrivacyVectors;

FieldElement ElementOfHex(const std::string& hex) {
  return ElementOf(std::span<const uint8_t>(testing::Bytes(hex)).first<kFieldBytes>());
}

TEST_F(PrivacyVectors, SharesAreThoseOfPyCryptodome) {
  int met = 0, shares = 0;
  for (const Json& vector : Group("shamir")) {
    ++met;
    std::vector<FieldElement> coefficients;
    for (const Json& coefficient : vector.At("coefficients").elements()) {
      coefficients.push_back(ElementOfHex(coefficient.text()));
    }
    ASSERT_EQ(static_cast<double>(coefficients.size()), vector.At("threshold").number());
    std::vector<uint32_t> holders;
    std::vector<std::vector<uint8_t>> bytes;
    for (const auto& [holder, value] : vector.At("value").members()) {
      const auto x = static_cast<uint32_t>(std::stoul(holder));
      EXPECT_EQ(ValueAt(coefficients, x), ElementOfHex(value.text())) << vector.At("id").text() << " at " << holder;
      ++shares;
      // As a share of 256 bits whose halves are equal.
      holders.push_back(x);
      bytes.push_back(testing::Bytes(value.text() + value.text()));
    }
    if (holders.size() < coefficients.size()) continue;
    holders.resize(coefficients.size());
    std::vector<std::span<const uint8_t>> spans(bytes.begin(),
                                                bytes.begin() + static_cast<std::ptrdiff_t>(holders.size()));
    const std::string& secret = vector.At("coefficients").elements()[0].text();
    EXPECT_EQ(testing::HexOf(Recombination(holders).Secret(spans).span()), secret + secret);
  }
  EXPECT_EQ(met, 3);
  EXPECT_GT(shares, 10);
}

TEST_F(PrivacyVectors, GraphsAreThoseOfScipy) {
  int met = 0;
  for (const Json& vector : Group("secagg-graph")) {
    ++met;
    const auto field = [&](const char* name) { return vector.At(name).number(); };
    GraphNeeds needs{.members = static_cast<int64_t>(field("n")),
                     .privacy_bits = field("privacy_bits"),
                     .correctness_bits = field("correctness_bits")};
    needs.colluding = static_cast<int64_t>(std::floor(field("gamma") * field("n")));
    needs.dropped = static_cast<int64_t>(std::floor(field("drop") * field("n")));
    const std::string& id = vector.At("id").text();
    SCOPED_TRACE(id);
    ASSERT_OK_AND_ASSIGN(const GraphShape shape, ChooseGraph(needs));
    EXPECT_EQ(shape.neighbours, field("k"));
    EXPECT_EQ(shape.threshold, field("t"));
    EXPECT_FALSE(shape.complete);
    const Json& privacy = vector.At("value").elements()[0];
    const double ours = Log2ManyColluding(needs, shape.neighbours, 2 * shape.threshold - shape.neighbours);
    if (privacy.IsNull()) {
      EXPECT_TRUE(std::isinf(ours)) << ours;
    } else {
      EXPECT_NEAR(ours, privacy.number(), 1e-6 * std::abs(privacy.number()));
    }
    const double correctness = vector.At("value").elements()[1].number();
    EXPECT_NEAR(Log2FewStaying(needs, shape.neighbours, shape.threshold), correctness, 1e-6 * std::abs(correctness));
  }
  EXPECT_EQ(met, 12);
}

}  // namespace
}  // namespace rivulet::secure
