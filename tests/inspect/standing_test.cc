// The audit's statements about runs and clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/sha256.h"
#include "inspect/client_standing.h"
#include "inspect/pauses.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

class StandingTest : public testing::FolderTest {
 protected:
  void SetUp() override {
    auto opened = History::Open(Path("history.sqlite"), History::Access::kReadWrite);
    ASSERT_OK(opened.status());
    history_ = *std::move(opened);
    RunRow run{.run_id = "r1",
               .name = "demo",
               .status = "running",
               .config = "[run]\n",
               .created_at = Iso8601(1),
               .started_at = Iso8601(1)};
    run.plan_digest = Sha256Of("plan").Hex();
    ASSERT_OK(history_->AddRun(run, {"r1", 0, Sha256Of("0").Hex(), "", 100, 10}, {}));
  }
  void Audit(int64_t at, const std::string& action, const std::string& reason = "") {
    ASSERT_OK(history_->AddAudit(
        {.at = Iso8601(at), .operator_id = "alice", .action = action, .run_id = "r1", .detail = reason}));
  }
  size_t Paused() {
    const auto paused = PausedRuns(*history_);
    EXPECT_TRUE(paused.ok());
    return paused.ok() ? paused->size() : 99;
  }
  std::unique_ptr<History> history_;
};

TEST_F(StandingTest, PausedRuns_UntilItIsResumedOrEnded) {
  EXPECT_EQ(Paused(), 0u);
  Audit(10, "pause", "maintenance");
  const auto paused = PausedRuns(*history_);
  ASSERT_TRUE(paused.ok() && paused->contains("r1"));
  EXPECT_EQ(paused->at("r1").Text(), "paused by alice: maintenance");
  Audit(20, "resume");
  EXPECT_EQ(Paused(), 0u);
  Audit(30, "pause");
  EXPECT_EQ(Paused(), 1u);
  Audit(40, "stop");
  EXPECT_EQ(Paused(), 0u);
}

TEST_F(StandingTest, PausedRuns_NotOneThatWasResumedFromItsHistory) {
  Audit(10, "pause");
  EventRow event{
      .run_id = "r1", .at = Iso8601(5), .level = "info", .source = "coordinator", .message = "resumed after round 3"};
  ASSERT_OK(history_->AddEvents(std::span(&event, 1)));
  EXPECT_EQ(Paused(), 1u) << "it was resumed before that";
  event.at = Iso8601(11);
  ASSERT_OK(history_->AddEvents(std::span(&event, 1)));
  EXPECT_EQ(Paused(), 0u);
}

TEST_F(StandingTest, StandingOf_IsTheNewestDecision) {
  auto standing = StandingOf(*history_, "clinic");
  ASSERT_OK(standing.status());
  EXPECT_EQ(standing->status, "active");
  EXPECT_FALSE(standing->decided());
  ASSERT_OK(history_->DecideClient({.at = "2026-11-28T12:00:00.000Z",
                                    .operator_id = "alice",
                                    .action = "ban",
                                    .client_id = "clinic",
                                    .detail = "wrong scanner"}));
  standing = StandingOf(*history_, "clinic");
  ASSERT_OK(standing.status());
  EXPECT_EQ(standing->Text(), "banned by alice on 2026-11-28: wrong scanner");
  ASSERT_OK(history_->DecideClient(
      {.at = "2026-11-29T12:00:00.000Z", .operator_id = "bob", .action = "approve", .client_id = "clinic"}));
  standing = StandingOf(*history_, "clinic");
  ASSERT_OK(standing.status());
  EXPECT_EQ(standing->Text(), "approved by bob on 2026-11-29");
}

}  // namespace
}  // namespace rivulet
