#include "serving/pointed_names.h"

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

PointerRow Said(const std::string& label, int64_t version, bool rolled_back = false, double share = 0) {
  return {.name = "mnist",
          .label = label,
          .run_id = "run",
          .round = version * 10,
          .digest = "d",
          .plan_digest = "p",
          .version = version,
          .share = share,
          .rolled_back = rolled_back};
}

// The version that a step back gives, and the rows with it.
int64_t Back(std::vector<PointerRow>& rows, const std::string& label = "stable") {
  const auto row = StepBack(rows, "mnist", label);
  if (!row.ok()) return -1;
  rows.push_back(*row);
  return row->version;
}

TEST(PointedNames, NamesOf_NewestRowCounts) {
  const auto names =
      NamesOf({Said("stable", 1), Said("canary", 2, false, 5), Said("stable", 3), Said("canary", 2, false, 20)});
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.at("mnist").labels.at("stable").target.version, 3);
  EXPECT_EQ(names.at("mnist").labels.at("canary").share, 20);
}

TEST(PointedNames, StepBack_TwiceIsTwoStepsBack) {
  std::vector<PointerRow> rows = {Said("stable", 1), Said("stable", 2), Said("stable", 3)};
  EXPECT_EQ(Back(rows), 2);
  EXPECT_EQ(Back(rows), 1);
  EXPECT_EQ(Back(rows), -1);
}

TEST(PointedNames, StepBack_AfterANewTarget_LeadsToTheOneBeforeIt) {
  std::vector<PointerRow> rows = {Said("stable", 1), Said("stable", 2)};
  EXPECT_EQ(Back(rows), 1);
  rows.push_back(Said("stable", 3));
  EXPECT_EQ(Back(rows), 1);
}

TEST(PointedNames, StepBack_OfOneLabel_LeavesTheOthers) {
  std::vector<PointerRow> rows = {Said("stable", 1), Said("canary", 2), Said("stable", 3), Said("canary", 4)};
  EXPECT_EQ(Back(rows, "canary"), 2);
  EXPECT_EQ(NamesOf(rows).at("mnist").labels.at("stable").target.version, 3);
}

TEST(PointedNames, StepBack_NothingThere_SaysWhat) {
  const std::vector<PointerRow> rows = {Said("stable", 1)};
  EXPECT_THAT(StepBack(rows, "mnist", "stable").status(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(StepBack(rows, "mnits", "stable").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("mnist")));
  EXPECT_THAT(StepBack(rows, "mnist", "stabel").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("stable")));
}

TEST(PointedNames, KeptTargets_NewestTwoOfEachLabel) {
  std::vector<int64_t> kept;
  for (const PointedVersion& version :
       KeptTargets({Said("stable", 1), Said("stable", 2), Said("stable", 3), Said("canary", 4),
                    Said("canary", 4, false, 20), Said("canary", 5)}))
    kept.push_back(version.version);
  EXPECT_THAT(kept, ::testing::UnorderedElementsAre(2, 3, 4, 5));
}

TEST(PointedNames, CheckLabel_NumbersAndOddCharacters_AreRefused) {
  EXPECT_OK(CheckLabel("stable"));
  EXPECT_OK(CheckLabel("v1.2"));
  for (const char* const wrong : {"", "12", "a b", "a/b", "ä", "..\n"})
    EXPECT_THAT(CheckLabel(wrong), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong;
  EXPECT_THAT(CheckServedName(std::string(129, 'a')), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(CheckServedName("12"));
}

}  // namespace
}  // namespace rivulet
