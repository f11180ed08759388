// A version's record: one text each, in a chain of which every break is named, and signed by a coordinator.
#include "federated/records/version_record.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "federated/records/signed_record.h"
#include "tests/federated/secure/test_authority.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::records {
namespace {

using rivulet::testing::ErrorOf;
using rivulet::testing::kHarnessNow;
using rivulet::testing::StatusIs;
using rivulet::testing::TestAuthority;
using ::testing::HasSubstr;

VersionRecord First() {
  return {.run = "heart",
          .made_ms = kHarnessNow * 1000,
          .program = "0.2.0",
          .plan = Sha256Of("plan"),
          .configuration = Sha256Of("scenario"),
          .model = Sha256Of("model 0"),
          .updates_root = Sha256Of("")};
}

VersionRecord Second(const VersionRecord& first) {
  VersionRecord second = first;
  second.version = 1;
  second.previous = DigestOf(Write(first));
  second.earlier = 1;
  second.earlier_root = MerkleTree({LeafOf(*second.previous)}).root();
  second.base = first.model;
  second.model = Sha256Of("model 1");
  second.updates = 3;
  second.updates_root = Sha256Of("updates");
  second.has_receipts = true;
  second.privacy = {.mechanism = "discrete_gaussian",
                    .parameters = {{"clip", 0.1}, {"multiplier", 1.5}},
                    .epsilon = 1.25,
                    .delta = 1e-5,
                    .unit = "client",
                    .relation = "add-remove",
                    .noise_key = Sha256Of("key")};
  return second;
}

TEST(VersionRecord, IsReadAsItWasWritten) {
  for (const VersionRecord& record : {First(), Second(First())}) {
    const std::string text = Write(record);
    EXPECT_EQ(text.find('\n'), text.npos);
    ASSERT_OK_AND_ASSIGN(const VersionRecord read, ReadVersionRecord(text));
    EXPECT_EQ(read, record);
    EXPECT_EQ(Write(read), text);
  }
}

TEST(VersionRecord, HasTheDocumentedText) {
  EXPECT_EQ(Write(First()),
            "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"heart/0\",\"digest\":"
            "{\"rivuletModel\":\"" +
                First().model.Hex() +
                "\"}}],\"predicateType\":\"urn:rivulet:version:1\",\"predicate\":{\"run\":\"heart\",\"version\":0,"
                "\"previous\":null,\"earlier\":0,\"earlierRoot\":\"" +
                Sha256Of("").Hex() + "\",\"madeMs\":1800000000000,\"program\":\"0.2.0\",\"plan\":\"" +
                First().plan.Hex() + "\",\"configuration\":\"" + First().configuration.Hex() +
                "\",\"base\":null,\"updates\":0,\"updatesRoot\":\"" + Sha256Of("").Hex() +
                "\",\"hasReceipts\":false,\"privacy\":null}}");
}

// Each field, so that a new one that is not in the digest is found here.
TEST(VersionRecord, OfAnotherFieldAlone_HasAnotherDigest) {
  const VersionRecord record = Second(First());
  const std::vector<std::function<void(VersionRecord&)>> changes = {
      [](VersionRecord& one) { one.run = "lung"; },
      [](VersionRecord& one) { one.version = 2; },
      [](VersionRecord& one) { one.previous->bytes[0] ^= 1; },
      [](VersionRecord& one) { one.earlier = 3; },
      [](VersionRecord& one) { one.earlier_root.bytes[2] ^= 1; },
      [](VersionRecord& one) { ++one.made_ms; },
      [](VersionRecord& one) { one.program = "0.2.1"; },
      [](VersionRecord& one) { one.plan.bytes[31] ^= 1; },
      [](VersionRecord& one) { one.configuration.bytes[1] ^= 1; },
      [](VersionRecord& one) { one.base->bytes[1] ^= 1; },
      [](VersionRecord& one) { one.model.bytes[1] ^= 1; },
      [](VersionRecord& one) { ++one.updates; },
      [](VersionRecord& one) { one.updates_root.bytes[1] ^= 1; },
      [](VersionRecord& one) { one.has_receipts = false; },
      [](VersionRecord& one) { one.privacy.reset(); },
      [](VersionRecord& one) { one.privacy->mechanism = "laplace"; },
      [](VersionRecord& one) { one.privacy->parameters["multiplier"] = 1.25; },
      [](VersionRecord& one) { one.privacy->parameters["more"] = 0; },
      [](VersionRecord& one) { one.privacy->epsilon = 1; },
      [](VersionRecord& one) { one.privacy->epsilon.reset(); },
      [](VersionRecord& one) { one.privacy->delta = 1e-6; },
      [](VersionRecord& one) { one.privacy->unit = "example"; },
      [](VersionRecord& one) { one.privacy->relation = "replace-one"; },
      [](VersionRecord& one) { one.privacy->noise_key.reset(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    VersionRecord changed = record;
    changes[i](changed);
    EXPECT_NE(changed, record) << i;
    EXPECT_NE(DigestOf(Write(changed)), DigestOf(Write(record))) << i;
    ASSERT_OK_AND_ASSIGN(const VersionRecord read, ReadVersionRecord(Write(changed)));
    EXPECT_EQ(read, changed) << i;
  }
}

TEST(VersionRecord, TextThatNoRecordHas_IsRefused) {
  const std::string text = Write(Second(First()));
  const auto refused = [&](std::string_view from, std::string_view to, const char* why) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    EXPECT_THAT(ErrorOf(ReadVersionRecord(changed)), HasSubstr(why)) << to;
  };
  refused("\"version\":1", "\"version\": 1", "fields or characters that no record has");
  refused("\"version\":1", "\"version\":1,\"more\":2", "fields or characters that no record has");
  refused("heart/1", "lung/1", "fields or characters that no record has");
  refused("\"version\":1", "\"version\":-1", "\"version\" must be a whole number");
  refused("\"version\":1", "\"version\":0", "version 0 after 1 others must not have");
  refused("\"earlier\":1", "\"earlier\":0", "version 1 after 0 others must not have");
  refused("\"program\":\"0.2.0\"", "\"program\":2", "\"program\" must be text");
  refused("\"hasReceipts\":true", "\"hasReceipts\":1", "\"hasReceipts\" must be true or false");
  refused("\"epsilon\":1.25", "\"epsilon\":\"1.25\"", "\"epsilon\" must be a number");
  refused("\"privacy\":{", "\"secret\":{", "\"privacy\" must be an object or null");
  refused("urn:rivulet:version:1", "urn:rivulet:version:2", "must be of the types");
  EXPECT_THAT(ErrorOf(ReadVersionRecord("{")), HasSubstr("a version's record"));
}

TEST(RecordChain, EachBreak_IsNamed_AndLeavesTheChainAsItWas) {
  const VersionRecord first = First(), second = Second(first);
  RecordChain chain;
  EXPECT_TRUE(chain.empty());
  EXPECT_THAT(ErrorOf(chain.Add(second, DigestOf(Write(second)))), HasSubstr("\"previous\" is"));
  ASSERT_OK(chain.Add(first, DigestOf(Write(first))));
  const auto broken = [&](const std::function<void(VersionRecord&)>& change, const char* field) {
    VersionRecord changed = second;
    change(changed);
    const Status status = chain.Add(changed, DigestOf(Write(changed)));
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_THAT(ErrorOf(status), HasSubstr(fmt::format("break at version {}: its \"{}\" is", changed.version, field)));
    EXPECT_EQ(chain.size(), 1);
  };
  broken([](VersionRecord& one) { one.run = "lung"; }, "run");
  broken([](VersionRecord& one) { one.version = 2; }, "version");
  broken([](VersionRecord& one) { one.previous->bytes[3] ^= 1; }, "previous");
  broken([](VersionRecord& one) { one.earlier = 2; }, "earlier");
  broken([](VersionRecord& one) { one.earlier_root.bytes[3] ^= 1; }, "earlierRoot");
  broken([](VersionRecord& one) { one.base->bytes[3] ^= 1; }, "base");
  broken([](VersionRecord& one) { one.configuration.bytes[3] ^= 1; }, "configuration");
  ASSERT_OK(chain.Add(second, DigestOf(Write(second))));
  EXPECT_EQ(chain.last(), second);
  EXPECT_EQ(chain.head(), DigestOf(Write(second)));
}

TEST(RecordChain, GivesTheNextRecordItsPlace_FromAnyVersionOn) {
  RecordChain chain;
  for (int64_t version = 5; version < 40; ++version) {
    VersionRecord record = First();
    record.version = 5;
    chain.Continue(record);
    record.model = Sha256Of(fmt::format("model {}", version));
    EXPECT_EQ(record.version, version);
    ASSERT_OK_AND_ASSIGN(const VersionRecord read, ReadVersionRecord(Write(record)));
    ASSERT_OK(chain.Add(read, DigestOf(Write(read))));
  }
  EXPECT_EQ(chain.size(), 35);
}

class SignedRecordTest : public ::testing::Test {
 protected:
  std::string Signed(const VersionRecord& record, const TestAuthority::Holder& holder) {
    auto envelope = Sign(record, holder.key.get(), holder.certificate.Pem());
    EXPECT_OK(envelope);
    return envelope.value_or("");
  }
  Status Check(std::string_view envelope) {
    RIVULET_ASSIGN_OR_RETURN(const SignedRecord record, ReadSignedRecord(envelope));
    return CheckSigned(record, authority_.certificate());
  }

  const TestAuthority authority_;
  const TestAuthority::Holder coordinator_ = authority_.Issue("study.example", Role::kCoordinator);
};

TEST_F(SignedRecordTest, OfACoordinator_IsGood) {
  const VersionRecord record = Second(First());
  const std::string envelope = Signed(record, coordinator_);
  ASSERT_OK_AND_ASSIGN(const SignedRecord read, ReadSignedRecord(envelope));
  EXPECT_EQ(read.record, record);
  EXPECT_EQ(read.digest, DigestOf(Write(record)));
  EXPECT_OK(CheckSigned(read, authority_.certificate()));
}

TEST_F(SignedRecordTest, WithAnyByteChanged_IsRefused) {
  const std::string envelope = Signed(First(), coordinator_);
  for (size_t i = 0; i < envelope.size(); ++i) {
    std::string changed = envelope;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(Check(changed).ok()) << i << " of " << envelope;
  }
}

TEST_F(SignedRecordTest, ByOthers_IsRefused_WithTheReason) {
  VersionRecord record = First();
  EXPECT_THAT(ErrorOf(Check(Unsigned(record))), HasSubstr("version 0 of run 'heart' has no signature"));
  EXPECT_THAT(ErrorOf(Check(Signed(record, authority_.Issue("ward 7", Role::kClient)))),
              HasSubstr("a certificate that does not count"));
  EXPECT_THAT(ErrorOf(Check(Signed(record, authority_.Issue("north", Role::kAggregator)))),
              HasSubstr("no coordinator"));
  const TestAuthority another("Another study");
  EXPECT_THAT(ErrorOf(Check(Signed(record, another.Issue("study.example", Role::kCoordinator)))),
              HasSubstr("a certificate that does not count"));
  // The certificate of one and the key of another.
  const TestAuthority::Holder second = authority_.Issue("second.example", Role::kCoordinator);
  ASSERT_OK_AND_ASSIGN(const std::string mixed, Sign(record, second.key.get(), coordinator_.certificate.Pem()));
  EXPECT_FALSE(Check(mixed).ok());
  record.made_ms = (kHarnessNow + 2 * kSecondsPerDay) * 1000;
  EXPECT_THAT(ErrorOf(Check(Signed(record, coordinator_))), HasSubstr("a certificate that does not count"));
}

}  // namespace
}  // namespace rivulet::records
