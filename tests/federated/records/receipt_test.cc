// Receipts and heads, as clients check them: an update that counted, a chain that was extended, and two that were
// shown.
#include "federated/records/receipt.h"

#include <gmock/gmock.h>

#include "tests/testing/status_matchers.h"

namespace rivulet::records {
namespace {

using rivulet::testing::ErrorOf;
using rivulet::testing::StatusIs;
using ::testing::HasSubstr;

// A chain of so many records, each with three updates; that of `fork` has other models from that version on.
std::vector<SignedRecord> ChainOf(int64_t records, int64_t fork = 1000) {
  RecordChain chain;
  std::vector<SignedRecord> made;
  for (int64_t version = 0; version < records; ++version) {
    VersionRecord record = {.run = "heart",
                            .made_ms = 1000,
                            .program = "0.2.0",
                            .model = Sha256Of(fmt::format("{} {}", version, version >= fork)),
                            .updates = 3,
                            .has_receipts = true};
    std::vector<Digest> leaves;
    for (int64_t i = 0; i < 3; ++i) leaves.push_back(LeafOf(fmt::format("t{}", i), Sha256Of(fmt::format("u{}", i))));
    record.updates_root = MerkleTree(leaves).root();
    chain.Continue(record);
    made.push_back(ReadSignedRecord(Unsigned(record)).value());
    EXPECT_OK(chain.Add(record, made.back().digest));
  }
  return made;
}

Receipt ReceiptOf(int64_t i) {
  std::vector<Digest> leaves;
  for (int64_t j = 0; j < 3; ++j) leaves.push_back(LeafOf(fmt::format("t{}", j), Sha256Of(fmt::format("u{}", j))));
  return {.task = fmt::format("t{}", i),
          .identity = Sha256Of(fmt::format("u{}", i)),
          .path = MerkleTree(leaves).PathOf(i),
          .record = ChainOf(2)[1]};
}

MerklePath PathOf(const std::vector<SignedRecord>& chain, int64_t known, int64_t newest) {
  std::vector<Digest> leaves;
  for (int64_t i = 0; i < newest; ++i) leaves.push_back(LeafOf(chain[static_cast<size_t>(i)].digest));
  return MerkleTree(leaves).PathOf(known);
}

TEST(Receipt, OfEachUpdate_IsGood_AndReadAsItWasWritten) {
  for (int64_t i = 0; i < 3; ++i) {
    const Receipt receipt = ReceiptOf(i);
    EXPECT_OK(CheckReceipt(receipt));
    ASSERT_OK_AND_ASSIGN(const std::string text, Write(receipt));
    ASSERT_OK_AND_ASSIGN(const Receipt read, ReadReceipt(text));
    EXPECT_EQ(read.task, receipt.task);
    EXPECT_EQ(read.identity, receipt.identity);
    EXPECT_EQ(read.path, receipt.path);
    EXPECT_EQ(read.record.digest, receipt.record.digest);
    EXPECT_FALSE(ReadReceipt(text + " ").ok());
  }
}

TEST(Receipt, OfAnotherUpdate_IsRefused) {
  const auto refused = [](const auto& change) {
    Receipt receipt = ReceiptOf(1);
    change(receipt);
    EXPECT_THAT(CheckReceipt(receipt),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("is not among the 3 of version 1 of run 'heart'")));
  };
  refused([](Receipt& receipt) { receipt.task = "t2"; });
  refused([](Receipt& receipt) { receipt.identity.bytes[0] ^= 1; });
  refused([](Receipt& receipt) { receipt.path.index = 0; });
  refused([](Receipt& receipt) { receipt.path.siblings.pop_back(); });
  refused([](Receipt& receipt) { receipt.path.siblings[0].bytes[5] ^= 1; });
  refused([](Receipt& receipt) { receipt.record.record.updates_root.bytes[0] ^= 1; });
}

TEST(Head, OfOneChain_ExtendsEachEarlierRecord) {
  const auto chain = ChainOf(20);
  for (int64_t newest = 0; newest < 20; ++newest) {
    for (int64_t known = 0; known <= newest; ++known) {
      Head head = {.record = chain[static_cast<size_t>(newest)], .path = {}};
      if (known < newest) head.path = PathOf(chain, known, newest);
      ASSERT_OK_AND_ASSIGN(const std::string text, Write(head));
      ASSERT_OK_AND_ASSIGN(const Head read, ReadHead(text));
      EXPECT_OK(CheckExtends(read, chain[static_cast<size_t>(known)]));
    }
  }
}

TEST(Head, OfAForkedOrShorterChain_IsRefusedWithASentence) {
  const auto chain = ChainOf(8), fork = ChainOf(8, 5);
  // A fork has the records before it in common.
  EXPECT_OK(CheckExtends({fork[7], PathOf(fork, 4, 7)}, chain[4]));
  const char* const sentence = "which was shown before: the run's history was replaced";
  EXPECT_THAT(ErrorOf(CheckExtends({fork[7], PathOf(fork, 5, 7)}, chain[5])), HasSubstr(sentence));
  EXPECT_THAT(ErrorOf(CheckExtends({fork[5], std::nullopt}, chain[5])), HasSubstr(sentence));
  EXPECT_THAT(ErrorOf(CheckExtends({chain[3], std::nullopt}, chain[5])), HasSubstr(sentence));
  EXPECT_THAT(ErrorOf(CheckExtends({chain[7], PathOf(chain, 4, 7)}, chain[5])), HasSubstr(sentence));
  EXPECT_THAT(ErrorOf(CheckExtends({chain[7], PathOf(chain, 5, 6)}, chain[5])), HasSubstr(sentence));
}

TEST(Heads, OfOneVersionThatDiffer_AreFound) {
  const auto chain = ChainOf(8), fork = ChainOf(8, 5);
  const std::vector<SignedRecord> same = {chain[2], chain[7], fork[2], chain[7]};
  EXPECT_FALSE(FindTwoHeads(same));
  const std::vector<SignedRecord> two = {chain[2], chain[6], fork[2], fork[6]};
  const auto found = FindTwoHeads(two);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->run, "heart");
  EXPECT_EQ(found->version, 6);
  EXPECT_EQ(found->first, 1u);
  EXPECT_EQ(found->second, 3u);
}

}  // namespace
}  // namespace rivulet::records
