// The devices of a simulation: distributions, traces, and their effects on tasks.
#include <cmath>
#include <map>
#include <numbers>

#include "engine/base/file_system.h"
#include "federated/random/streams.h"
#include "simulations/fleet/simulated_fleet.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

constexpr VirtualTime kSecond = 1'000'000;

struct Moments {
  double mean = 0, deviation = 0, least = 1e300, most = 0;
};
Moments MomentsOf(const Law& law) {
  constexpr int kDraws = 20'000;
  Moments of;
  double squares = 0;
  for (uint32_t i = 0; i < kDraws; ++i) {
    const double value = law.Draw(Draws(StreamFor(1, "client", Purpose::kDevice, i), 0));
    of.mean += value / kDraws;
    squares += value * value / kDraws;
    of.least = std::min(of.least, value);
    of.most = std::max(of.most, value);
  }
  of.deviation = std::sqrt(squares - of.mean * of.mean);
  return of;
}

TEST(LawTest, Draw_HasTheMomentsOfItsLaw) {
  struct Case {
    const char* text;
    double mean, deviation;
  };
  const Case cases[] = {
      {"2e9", 2e9, 0},
      {"uniform(1, 3)", 2, 1 / std::sqrt(3.0)},
      {"lognormal(4, 0.5)", 4 * std::exp(0.125), 4 * std::exp(0.125) * std::sqrt(std::expm1(0.25))},
      {"half_normal(60)", 60 * std::sqrt(2 / std::numbers::pi), 60 * std::sqrt(1 - 2 / std::numbers::pi)},
      {" exponential( 5 ) ", 5, 5}};
  for (const auto& [text, mean, deviation] : cases) {
    SCOPED_TRACE(text);
    ASSERT_OK_AND_ASSIGN(const Law law, Law::Parse(text, "devices.delay"));
    EXPECT_NEAR(law.mean(), mean, mean * 1e-12);
    const Moments of = MomentsOf(law);
    EXPECT_NEAR(of.mean, mean, mean * 0.03);
    EXPECT_NEAR(of.deviation, deviation, deviation * 0.05 + mean * 1e-6);
    EXPECT_GE(of.least, 0);
  }
  ASSERT_OK_AND_ASSIGN(const Law uniform, Law::Parse("uniform(1, 3)", "devices.delay"));
  EXPECT_GE(MomentsOf(uniform).least, 1);
  EXPECT_LE(MomentsOf(uniform).most, 3);
}

TEST(LawTest, Parse_WhatIsNoLaw_NamesTheKey) {
  for (const char* text :
       {"", "fast", "-1", "0", "nan", "inf", "normal(1)", "uniform(1)", "uniform(3, 1)", "lognormal(0, 1)",
        "lognormal(1, -1)", "half_normal(1, 2)", "exponential(1", "(3)", "2e9 x"}) {
    EXPECT_THAT(Law::Parse(text, "devices.compute"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("devices.compute is '")))
        << text;
  }
}

TEST(DeviceTraceTest, Parse_SpansOfADevice_AscendingWithWhatIsKnownOfThem) {
  ASSERT_OK_AND_ASSIGN(const DeviceTrace trace, DeviceTrace::Parse("client,from,until,compute,download,upload\r\n"
                                                                   "b,50,60,,3,4\na,0,1\nb,0.5,2,1e9\n",
                                                                   "t.csv", 60 * kSecond));
  const std::vector<DeviceSpan>* b = trace.Find("b");
  ASSERT_NE(b, nullptr);
  ASSERT_EQ(b->size(), 2);
  EXPECT_EQ((*b)[0].from, kSecond / 2);
  EXPECT_EQ((*b)[0].compute, 1e9);
  EXPECT_EQ((*b)[1].until, 60 * kSecond);
  EXPECT_EQ((*b)[1].compute, 0);
  EXPECT_EQ((*b)[1].upload, 4);
  EXPECT_EQ(trace.Find("c"), nullptr);
}

TEST(DeviceTraceTest, Parse_WhatIsNoLine_NamesFileAndLine) {
  for (const char* line :
       {"a,1", "a,1,x", "a,2,1", ",1,2", "a,1,61", "a,-1,2", "a,1,2,x", "a,1,2,3,4,5,6", "a,0,1\na,0.5,2"}) {
    EXPECT_THAT(DeviceTrace::Parse(fmt::format("z,0,60\n{}", line), "t.csv", 60 * kSecond),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("t.csv:")))
        << line;
  }
}

class SimulatedFleetTest : public testing::FolderTest {
 protected:
  std::shared_ptr<const SimulatedFleet> Make(const DevicesConfig& config, uint64_t seed = 1) {
    auto fleet = SimulatedFleet::Create(
        config, seed, NumberedPopulation(5),
        [](const std::string& client_id, std::optional<TaskOfClient>) {
          return TaskWork{1e9 * static_cast<double>(*NumberOf(client_id) + 1), 4'000'000, 1'000'000};
        },
        FileSystem::Default());
    EXPECT_OK(fleet);
    return *std::move(fleet);
  }
};

TEST_F(SimulatedFleetTest, CourseOf_AddsReceivingComputingSendingAndDelay) {
  const auto fleet = Make({.compute = "1e9", .download = "2e6", .upload = "5e5", .delay = "3"});
  const Fleet::Course course = fleet->CourseOf("client-00001", 0, 0, 7 * kSecond);
  EXPECT_FALSE(course.lost);
  EXPECT_EQ(course.ends, (7 + 2 + 2 + 2 + 3) * kSecond);
  EXPECT_EQ(fleet->TypicalTask("client-00001"), 9 * kSecond);
}

TEST_F(SimulatedFleetTest, Speeds_AreTheClientsOwnAndOfTheSeed) {
  const auto fleet = Make({.compute = "lognormal(1e9, 1)"});
  const auto takes = [&](const SimulatedFleet& of, int64_t base) {
    return of.CourseOf("client-00003", base, 0, 0).ends;
  };
  EXPECT_EQ(takes(*fleet, 0), takes(*fleet, 5)) << "drawn once for each client";
  EXPECT_NE(takes(*fleet, 0), takes(*Make({.compute = "lognormal(1e9, 1)"}, 2), 0));
  const auto delayed = Make({.delay = "half_normal(60)"});
  EXPECT_NE(takes(*delayed, 0), takes(*delayed, 1)) << "drawn for each task";
  EXPECT_NE(takes(*delayed, 0), delayed->CourseOf("client-00003", 0, 1, 0).ends);
}

TEST_F(SimulatedFleetTest, VersionTime_IsDrawnForEachVersionOfTheSeed) {
  EXPECT_EQ(Make({.compute = "1e9"})->VersionTime(1), 0);
  EXPECT_EQ(Make({.server = "2.5"})->VersionTime(1), 5 * kSecond / 2);
  const auto fleet = Make({.server = "uniform(2, 5)"});
  EXPECT_EQ(fleet->VersionTime(1), Make({.server = "uniform(2, 5)"})->VersionTime(1));
  EXPECT_NE(fleet->VersionTime(1), fleet->VersionTime(2));
  EXPECT_NE(fleet->VersionTime(1), Make({.server = "uniform(2, 5)"}, 2)->VersionTime(1));
  EXPECT_GE(fleet->VersionTime(1), 2 * kSecond);
}

TEST_F(SimulatedFleetTest, Failure_LosesWhatWouldHaveTakenLonger) {
  const auto fleet = Make({.compute = "1e9", .failure = "2.5"});
  EXPECT_FALSE(fleet->CourseOf("client-00001", 0, 0, 0).lost);
  const Fleet::Course lost = fleet->CourseOf("client-00002", 0, 0, 0);
  EXPECT_TRUE(lost.lost);
  EXPECT_EQ(lost.ends, 5 * kSecond / 2);
}

TEST_F(SimulatedFleetTest, Availability_IsAShareOfEachPeriodAndEndsATask) {
  const auto fleet = Make({.compute = "1e9", .availability = "0.25", .period_seconds = 100});
  for (int64_t client = 0; client < 5; ++client) {
    const std::string name = NumberedName(client);
    int64_t there = 0;
    for (int64_t second = 0; second < 1000; ++second) there += fleet->IsThere(name, second * kSecond + 1);
    EXPECT_NEAR(static_cast<double>(there), 250, 12) << name;
    // Whoever is away is back at some time within a period, and not before.
    const VirtualTime back = *fleet->NextBack(0);
    EXPECT_GT(back, 0);
    EXPECT_LE(back, 100 * kSecond);
  }
  VirtualTime at = 0;
  while (!fleet->IsThere("client-00004", at)) at += kSecond;
  while (fleet->IsThere("client-00004", at + kSecond)) at += kSecond;
  const Fleet::Course course = fleet->CourseOf("client-00004", 0, 0, at);
  EXPECT_TRUE(course.lost) << "five seconds of work, and less than one is left";
  EXPECT_LE(course.ends, at + kSecond);
  EXPECT_EQ(Make({.compute = "1"})->NextBack(0), std::nullopt) << "all are there";
}

// Against asking every device second by second; traces and laws beside each other, spans that touch, times that are a
// beginning themselves.
TEST_F(SimulatedFleetTest, NextBack_IsTheFirstBeginningOfOneThatIsAway) {
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("t.csv"),
                                "client-00000,10,20\nclient-00000,20,25\nclient-00000,90,100\nclient-00001,0,5\n"));
  constexpr VirtualTime kPeriod = 100 * kSecond;
  const auto fleet = Make({.availability = "uniform(0.05, 0.4)", .trace = Path("t.csv"), .period_seconds = 100});
  constexpr VirtualTime kStep = 1000;
  std::map<int64_t, std::vector<bool>> there;
  for (int64_t client = 0; client < 5; ++client) {
    for (VirtualTime at = 0; at < 3 * kPeriod; at += kStep)
      there[client].push_back(fleet->IsThere(NumberedName(client), at));
  }
  for (VirtualTime at = 0; at < 2 * kPeriod; at += 500 * kStep) {
    const auto now = static_cast<size_t>(at / kStep);
    size_t first = SIZE_MAX;
    for (const auto& [client, seen] : there) {
      if (seen[now]) continue;
      const auto back = std::find(seen.begin() + static_cast<std::ptrdiff_t>(now), seen.end(), true);
      first = std::min(first, static_cast<size_t>(back - seen.begin()));
    }
    if (first == SIZE_MAX) continue;
    const std::optional<VirtualTime> told = fleet->NextBack(at);
    ASSERT_TRUE(told) << at;
    EXPECT_EQ((*told + kStep - 1) / kStep, static_cast<VirtualTime>(first)) << at;
  }
}

TEST_F(SimulatedFleetTest, WorkOfATask_IsThatTasksOwn) {
  const auto fleet = SimulatedFleet::Create(
      {.compute = "1e9"}, 1, NumberedPopulation(1),
      [](const std::string&, std::optional<TaskOfClient> task) {
        return TaskWork{1e9 * (task ? static_cast<double>(task->base_round + task->ordinal) : 7)};
      },
      FileSystem::Default());
  ASSERT_OK(fleet);
  EXPECT_EQ((*fleet)->CourseOf("client-00000", 2, 3, 0).ends, 5 * kSecond);
  EXPECT_EQ((*fleet)->TypicalTask("client-00000"), 7 * kSecond);
}

TEST_F(SimulatedFleetTest, Trace_SaysWhoIsThereAndHowFast) {
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("t.csv"), "client-00000,10,20,5e8\nclient-00000,30,90\n"));
  const auto fleet = Make({.compute = "1e9", .trace = Path("t.csv"), .period_seconds = 100});
  EXPECT_FALSE(fleet->IsThere("client-00000", 9 * kSecond));
  EXPECT_TRUE(fleet->IsThere("client-00000", 110 * kSecond)) << "it starts again without state";
  EXPECT_TRUE(fleet->IsThere("client-00001", 0));
  EXPECT_EQ(fleet->NextBack(0), 10 * kSecond);
  EXPECT_EQ(fleet->NextBack(95 * kSecond), 110 * kSecond);
  EXPECT_EQ(fleet->CourseOf("client-00000", 0, 0, 110 * kSecond).ends, 112 * kSecond) << "as its line says";
  EXPECT_EQ(fleet->CourseOf("client-00000", 0, 0, 30 * kSecond).ends, 31 * kSecond) << "as the law says";
  const Fleet::Course late = fleet->CourseOf("client-00000", 0, 0, 19 * kSecond);
  EXPECT_TRUE(late.lost);
  EXPECT_EQ(late.ends, 20 * kSecond);
}

}  // namespace
}  // namespace rivulet
