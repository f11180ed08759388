// The whole system under virtual time (federation.h): some seeds of each kind. RIVULET_SEEDS = 17 or 1-10000 says which
// are run, otherwise the first few; a seed that fails tells its story.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "tests/system/federation.h"

namespace rivulet::testing {
namespace {

// Of the world outside.
double RealMs() {
  timespec time;
  syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

std::pair<uint64_t, uint64_t> SeedsToRun(uint64_t few, uint64_t from) {
  const char* const asked = std::getenv("RIVULET_SEEDS");
  if (asked == nullptr) return {from, from + few - 1};
  const std::string_view text = asked;
  const size_t dash = text.find('-');
  const auto number = [](std::string_view digits) {
    uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  const uint64_t first = number(text.substr(0, dash));
  return {first, dash == text.npos ? first : number(text.substr(dash + 1))};
}

class SystemTest : public ::testing::Test {
 protected:
  // Libraries take locks of their own when they are first used, and each lock is a turn that may be lost. A seed is one
  // story wherever it stands in a process only if somebody has used them before.
  static void SetUpTestSuite() { Federation({.seed = 1, .aggregators = 1}).Go(); }

  using Make = std::function<StormOptions(uint64_t seed)>;

  // Runs seeds until one fails; what they met, all together.
  StormCounts RunSeeds(uint64_t few, const Make& make, uint64_t from = 1) {
    const auto [first, last] = SeedsToRun(few, from);
    StormCounts all;
    std::vector<double> times;
    for (uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
      SCOPED_TRACE(fmt::format("alone: RIVULET_SEEDS={}", seed));
      const double begun = RealMs();
      StormOptions options = make(seed);
      Federation storm(options);
      storm.Go();
      if (HasFailure()) {
        fmt::print(stderr, "{}", storm.story());
        break;
      }
      if (options.everybody) {
        options.calm = true;
        Federation undisturbed(options);
        undisturbed.Go();
        EXPECT_EQ(storm.last_digest(), undisturbed.last_digest()) << storm.story();
      }
      times.push_back(RealMs() - begun);
      Add(storm.counts(), all);
    }
    std::ranges::sort(times);
    if (!times.empty()) {
      fmt::print(
          "{} seeds, median {:.1f} ms, most {:.1f} ms; {} virtual hours, {} faults, {} deaths of clients, {} of "
          "coordinators, {} of aggregators; {} tasks, {} again; {} accepted, {} duplicates, {} refused\n",
          times.size(), times[times.size() / 2], times.back(), all.virtual_ms / 3'600'000, all.faults,
          all.client_deaths, all.coordinator_deaths, all.aggregator_deaths, all.trained, all.again, all.accepted,
          all.duplicates, all.refused);
    }
    return all;
  }

 private:
  static void Add(const StormCounts& one, StormCounts& all) {
    all.faults += one.faults;
    all.client_deaths += one.client_deaths;
    all.coordinator_deaths += one.coordinator_deaths;
    all.aggregator_deaths += one.aggregator_deaths;
    all.accepted += one.accepted;
    all.duplicates += one.duplicates;
    all.refused += one.refused;
    all.trained += one.trained;
    all.again += one.again;
    all.virtual_ms += one.virtual_ms;
    all.switches += one.switches;
    all.late += one.late;
  }
};

const TenthAlgorithm& AlgorithmOf(std::string_view name) {
  return *std::ranges::find(TenAlgorithms(), name, &TenthAlgorithm::name);
}

TEST_F(SystemTest, Calm_EndsAndNothingIsDoneTwice) {
  const StormCounts all = RunSeeds(12, [](uint64_t seed) { return StormOptions{.seed = seed, .calm = true}; });
  EXPECT_EQ(all.again, 0);
  EXPECT_EQ(all.duplicates, 0);
}

// Otherwise a seed that fails could not be looked at.
TEST_F(SystemTest, OneSeedTwice_IsOneStory) {
  std::vector<std::string> stories;
  for (const int time : {1, 2}) {
    SCOPED_TRACE(time);
    Federation storm({.seed = 5, .aggregators = 1});
    storm.Go();
    ASSERT_FALSE(HasFailure());
    stories.push_back(storm.story());
  }
  EXPECT_TRUE(stories[0] == stories[1]) << stories[0] << "\n\nand\n\n" << stories[1];
}

TEST_F(SystemTest, EverybodyIsInEachVersion_TheLastModelIsThatOfAnUndisturbedRun) {
  RunSeeds(12, [](uint64_t seed) { return StormOptions{.seed = seed, .everybody = true}; });
}

TEST_F(SystemTest, WhoIsThereTakesPart_EachVersionIsWhatItsRowsSay) {
  RunSeeds(16, [](uint64_t seed) { return StormOptions{.seed = seed}; });
}

// A client's state is that of its newest task in a version, whatever died meanwhile.
TEST_F(SystemTest, ClientsKeepStates_TheLastModelIsThatOfAnUndisturbedRun) {
  RunSeeds(8, [](uint64_t seed) {
    return StormOptions{
        .seed = seed, .algorithm = &AlgorithmOf(seed % 2 == 0 ? "scaffold" : "moon"), .everybody = true};
  });
}

TEST_F(SystemTest, TasksOutliveVersions_EachVersionIsWhatItsRowsSay) {
  RunSeeds(12, [](uint64_t seed) { return StormOptions{.seed = seed, .algorithm = &AlgorithmOf("fedbuff")}; });
}

TEST_F(SystemTest, ThroughAggregators_TheLastModelIsThatOfAnUndisturbedRun) {
  RunSeeds(12, [](uint64_t seed) {
    return StormOptions{.seed = seed, .everybody = true, .aggregators = 1 + static_cast<int64_t>(seed % 2)};
  });
}

TEST_F(SystemTest, TasksOutliveVersionsThroughAggregators_EachVersionIsWhatItsRowsSay) {
  RunSeeds(12, [](uint64_t seed) {
    return StormOptions{
        .seed = seed, .algorithm = &AlgorithmOf("fedbuff"), .aggregators = 1 + static_cast<int64_t>(seed % 2)};
  });
}

TEST_F(SystemTest, ManyClientsThroughAggregators_TheLastModelIsThatOfAnUndisturbedRun) {
  RunSeeds(1, [](uint64_t seed) {
    return StormOptions{
        .seed = seed, .everybody = true, .aggregators = 3, .clients = 40 + static_cast<int64_t>(seed % 161)};
  });
}

// Up to half a minute a seed; these two are among the shortest, and the second one's coordinator keeps reports.
TEST_F(SystemTest, ThousandsOfClients_EachVersionIsWhatItsRowsSay) {
  const auto make = [](uint64_t seed) {
    return StormOptions{.seed = seed,
                        .aggregators = seed % 4 == 0 ? 1 + static_cast<int64_t>(seed / 4 % 3) : 0,
                        .clients = 1000 + static_cast<int64_t>(seed * 613 % 1001)};
  };
  RunSeeds(2, make, 2);
}

RIVULET_AGGREGATION(ForgetfulMean::kRule, ForgetfulMean::Create);

// Planted faults: the storms find them, or they would find nothing.
class PlantedFaultTest : public ::testing::Test {
 protected:
  // The first seed in which a storm says `sentence`; 0: none of so many.
  static uint64_t FoundBySeed(StormOptions options, std::string_view sentence) {
    for (options.seed = 1; options.seed <= 60; ++options.seed) {
      ::testing::TestPartResultArray found;
      {
        ::testing::ScopedFakeTestPartResultReporter reporter(
            ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &found);
        Federation storm(options);
        storm.Go();
      }
      for (int i = 0; i < found.size(); ++i) {
        if (std::string_view(found.GetTestPartResult(i).message()).find(sentence) == sentence.npos) continue;
        fmt::print("found by seed {}\n", options.seed);
        return options.seed;
      }
    }
    return 0;
  }
};

TEST_F(PlantedFaultTest, AcknowledgementBeforeTheSync_IsFound) {
  EXPECT_GT(FoundBySeed({.everybody = true, .planted = Planted::kLyingHistory}, "the file is empty"), 0u)
      << "rows that were said to be there";
}

TEST_F(PlantedFaultTest, AcknowledgementBeforeTheReportIsSynced_IsFound) {
  EXPECT_GT(
      FoundBySeed({.everybody = true, .planted = Planted::kLyingReports}, "was acknowledged, and is requested again"),
      0u);
}

TEST_F(PlantedFaultTest, UpdateThatIsAcceptedAgain_IsFound) {
  EXPECT_GT(FoundBySeed({.everybody = true, .planted = Planted::kAcceptsAgain}, "is accepted twice"), 0u);
}

TEST_F(PlantedFaultTest, UpdateThatIsFoldedAgain_IsFound) {
  EXPECT_GT(FoundBySeed({.planted = Planted::kFoldsAgain}, "is not what its rows say"), 0u);
}

TEST_F(PlantedFaultTest, LeaseThatIsNotFenced_IsFound) {
  EXPECT_GT(FoundBySeed({.planted = Planted::kUnfenced}, "was never accepted"), 0u);
}

}  // namespace
}  // namespace rivulet::testing
