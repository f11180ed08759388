#include "certificates/index.h"

#include "certificates/key.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

std::string SomeIndex() {
  IndexRow row = {.serial = "4F00A1",
                  .subject = {.name = {Role::kAggregator, "ward 7"}, .hosts = {"aggregator.example.org", "192.0.2.7"}},
                  .validity = {1'772'000'000, 1'803'536'000},
                  .public_key = "key"};
  row.revocation = {1'780'000'000, RevocationReason::kKeyCompromise};
  return IndexText({row});
}

TEST(IndexTest, WhatIsWritten_IsRead) {
  const auto rows = ParseIndex(SomeIndex(), "index");
  ASSERT_OK(rows);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ(rows->front().subject.hosts.size(), 2u);
  EXPECT_EQ(rows->front().validity.until, 1'803'536'000);
  EXPECT_EQ(IndexText(*rows), SomeIndex());
}

// A day that there is not would come to be another, and an expiry be later than it was.
TEST(IndexTest, TimeThatIsWrittenInAnotherWay_IsDataLoss) {
  const std::string text = SomeIndex(), from = TimeText(1'772'000'000);
  const size_t at = text.find(from);
  ASSERT_NE(at, text.npos);
  for (const char* other : {"2026-02-31T00:00:00Z", "2026-2-25T06:13:20Z", "2026-02-25T06:13:60Z",
                            " 2026-02-25T06:13:20Z", "2026-02-25T06:13:20", "soon"}) {
    std::string changed = text;
    changed.replace(at, from.size(), other);
    EXPECT_THAT(ParseIndex(changed, "index"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("line 2 of 'index'")))
        << other;
  }
}

}  // namespace
}  // namespace rivulet
