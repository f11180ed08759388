#include "coordinator/control/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

MetricsSnapshot OneRun() {
  MetricsSnapshot snapshot{.version = "0.1.0", .started = 1'700'000'000.5, .resident_bytes = 1 << 20};
  RunStatus run;
  run.state = {"study-1", "a \"quoted\\ name\"\nof two lines", "training", true, false, "", 4, 50, 2, 5, 3, 9};
  run.totals = {3, 1, 28, 2, 1, 0, 1'000'000'000'000, 7};
  snapshot.runs.push_back(run);
  snapshot.clients = {7, 2, 1, 0};
  snapshot.transferred = {.up = 6'000'000'000'001, .down = 70, .up_wire = 9, .down_wire = 71};
  snapshot.first_certificate_end_unix_ms = 1'800'000'000'000;
  return snapshot;
}

TEST(MetricsTest, EveryValue_IsWhatTheSnapshotSays) {
  const std::string text = MetricsText(OneRun());
  for (const char* line : {
           "rivulet_build_info{version=\"0.1.0\"} 1\n",
           "rivulet_clients{state=\"connected\"} 7\n",
           "rivulet_clients{state=\"banned\"} 1\n",
           "rivulet_client_certificate_end_seconds 1800000000\n",
           "state=\"training\"} 1\n",
           "rivulet_run_round{run_id=\"study-1\",name=\"a \\\"quoted\\\\ name\\\"\\nof two lines\"} 4\n",
           "\",status=\"folded\"} 28\n",
           "\",status=\"refused\"} 2\n",
           "rivulet_transfer_bytes_total{direction=\"up\"} 6000000000001\n",
           "rivulet_transfer_bytes_total{direction=\"down\"} 70\n",
           "rivulet_transfer_wire_bytes_total{direction=\"up\"} 9\n",
           "rivulet_transfer_wire_bytes_total{direction=\"down\"} 71\n",
           "process_resident_memory_bytes 1048576\n",
           "process_start_time_seconds 1700000000.5\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("} 1000000000000\n")) << "a counter of bytes keeps all its digits";
}

// The text format 0.0.4: a metric's HELP and TYPE once, its samples behind them, nothing else.
TEST(MetricsTest, EverySample_StandsBehindItsHelpAndType) {
  for (const MetricsSnapshot& snapshot : {OneRun(), MetricsSnapshot{}}) {
    std::istringstream lines(MetricsText(snapshot));
    std::set<std::string> known;
    std::string name;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# HELP ")) {
        name = line.substr(7, line.find(' ', 7) - 7);
        EXPECT_TRUE(known.insert(name).second) << line;
      } else if (line.starts_with("# TYPE ")) {
        EXPECT_EQ(line.substr(7, line.find(' ', 7) - 7), name);
        const bool counter = line.ends_with(" counter");
        EXPECT_EQ(counter, name.ends_with("_total")) << line;
      } else {
        EXPECT_TRUE(line.starts_with(name + "{") || line.starts_with(name + " ")) << line;
      }
    }
  }
  EXPECT_THAT(MetricsText({}), Not(HasSubstr("run_id=")));
}

TEST(MetricsTest, EveryMetric_IsDocumented) {
  const std::string page = [] {
    std::FILE* const file = std::fopen(RIVULET_SOURCE_DIR "/docs/guide/operations.md", "re");
    EXPECT_NE(file, nullptr);
    std::string text(1 << 20, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  }();
  std::istringstream lines(MetricsText(OneRun()));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_THAT(page, HasSubstr("`" + name + "`"));
  }
}

}  // namespace
}  // namespace rivulet
