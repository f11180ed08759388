#include "client/training/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error_facts.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What leaves a client, as whoever receives it reads it.
std::string Told(const Status& status) { return SentenceOf(FailureOf("task", status)); }

TEST(FailureTest, FactsAndReasons_LeaveAndSentencesDoNot) {
  const Status secret = InvalidArgument("/home/ann/x-rays.tfrecord: record 7 at byte 120: 'label' is 42");
  EXPECT_EQ(Told(secret), "it cannot be done there; the client's log has the reason");
  const Status of_record = WithFact(secret, kRecordFact, "7");
  EXPECT_EQ(Told(of_record), "its record 7 cannot be used");
  EXPECT_EQ(Told(WithFact(of_record, kFeatureFact, "label")), "feature 'label' of its record 7 cannot be used");
  EXPECT_EQ(Told(WithFact(secret, kFeatureFact, "label")), "feature 'label' of its data cannot be used");
  EXPECT_EQ(Told(WithFact(secret, kOpFact, "Gather 'rows'")),
            "the plan cannot be carried out there: Gather 'rows' fails");
  EXPECT_EQ(Told(WithReason(secret, TaskFailure::Code::kBadPlan)), "the plan cannot be carried out there");
  EXPECT_EQ(Told(WithReason(secret, TaskFailure::Code::kNotWilling, "only portable kernels")),
            "its own configuration forbids it: only portable kernels");
  EXPECT_EQ(Told(WithReason(secret, TaskFailure::Code::kRaised, "fit (ValueError at train.py:31)")),
            "its own code failed: fit (ValueError at train.py:31)");
  EXPECT_EQ(Told(WithReason(secret, TaskFailure::Code::kRaised)), "its own code failed: its log has the details");
  EXPECT_EQ(Told(WithReason(secret, TaskFailure::Code::kNoExamples, "train")),
            "it has no examples in a data set 'train'");
}

TEST(FailureTest, ReasonAndFactsGoUpWithTheError) {
  const Status inner = WithReason(InvalidArgument("no"), TaskFailure::Code::kUnimplemented, "how to fly");
  const Status outer = WithReason(Annotate(inner, "the plan"), TaskFailure::Code::kBadPlan);
  EXPECT_EQ(outer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FailureOf("task", outer).code, TaskFailure::Code::kUnimplemented) << "the first one knows best";
  EXPECT_EQ(FailureOf("task", outer).subject, "how to fly");
  EXPECT_EQ(WithReason(absl::OkStatus(), TaskFailure::Code::kBadPlan), absl::OkStatus());
  EXPECT_EQ(WithFact(absl::OkStatus(), kOpFact, "x"), absl::OkStatus());
}

TEST(FailureTest, SubjectsOfStrangers_AreCleanedAndCut) {
  const TaskFailure hostile{.task = "task",
                            .code = TaskFailure::Code::kBadExample,
                            .subject = "\x1B]0;owned\x07\n" + std::string(10'000, 'x'),
                            .counts = {{"record", -1}, {"noise", 7}}};
  EXPECT_THAT(SentenceOf(hostile), HasSubstr("feature '?]0;owned??xxx"));
  EXPECT_THAT(SentenceOf(hostile), Not(HasSubstr("noise")));
  EXPECT_LT(SentenceOf(hostile).size(), 300u);
}

}  // namespace
}  // namespace rivulet
