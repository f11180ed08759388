#include "engine/program/lane_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Loop {
  int64_t batch_size = 0, epochs = 0, max_steps = 0;
};

int64_t StepsOf(const Loop& pass, int64_t size) {
  return rivulet::StepsOf(size, pass.batch_size, pass.epochs, pass.max_steps);
}

std::vector<LaneWork> WorkOf(const Loop& pass, std::initializer_list<int64_t> sizes) {
  std::vector<LaneWork> lanes;
  for (const int64_t size : sizes) lanes.push_back({size, StepsOf(pass, size)});
  return lanes;
}

TEST(LaneScheduleTest, EqualSizes_AreOneGroupAndOneRest) {
  const Loop pass{10, 2};
  auto lanes = WorkOf(pass, {25, 25});
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(NextEpoch(lanes, 10), ElementsAre(LaneGroup{10, {0, 1}, 2}, LaneGroup{5, {0, 1}, 1}));
  }
  EXPECT_THAT(NextEpoch(lanes, 10), IsEmpty());
}

TEST(LaneScheduleTest, DescendingSizes_MakeGroupsOfTheFirstLanes) {
  const Loop pass{10, 1};
  auto lanes = WorkOf(pass, {40, 31, 12, 10, 7});
  EXPECT_THAT(NextEpoch(lanes, 10),
              ElementsAre(LaneGroup{10, {0, 1, 2, 3}, 1}, LaneGroup{10, {0, 1}, 2}, LaneGroup{10, {0}, 1},
                          LaneGroup{7, {4}, 1}, LaneGroup{2, {2}, 1}, LaneGroup{1, {1}, 1}));
}

TEST(LaneScheduleTest, FewerExamplesThanABatch_AreOneWholeBatch) {
  const Loop pass{10, 1};
  auto lanes = WorkOf(pass, {3, 3});
  EXPECT_THAT(NextEpoch(lanes, 10), ElementsAre(LaneGroup{3, {0, 1}, 1}));
}

TEST(LaneScheduleTest, MostSteps_EndTheEpochWhereTheyAreTaken) {
  const Loop pass{10, 5, 3};
  auto lanes = WorkOf(pass, {25, 60, 10});
  EXPECT_THAT(NextEpoch(lanes, 10), ElementsAre(LaneGroup{10, {0, 1, 2}, 1}, LaneGroup{10, {0, 1}, 1},
                                                LaneGroup{10, {1}, 1}, LaneGroup{5, {0}, 1}));
  EXPECT_THAT(NextEpoch(lanes, 10), ElementsAre(LaneGroup{10, {2}, 1}));
  EXPECT_THAT(NextEpoch(lanes, 10), ElementsAre(LaneGroup{10, {2}, 1}));
  EXPECT_THAT(NextEpoch(lanes, 10), IsEmpty());
}

// Property: whatever the sizes, each client's steps are those of its own loop, in its order.
TEST(LaneScheduleTest, AnySizes_GiveEachClientItsOwnSteps) {
  for (const int64_t max_steps : {int64_t{0}, int64_t{1}, int64_t{4}, int64_t{9}}) {
    const Loop pass{4, 3, max_steps};
    auto lanes = WorkOf(pass, {1, 17, 4, 3, 8, 30, 5});
    const std::vector<LaneWork> all = lanes;
    std::map<int32_t, std::vector<int64_t>> steps;
    for (;;) {
      const std::vector<LaneGroup> epoch = NextEpoch(lanes, pass.batch_size);
      if (epoch.empty()) break;
      for (const LaneGroup& group : epoch) {
        for (int64_t i = 0; i < group.times; ++i) {
          for (const int32_t lane : group.lanes) steps[lane].push_back(group.batch_size);
        }
      }
    }
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<int64_t> own;
      for (int64_t epoch = 0; epoch < pass.epochs; ++epoch) {
        for (int64_t seen = 0; seen < all[i].size && (max_steps == 0 || std::ssize(own) < max_steps);) {
          own.push_back(std::min(std::min<int64_t>(4, all[i].size), all[i].size - seen));
          seen += own.back();
        }
      }
      EXPECT_EQ(steps[static_cast<int32_t>(i)], own) << all[i].size << " examples, " << max_steps;
      EXPECT_EQ(StepsOf(pass, all[i].size), std::ssize(own));
    }
  }
}

}  // namespace
}  // namespace rivulet
