// Records of a run's versions: one chain, whoever works for the run and however often it is resumed, signed where the
// coordinator has a certificate, and not continued where somebody has changed it.
#include <gmock/gmock.h>

#include "federated/records/signed_record.h"
#include "test_run.h"
#include "tests/testing/secure_identities.h"
#include "tests/testing/status_matchers.h"
#include "tiny_sites.h"
#include "whole_chain.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kElements = 3, kRecordedClients = 4, kRecordedCohort = 2;

class RecordsTest : public ::testing::Test {
 protected:
  CoordinatorOptions Options(int64_t rounds) {
    CoordinatorOptions options;
    options.scenario = TinyScenario(kRecordedClients, kRecordedCohort, rounds);
    options.scenario.run.keep_models = "all";
    options.db_path = folder_.db();
    return options;
  }
  Status Run(CoordinatorOptions options, RunParts parts = TinyParts(kElements, kRecordedCohort)) {
    return RunTiny(std::move(options), std::move(parts), kRecordedClients).status();
  }
  Status Resume(int64_t rounds) {
    CoordinatorOptions options = Options(rounds);
    options.resume = "latest";
    return Run(std::move(options));
  }
  void ExpectChain(int64_t versions) {
    const auto history = Open();
    ExpectWholeChain(*history, Value(history->ResolveRun("latest")), versions);
  }
  std::vector<records::SignedRecord> Records() {
    std::vector<records::SignedRecord> read;
    const auto history = Open();
    for (const RecordRow& row : Value(history->Records(Value(history->ResolveRun("latest")).run_id))) {
      std::string signature;
      for (size_t i = 0; i < row.signature.size(); i += 2) {
        signature += static_cast<char>(std::stoi(row.signature.substr(i, 2), nullptr, 16));
      }
      read.push_back(Value(records::SignedRecordOf(row.record, signature, row.certificate)));
    }
    return read;
  }
  void Change(const std::string& sql) {
    ASSERT_OK_AND_ASSIGN(const auto db, Database::Open(folder_.db(), Database::Access::kReadWrite));
    ASSERT_OK(db->Script(sql));
  }
  std::unique_ptr<History> Open() { return *History::Open(folder_.db(), History::Access::kReadOnly); }

  TestFolder folder_;
};

TEST_F(RecordsTest, OfUploads_HaveTheirIdentities) {
  ASSERT_OK(Run(Options(3)));
  ExpectChain(3);
  const auto records = Records();
  EXPECT_FALSE(records[0].record.has_receipts) << "version 0 has no updates";
  EXPECT_EQ(records[0].record.updates, 0);
  EXPECT_TRUE(records[3].record.has_receipts);
  EXPECT_EQ(records[3].record.updates, kRecordedCohort);
  EXPECT_EQ(records[3].record.privacy, std::nullopt);
  EXPECT_EQ(records[3].signature, "");
}

TEST_F(RecordsTest, OfUpdatesThatWereHandedOver_SayThatTheyHaveNone) {
  ASSERT_OK(RunTinySite(Options(3), TinyParts(kElements, kRecordedCohort), kRecordedClients, SitePlace::kThisProcess));
  ExpectChain(3);
  EXPECT_FALSE(Records()[3].record.has_receipts);
  EXPECT_EQ(Records()[3].record.updates, kRecordedCohort);
}

TEST_F(RecordsTest, AResumedRun_ContinuesItsChain) {
  ASSERT_OK(Run(Options(2)));
  const auto before = Records();
  ASSERT_OK(Resume(4));
  ExpectChain(4);
  const auto after = Records();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i].text, before[i].text);
  ASSERT_OK(Resume(4));
  EXPECT_EQ(Records().size(), 5u) << "a finished run makes none";
}

// As an earlier program left it.
TEST_F(RecordsTest, ARunWithoutRecords_BeginsItsChainWhereItIsResumed) {
  ASSERT_OK(Run(Options(2)));
  Change("DELETE FROM record; DELETE FROM blob WHERE name = 'configuration'");
  ASSERT_OK(Resume(4));
  const auto records = Records();
  ASSERT_EQ(records.size(), 3u);
  records::RecordChain chain;
  for (const auto& [text, record, digest, signature, certificate] : records) ASSERT_OK(chain.Add(record, digest));
  EXPECT_EQ(records[0].record.version, 2);
  EXPECT_EQ(records[0].record.previous, std::nullopt);
  EXPECT_EQ(records[2].record.version, 4);
}

TEST_F(RecordsTest, AChangedChain_IsNotContinued) {
  ASSERT_OK(Run(Options(3)));
  Change("UPDATE record SET record = replace(record, '\"updates\":2', '\"updates\":1') WHERE round = 1");
  EXPECT_THAT(Resume(4), StatusIs(absl::StatusCode::kDataLoss,
                                  HasSubstr("were changed, and no record can follow them: the records of run")));
  EXPECT_THAT(ErrorOf(Resume(4)), HasSubstr("break at version 2: its \"previous\" is"));
}

TEST_F(RecordsTest, ADroppedRecord_IsNotPassedOver) {
  ASSERT_OK(Run(Options(3)));
  Change("DELETE FROM record WHERE round = 3");
  EXPECT_THAT(Resume(4), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the newest record of run")));
  Change("DELETE FROM record WHERE round = 1");
  EXPECT_THAT(Resume(4), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("its \"version\" is 2, and 1 was expected")));
}

TEST_F(RecordsTest, AChangedConfiguration_IsNamed) {
  ASSERT_OK(Run(Options(2)));
  Change("UPDATE blob SET bytes = CAST('other' AS BLOB) WHERE name = 'configuration'");
  EXPECT_THAT(ErrorOf(Resume(4)), HasSubstr("the configuration that run"));
}

TEST_F(RecordsTest, ALostModel_TakesItsRecordWithIt) {
  ASSERT_OK(Run(Options(3)));
  const auto before = Records();
  const std::string run_id = before[0].record.run;
  std::filesystem::remove(folder_.db() + ".models/" + run_id + "/round-000003.safetensors");
  CoordinatorOptions options = Options(4);
  options.scenario.run.keep_models = "latest";
  options.resume = "latest";
  ASSERT_OK(Run(std::move(options)));
  const auto after = Records();
  ASSERT_EQ(after.size(), 5u);
  EXPECT_EQ(after[2].text, before[2].text);
  EXPECT_EQ(after[3].record.model, before[3].record.model);
}

TEST_F(RecordsTest, OfACoordinatorWithACertificate_AreSignedByIt) {
  const testing::TestAuthority authority;
  CoordinatorOptions options = Options(2);
  options.now_ms = [] { return testing::kHarnessNow * 1000; };
  options.identity = [identity = testing::IdentityOf(authority, "study.example", Role::kCoordinator)] {
    return identity;
  };
  ASSERT_OK(Run(options));
  ExpectChain(2);
  for (const auto& record : Records()) EXPECT_OK(records::CheckSigned(record, authority.certificate()));
  EXPECT_THAT(ErrorOf(records::CheckSigned(Records()[1], testing::TestAuthority("Another").certificate())),
              HasSubstr("has a certificate that does not count"));
}

TEST_F(RecordsTest, OfASimulation_AreNotSigned_EvenWithCertificates) {
  CoordinatorOptions options = Options(2);
  options.enforce_deadline = false;
  options.identity = [identity = testing::IdentityOf(testing::SharedAuthority(), "study.example", Role::kCoordinator)] {
    return identity;
  };
  ASSERT_OK(Run(options));
  EXPECT_EQ(Records()[2].signature, "");
}

TEST_F(RecordsTest, OfAPrivateRun_SayWhatWasSpent_AndWhichKeyHidIt) {
  for (const bool seeded : {false, true}) {
    TestFolder folder;
    CoordinatorOptions options = Options(2);
    options.db_path = folder.db();
    options.scenario.privacy.clip = 1;
    RunParts parts = TinyParts(kElements, kRecordedCohort);
    parts.aggregation.parts[0].weigh = "one";
    parts.aggregation.parts[0].value_bits = 25;
    parts.aggregation.parts[0].denominator = {.kind = Denominator::Kind::kConstant, .constant = kRecordedCohort};
    parts.noise = {.multiplier = 2, .clip = 1, .seeded = seeded};
    ASSERT_OK(RunTiny(options, parts, kRecordedClients).status());
    const auto history = *History::Open(folder.db(), History::Access::kReadOnly);
    const RunRow run = Value(history->ResolveRun("latest"));
    const RoundRow round = Value(history->Rounds(run.run_id)).at(1);
    const auto record = Value(records::ReadVersionRecord(Value(history->Records(run.run_id)).at(2).record));
    ASSERT_TRUE(record.privacy);
    EXPECT_EQ(record.privacy->mechanism, "discrete-gaussian");
    EXPECT_EQ(record.privacy->epsilon, round.epsilon);
    EXPECT_EQ(record.privacy->delta, round.delta);
    EXPECT_EQ(record.privacy->parameters.at("noise_multiplier"), round.noise_multiplier);
    EXPECT_EQ(record.privacy->parameters.at("clip"), 1);
    EXPECT_EQ(record.privacy->relation, "replace-one");
    EXPECT_EQ(record.privacy->noise_key.has_value(), !seeded) << "a digest of a seeded key would give the seed away";
    if (seeded) continue;
    const std::string key = Value(FileSystem::Default().ReadAll(folder.db() + ".models/" + run.run_id + "/noise.key"));
    EXPECT_EQ(key.find(record.privacy->noise_key->AsBytes()), key.npos);
  }
}

}  // namespace
}  // namespace rivulet
