// A proof: what a third party checks of a run, each file of it changed, cut off and left out.
#include "federated/records/proof.h"

#include <gmock/gmock.h>

#include <fstream>
#include <functional>

#include "engine/io/safetensors.h"
#include "federated/records/merkle_tree.h"
#include "federated/weights/file_digest.h"
#include "tests/federated/secure/test_authority.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::records {
namespace {

using rivulet::testing::ErrorOf;
using rivulet::testing::kHarnessNow;
using rivulet::testing::StatusIs;
using rivulet::testing::TempFolder;
using rivulet::testing::TestAuthority;
using ::testing::HasSubstr;

constexpr int64_t kVersions = 3;

// A file of four numbers, and of what a server keeps beside them.
std::string ModelFileOf(int64_t version, const std::string& record) {
  const std::vector<float> values(4, static_cast<float>(version)), kept(4, 7);
  const SafetensorsEntry tensors[] = {{"w", DType::kFloat32, Shape{2, 2}, std::as_bytes(std::span(values))},
                                      {"server/m", DType::kFloat32, Shape{4}, std::as_bytes(std::span(kept))}};
  return SerializeSafetensors(
             tensors, {{"rivulet.record", record}, {"rivulet.segments", R"({"w":"trainable","server/m":"server"})"}})
      .value();
}

Digest ModelOf(int64_t version) {
  const std::string bytes = ModelFileOf(version, "");
  return ModelDigestOf(ParseSafetensors(bytes).value()).value();
}

class ProofTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RecordChain chain;
    for (int64_t version = 0; version <= kVersions; ++version) {
      VersionRecord record = {.run = "heart",
                              .made_ms = kHarnessNow * 1000,
                              .program = "0.2.0",
                              .plan = Sha256Of("the plan"),
                              .configuration = Sha256Of("scenario"),
                              .model = ModelOf(version)};
      chain.Continue(record);
      VersionLeaves leaves = {.version = version, .leaves = {}};
      for (int64_t i = 0; version > 0 && i < 3; ++i) {
        leaves.leaves.push_back(LeafOf(fmt::format("heart-r{}-a1-c{}-0", version, i), Sha256Of(fmt::format("{}", i))));
      }
      record.updates = std::ssize(leaves.leaves);
      record.updates_root = MerkleTree(leaves.leaves).root();
      record.has_receipts = version > 0;
      ASSERT_OK_AND_ASSIGN(const std::string envelope,
                           Sign(record, coordinator_.key.get(), coordinator_.certificate.Pem()));
      ASSERT_OK(chain.Add(record, DigestOf(Write(record))));
      Append(kProofRecords, envelope + "\n");
      if (version > 0) Append(kProofUpdates, Write(leaves) + "\n");
      models_.push_back(ModelFileOf(version, chain.head().Hex()));
    }
    head_ = chain.head().Hex();
    Append(kProofPlan, "the plan");
    ASSERT_OK(fs_.CreateFolders(folder_.File(kProofModels)));
    Append("models/round-000003.safetensors", models_.back());
  }
  void Append(const std::string& name, std::string_view bytes) {
    std::string before;
    if (fs_.Exists(folder_.File(name))) before = fs_.ReadAll(folder_.File(name)).value();
    Replace(name, before + std::string(bytes));
  }
  void Replace(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.File(name), std::ios::binary) << bytes;
  }
  std::string Read(const std::string& name) { return fs_.ReadAll(folder_.File(name)).value(); }
  StatusOr<ProofReport> Check(bool with_authority = true, std::string_view head = "") {
    return CheckProof(fs_, folder_.path(), with_authority ? &authority_.certificate() : nullptr, head);
  }
  // That of a file with a change, which is taken back.
  std::string ErrorWith(const std::string& name, const std::function<void(std::string&)>& change) {
    const std::string before = Read(name);
    std::string changed = before;
    change(changed);
    Replace(name, changed);
    const std::string error = ErrorOf(Check());
    Replace(name, before);
    return error;
  }

  const TestAuthority authority_;
  const TestAuthority::Holder coordinator_ = authority_.Issue("study.example", Role::kCoordinator);
  FileSystem& fs_ = FileSystem::Default();
  const TempFolder folder_;
  std::vector<std::string> models_;  // by version
  std::string head_;
};

TEST_F(ProofTest, OfAWholeRun_IsGood) {
  ASSERT_OK_AND_ASSIGN(const ProofReport report, Check(true, head_));
  EXPECT_EQ(report.run, "heart");
  EXPECT_EQ(report.records, kVersions + 1);
  EXPECT_EQ(report.signatures, kVersions + 1);
  EXPECT_EQ(report.versions_with_updates, kVersions);
  EXPECT_EQ(report.models, 1);
  EXPECT_EQ(report.newest, kVersions);
  EXPECT_EQ(report.head, head_);
  EXPECT_EQ(report.signer, "coordinator/study.example");
  EXPECT_THAT(report.unchecked, ::testing::ElementsAre("3 of 4 models are not in the folder"));
}

TEST_F(ProofTest, WhatWasNotChecked_IsSaid) {
  ASSERT_OK(fs_.Remove(folder_.File(kProofPlan)));
  ASSERT_OK(fs_.Remove(folder_.File(kProofUpdates)));
  ASSERT_OK_AND_ASSIGN(const ProofReport report, Check(false));
  const std::string all = fmt::format("{}", fmt::join(report.unchecked, "\n"));
  EXPECT_THAT(all, HasSubstr("without a head that somebody has kept"));
  EXPECT_THAT(all, HasSubstr("no authority was given"));
  EXPECT_THAT(all, HasSubstr("3 of 3 versions are without the leaves"));
  EXPECT_THAT(all, HasSubstr("the plan is not in the folder"));
}

TEST_F(ProofTest, EachChange_IsNamedWithItsFile) {
  const auto flip = [](std::string& bytes) { bytes[bytes.size() - 2] ^= 1; };
  EXPECT_THAT(ErrorWith(kProofRecords, flip), HasSubstr("records.jsonl:4: "));
  EXPECT_THAT(ErrorWith(kProofRecords, [](std::string& bytes) { bytes.erase(0, bytes.find('\n') + 1); }),
              HasSubstr("records.jsonl:1: the records of run 'heart' break at version 1: its \"previous\""));
  EXPECT_THAT(ErrorWith(kProofRecords, [](std::string& bytes) { bytes.pop_back(); }), HasSubstr("was cut off"));
  EXPECT_THAT(ErrorWith(kProofRecords, [](std::string& bytes) { bytes.clear(); }), HasSubstr("it has no record"));
  EXPECT_THAT(ErrorWith(kProofUpdates, [](std::string& bytes) { bytes.replace(bytes.find("leaves") + 11, 1, "x"); }),
              HasSubstr("updates.jsonl:1: "));
  EXPECT_THAT(ErrorWith(kProofUpdates,
                        [](std::string& bytes) {
                          char& digit = bytes[bytes.find("leaves") + 12];
                          digit = digit == '0' ? '1' : '0';
                        }),
              HasSubstr("updates.jsonl:1: the leaves of version 1 have the root"));
  EXPECT_THAT(ErrorWith(kProofUpdates,
                        [](std::string& bytes) { bytes.replace(bytes.find("\"version\":1"), 11, "\"version\":9"); }),
              HasSubstr("there is no record of version 9"));
  EXPECT_THAT(ErrorWith(kProofPlan, flip), HasSubstr("plan: its digest is"));
  const std::string model = "models/round-000003.safetensors";
  const size_t of_model = models_.back().size() - 2 * 16 + 1;  // behind the model are 16 bytes that the server keeps
  EXPECT_THAT(ErrorWith(model, [&](std::string& bytes) { bytes[of_model] ^= 1; }),
              HasSubstr("its model has the digest"));
  EXPECT_THAT(ErrorWith(model, [&](std::string& bytes) { bytes = ModelFileOf(3, Digest().Hex()); }),
              HasSubstr("which is the digest of no record"));
  EXPECT_THAT(ErrorWith(model, [&](std::string& bytes) { bytes.resize(20); }), HasSubstr("models/round-000003"));
  EXPECT_OK(Check());
}

TEST_F(ProofTest, AChainThatWasCut_IsFoundByTheHead) {
  std::string records = Read(kProofRecords), updates = Read(kProofUpdates);
  records.resize(records.rfind('\n', records.size() - 2) + 1);
  updates.resize(updates.rfind('\n', updates.size() - 2) + 1);
  Replace(kProofRecords, records);
  Replace(kProofUpdates, updates);
  ASSERT_OK(fs_.Remove(folder_.File("models/round-000003.safetensors")));
  EXPECT_OK(Check());
  EXPECT_THAT(Check(true, head_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the newest record has the digest")));
}

TEST_F(ProofTest, OfAnotherAuthority_IsRefused) {
  const TestAuthority another("Another study");
  EXPECT_THAT(
      ErrorOf(CheckProof(fs_, folder_.path(), &another.certificate(), "")),
      HasSubstr("records.jsonl:1: the record of version 0 of run 'heart' has a certificate that does not count"));
}

TEST_F(ProofTest, AFolderWithoutOne_IsNamed) {
  const TempFolder empty;
  EXPECT_THAT(CheckProof(fs_, empty.path(), nullptr, ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("holds no proof: it has no records.jsonl")));
}

}  // namespace
}  // namespace rivulet::records
