#include "client/calls/send_submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;

constexpr int64_t kBlock = BlockCrcs::kBlockBytes;

// Holds one submission's bytes between calls, whole blocks of them, as a coordinator does.
class Stage : public CoordinatorApi {
 public:
  StatusOr<PollReply> Poll(const PollRequest&) override { return Unimplemented("not asked here"); }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    return Unimplemented("not asked here");
  }
  Status Fail(const Caller&, const TaskFailure&) override { return Unimplemented("not asked here"); }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission&) override {
    class Writer : public ChunkWriter {
     public:
      explicit Writer(Stage& stage) : stage_(stage) {
        stage.bytes.resize(stage.bytes.size() / kBlock * kBlock);
        crcs_.Append(std::as_bytes(std::span(stage.bytes)));
      }
      const SubmitResult* decided() const override { return stage_.decided ? &*stage_.decided : nullptr; }
      std::span<const uint32_t> staged_crcs() const override { return crcs_.whole(); }
      void LiesIn(std::shared_ptr<const void> holder) override { stage_.holders.push_back(std::move(holder)); }
      Status Resume(int64_t offset) override {
        stage_.resumed.push_back(offset);
        stage_.bytes.resize(static_cast<size_t>(offset));
        return absl::OkStatus();
      }
      Status Write(std::span<const std::byte> chunk) override {
        if (std::ssize(stage_.bytes) + std::ssize(chunk) > stage_.cut_at) return Unavailable("cut");
        stage_.bytes.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
        return absl::OkStatus();
      }
      StatusOr<SubmitResult> Finish(const Digest& identity) override {
        BlockCrcs crcs;
        crcs.Append(std::as_bytes(std::span(stage_.bytes)));
        return crcs.Identity(0) == identity ? StatusOr<SubmitResult>(SubmitResult{}) : DataLoss("another");
      }

     private:
      Stage& stage_;
      BlockCrcs crcs_;
    };
    return std::make_unique<Writer>(*this);
  }
  std::string bytes;
  std::vector<int64_t> resumed;
  std::vector<std::shared_ptr<const void>> holders;
  int64_t cut_at = INT64_MAX;
  std::optional<SubmitResult> decided;
};

class SendSubmissionTest : public ::testing::Test {
 protected:
  StatusOr<SubmitResult> Send(const std::string& bytes, SendOptions options = {}) {
    BlockCrcs crcs;
    crcs.Append(std::as_bytes(std::span(bytes)));
    return SendSubmission(stage_, {.name = "a"}, {"task", 0, std::ssize(bytes)}, std::as_bytes(std::span(bytes)), crcs,
                          options);
  }
  static std::string Pattern(int64_t count) {
    std::string bytes(static_cast<size_t>(count), '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 2654435761u) >> 13);
    return bytes;
  }
  Stage stage_;
  const std::string update_ = Pattern(3 * kBlock + 77);
};

TEST_F(SendSubmissionTest, CutInAnyBlock_GoesOnAfterTheWholeOnes) {
  for (int64_t cut = 1; cut < std::ssize(update_); cut += 700'001) {
    stage_ = Stage{};
    stage_.cut_at = cut;
    EXPECT_THAT(Send(update_, {.chunk_bytes = 100'000}), StatusIs(absl::StatusCode::kUnavailable));
    stage_.cut_at = INT64_MAX;
    EXPECT_OK(Send(update_));
    EXPECT_TRUE(stage_.bytes == update_) << cut;
    EXPECT_THAT(stage_.resumed, ElementsAre(0, cut / 100'000 * 100'000 / kBlock * kBlock));
  }
}

TEST_F(SendSubmissionTest, OneByteOfTheSecondBlockIsWrong_OnlyTheFirstIsNotSentAgain) {
  stage_.bytes = update_;
  stage_.bytes[kBlock + 9] ^= 1;
  EXPECT_OK(Send(update_));
  EXPECT_THAT(stage_.resumed, ElementsAre(kBlock));
  EXPECT_TRUE(stage_.bytes == update_);
}

TEST_F(SendSubmissionTest, MoreIsStagedThanThisUpdateHas_IsDropped) {
  stage_.bytes = update_;
  EXPECT_OK(Send(update_.substr(0, kBlock + 1)));
  EXPECT_THAT(stage_.resumed, ElementsAre(kBlock));
}

TEST_F(SendSubmissionTest, Decided_SendsNothing) {
  stage_.decided = SubmitResult{SubmitResult::Kind::kDuplicate, ""};
  EXPECT_EQ(Send(update_)->kind, SubmitResult::Kind::kDuplicate);
  EXPECT_TRUE(stage_.resumed.empty());
}

TEST_F(SendSubmissionTest, Holder_IsHandedToTheWriterOnceAndOnlyWhereThereIsOne) {
  EXPECT_OK(Send(update_));
  EXPECT_THAT(stage_.holders, ElementsAre());
  const std::shared_ptr<const void> holder = std::make_shared<int>();
  EXPECT_OK(Send(Pattern(5), {.holder = holder}));
  EXPECT_THAT(stage_.holders, ElementsAre(holder));
}

TEST_F(SendSubmissionTest, At_HearsEveryOffsetAndEndsTheCall) {
  std::vector<int64_t> offsets;
  EXPECT_OK(Send(update_.substr(0, 250), {.chunk_bytes = 100, .at = [&](int64_t offset) {
                                            offsets.push_back(offset);
                                            return absl::OkStatus();
                                          }}));
  EXPECT_THAT(offsets, ElementsAre(0, 100, 200, 250));
  EXPECT_THAT(Send(update_, {.at = [](int64_t) { return Cancelled("stopped"); }}),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace rivulet
