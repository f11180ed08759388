// A serialised partial sum: read as it arrives, and refused with the reason if it is invalid.
#include "engine/io/crc32c.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::BytesOf;
using ::testing::HasSubstr;
using testing::Make;
using testing::Read;
using testing::StatusIs;
using testing::TestUpdate;

AggregationSpec TwoPartSpec() {
  AggregationSpec spec;
  spec.parts = {{.name = "delta", .elements = 3}, {.name = "dc", .elements = 2, .value_bits = 0, .sum_bits = 32}};
  spec.parts[1].weigh = "one";
  spec.scalars = {{"train_loss"}, {"right", "one"}};
  spec.updates_per_version = 4;
  return spec;
}

Partial TwoPartPartial() {
  auto aggregation = Make(TwoPartSpec());
  const std::vector<float> delta = {1, -2, 3}, dc = {0.25f, -0.5f};
  const PartView parts[] = {{.name = "delta", .data = std::as_bytes(std::span(delta))},
                            {.name = "dc", .data = std::as_bytes(std::span(dc))}};
  const Scalars scalars = {{"train_loss", -0.5}, {"right", 3}};
  for (const char* task : {"b", "a"}) {
    EXPECT_OK(aggregation->Fold({task, 17, parts, scalars}, {.parts = {7, 1}, .scalars = {7, 1}}));
  }
  return aggregation->Save().at(0);
}

TEST(Partial, Bytes_ReadBackInPiecesOfAnySize) {
  const Partial partial = TwoPartPartial();
  const AggregationSpec spec = TwoPartSpec();
  const std::string bytes = BytesOf(spec, partial);
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{64}, bytes.size()}) {
    PartialReader reader(spec);
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const std::string_view some = std::string_view(bytes).substr(at, piece);
      ASSERT_OK(reader.Append(std::as_bytes(std::span(some))));
    }
    const auto again = std::move(reader).Finish();
    ASSERT_OK(again);
    EXPECT_EQ(again->spec, spec.digest());
    EXPECT_EQ(again->base_version, 17);
    EXPECT_THAT(again->tasks, ::testing::UnorderedElementsAre("a", "b"));
    ASSERT_EQ(again->parts.size(), 2u);
    EXPECT_EQ(again->parts[0].sums, partial.parts[0].sums);
    EXPECT_EQ(again->parts[1].sums32, partial.parts[1].sums32);
    EXPECT_EQ(again->parts[0].weight_sum, 14);
    EXPECT_EQ(again->parts[1].updates, 2);
    EXPECT_EQ(again->parts[1].nonzeros, 4);
    EXPECT_EQ(again->scalars, partial.scalars);
    EXPECT_EQ(again->scalars[0].ToDouble(), -7);
    EXPECT_OK(Make(spec)->Merge(*again));
  }
}

// As the header's page says it.
TEST(Partial, Sections_LieAsDocumented) {
  AggregationSpec spec;
  spec.parts = {{.elements = 2}};
  Partial partial = EmptyPartial(spec, 0);
  partial.parts[0].sums = {1, -1};
  const std::string bytes = BytesOf(spec, partial);
  std::string section("\x05\0\0\0delta\x10\0\0\0\0\0\0\0", 17);
  const auto put = [](std::string& out, uint32_t crc) { out.append(reinterpret_cast<const char*>(&crc), 4); };
  put(section, Crc32c(section));
  const std::string sums("\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  section += sums;
  put(section, Crc32c(sums));
  EXPECT_TRUE(bytes.starts_with("RVPART02"));
  EXPECT_TRUE(bytes.ends_with(section));
}

TEST(Partial, AnyDamage_IsDataLoss) {
  const AggregationSpec spec = TwoPartSpec();
  const std::string bytes = BytesOf(spec, TwoPartPartial());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      ASSERT_THAT(Read(spec, damaged), StatusIs(absl::StatusCode::kDataLoss)) << at << ' ' << bit;
    }
    ASSERT_THAT(Read(spec, bytes.substr(0, at)), StatusIs(absl::StatusCode::kDataLoss)) << at;
  }
  EXPECT_THAT(Read(spec, bytes + "x"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("1 bytes follow a saved partial's end")));
}

TEST(Partial, SumsBeyondABlock_AreCheckedBlockByBlock) {
  AggregationSpec spec;
  spec.parts = {{.elements = 300'000}};  // 2.4 MB
  auto aggregation = Make(spec);
  TestUpdate update{"a", std::vector<float>(300'000, 0.5f)};
  update.delta[299'999] = -1;
  ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  const std::string bytes = BytesOf(spec, aggregation->Save()[0]);
  const auto again = Read(spec, bytes);
  ASSERT_OK(again);
  EXPECT_EQ(again->parts[0].sums, aggregation->Save()[0].parts[0].sums);
  // The second block is wrong: that is told without its third.
  std::string damaged = bytes.substr(0, bytes.size() - 300'000);
  damaged[1'500'000] = static_cast<char>(damaged[1'500'000] ^ 1);
  EXPECT_THAT(Read(spec, damaged), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the sums of part 'delta'")));
}

TEST(Partial, OfAnotherSpecOrForm_IsRefusedByName) {
  const AggregationSpec spec = TwoPartSpec();
  AggregationSpec other = spec;
  other.parts[0].value_bits = 9;
  EXPECT_THAT(Read(other, BytesOf(spec, TwoPartPartial())),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("belongs to another plan")));
  EXPECT_THAT(
      Read(spec, std::string_view("RVPART01\x0d\0\0\0weighted_mean", 25)),
      StatusIs(absl::StatusCode::kDataLoss, "these bytes are no saved partial: they do not begin with RVPART02"));
  Partial many = TwoPartPartial();
  for (const char* task : {"c", "d", "e"}) many.tasks.insert(task);
  EXPECT_THAT(Read(spec, BytesOf(spec, many)),
              StatusIs(absl::StatusCode::kInvalidArgument, "a partial holds 5 updates, more than the 4 of a version"));
}

// Changes bytes of the header and signs them anew, as someone who writes nonsense on purpose would.
TEST(Partial, NonsenseWithAValidCrc_IsRefusedWithoutACrash) {
  const AggregationSpec spec = TwoPartSpec();
  const std::string bytes = BytesOf(spec, TwoPartPartial());
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, 4);
  const size_t end = 12 + length;
  for (size_t at = 12; at < end; ++at) {
    for (int value = 0; value < 256; value += 5) {
      std::string forged = bytes;
      forged[at] = static_cast<char>(value);
      const uint32_t crc = Crc32c(std::string_view(forged).substr(0, end));
      std::memcpy(forged.data() + end, &crc, 4);
      const auto partial = Read(spec, forged);
      if (partial.ok()) (void)Make(spec)->Merge(*partial);
    }
  }
}

}  // namespace
}  // namespace rivulet
