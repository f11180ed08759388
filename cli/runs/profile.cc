// rivulet runs profile: the bottleneck of a run's rounds, and ways to make them shorter.
#include <algorithm>
#include <map>
#include <optional>

#include "cli/runs/commands.h"
#include "cli/terminal.h"
#include "coordinator/history/questions.h"
#include "engine/base/json.h"
#include "engine/base/quantities.h"
#include "inspect/configuration.h"

namespace rivulet {
namespace {

struct RunsProfileOptions {
  HistoryOptions history;
  std::string run;
  std::optional<int64_t> rounds;
};

// Means over rounds, in seconds. A round is its clients' time, aggregation, evaluation and a rest. Between it and the
// next draw the coordinator waits, or the run is interrupted.
struct RoundProfile {
  int64_t rounds = 0;
  double seconds = 0, train = 0, aggregate = 0, evaluate = 0, between = 0;
  double tasks = 0;   // that were aggregated
  int64_t drawn = 0;  // tasks of the newest round, which may exceed server.clients_per_round
  double median = 0, ninth = 0,
         last = 0;     // when half, nine tenths and all of a round's tasks would be done, side by side
  double at_once = 0;  // tasks under way at a time, on average
  double waits = 0, trains = 0, uploads = 0;  // of a task
  std::string slowest;                        // the client that was last most often
  int64_t slowest_times = 0;

  double whole() const { return seconds + between; }
};

// A change that would make a round shorter, and by how much at best.
struct Advice {
  double gain = 0;
  std::string what;
};

constexpr double kWorthSaying = 0.03;  // of a round
constexpr int64_t kRounds = 50, kMostRounds = 10'000;

// The task that is done when `share` of them are; `sorted` is not empty.
double AtShare(const std::vector<double>& sorted, double share) {
  const auto index = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[std::min(index, sorted.size() - 1)];
}

RoundProfile ProfileOf(const std::vector<RoundTimes>& rounds) {
  RoundProfile profile;
  profile.rounds = static_cast<int64_t>(rounds.size());
  std::map<std::string, int64_t> last;
  double with_tasks = 0, followed = 0, tasks = 0, under_way = 0;
  for (const RoundTimes& round : rounds) {
    profile.seconds += std::max(round.seconds, round.train + round.aggregate + round.evaluate);
    profile.train += round.train;
    profile.aggregate += round.aggregate;
    profile.evaluate += round.evaluate;
    if (round.until_next) {
      profile.between += *round.until_next;
      ++followed;
    }
    if (round.task_seconds.empty()) continue;
    ++with_tasks;
    tasks += static_cast<double>(round.task_seconds.size());
    profile.median += AtShare(round.task_seconds, 0.5);
    profile.ninth += AtShare(round.task_seconds, 0.9);
    profile.last += round.task_seconds.back();
    profile.waits += round.waited;
    profile.trains += round.trained;
    profile.uploads += round.uploaded;
    if (round.train > 0) under_way += (round.trained + round.uploaded) / round.train;
    profile.slowest_times = std::max(profile.slowest_times, ++last[round.slowest]);
  }
  const auto mean = [](double& sum, double count) { sum = count > 0 ? sum / count : 0; };
  for (double* sum : {&profile.seconds, &profile.train, &profile.aggregate, &profile.evaluate})
    mean(*sum, static_cast<double>(profile.rounds));
  mean(profile.between, followed);
  for (double* sum : {&profile.waits, &profile.trains, &profile.uploads}) mean(*sum, tasks);
  profile.at_once = under_way;
  for (double* sum : {&profile.median, &profile.ninth, &profile.last, &profile.at_once}) mean(*sum, with_tasks);
  profile.tasks = tasks;
  mean(profile.tasks, with_tasks);
  for (const auto& [client, times] : last)
    if (times == profile.slowest_times) profile.slowest = client;
  return profile;
}

std::string ValueOf(const std::vector<RunKeyRow>& keys, std::string_view key) {
  const auto found = std::ranges::find(keys, key, &RunKeyRow::key);
  return found == keys.end() ? "" : found->value;
}
int64_t WholeNumber(const std::vector<RunKeyRow>& keys, std::string_view key, int64_t otherwise) {
  const Cell value = CellOfToml(ValueOf(keys, key));
  const auto* number = std::get_if<int64_t>(&value);
  return number == nullptr ? otherwise : *number;
}

// Two kinds of runs: clients on separate machines work side by side, and a round takes as long as its last client. If
// workers take one after another, it takes as long as all of them together. `at_once` distinguishes them.
std::vector<Advice> AdviceOn(const RoundProfile& profile, const std::vector<RunKeyRow>& keys) {
  std::vector<Advice> advice;
  const bool side_by_side = profile.at_once >= 0.3 * profile.tasks;
  if (!side_by_side && profile.tasks > 1) {
    advice.push_back(
        {profile.train / 2,
         fmt::format("{:.1f} tasks were trained at a time, of {:.0f} in a round: with twice as many workers or sites "
                     "(--workers) a round's training takes half, if there are cores for them",
                     std::max(profile.at_once, 0.1), profile.tasks)});
  }
  if (side_by_side && profile.tasks >= 2 && profile.last > 0) {
    const double gain = profile.train * (1 - profile.ninth / profile.last);
    advice.push_back(
        {gain,
         fmt::format("the round waits for the last tenth of the updates: nine of ten are in after {}. server.deadline "
                     "= {:.3g} with server.min_reports = {} closes it without the others",
                     SecondsText(profile.ninth), profile.ninth * 1.1, std::max<int64_t>(1, profile.drawn * 9 / 10))});
  }
  const double task = profile.waits + profile.trains + profile.uploads;
  if (side_by_side && task > 0) {
    if (ValueOf(keys, "update.codec").empty() || ValueOf(keys, "update.codec") == "\"f32\"") {
      advice.push_back({profile.train * 0.75 * profile.uploads / task,
                        fmt::format("a task uploads for {}: update.codec = \"int8\" sends a quarter of the bytes",
                                    SecondsText(profile.uploads))});
    }
    advice.push_back({profile.train * profile.waits / task,
                      fmt::format("a task waits {} until its client asks for it: clients that are busy elsewhere, or "
                                  "more tasks than clients",
                                  SecondsText(profile.waits))});
  }
  if (const int64_t every = WholeNumber(keys, "evaluation.every", 1); every > 0 && profile.evaluate > 0) {
    advice.push_back(
        {profile.evaluate * 0.8, fmt::format("the model is evaluated every {}: evaluation.every = {} costs a fifth",
                                             every == 1 ? "round" : fmt::format("{} rounds", every), every * 5)});
  }
  const double rest =
      profile.between + std::max(0.0, profile.seconds - profile.train - profile.aggregate - profile.evaluate);
  if (ValueOf(keys, "run.durability") == "\"round\"") {
    advice.push_back({rest / 2,
                      "each round is on the disk before the next one begins: run.durability = \"second\" writes "
                      "those of a second together, and a crash makes them again"});
  } else {
    advice.push_back({rest,
                      "between rounds no client trains: the coordinator waits for clients (server.min_clients), "
                      "writes, or the run was stopped"});
  }
  std::erase_if(advice, [&](const Advice& one) { return one.gain < kWorthSaying * profile.whole(); });
  std::ranges::stable_sort(advice, std::greater{}, &Advice::gain);
  return advice;
}

// "  - " and text on lines of at most 60 columns.
std::string Listed(std::string_view text) {
  std::string lines = "  -";
  size_t columns = 3;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (columns + 1 + end > 60) {
      lines += "\n   ";
      columns = 3;
    }
    lines += fmt::format(" {}", text.substr(0, end));
    columns += 1 + end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + "\n";
}

void PrintProfile(const RunRow& run, const RoundProfile& profile, const std::vector<Advice>& advice) {
  const auto line = [&](const char* what, double seconds, const std::string& more = "") {
    std::string text = fmt::format("  {:<28} {:>11} {:>6}", what, SecondsText(seconds),
                                   profile.whole() > 0 ? PercentText(seconds / profile.whole()) : "");
    fmt::print("{}{}\n", text, more);
  };
  fmt::print("{}\n", Emphasised(Emphasis::kHeading, run.run_id));
  fmt::print("a round, the mean of {} that {} committed: {}\n", profile.rounds, profile.rounds == 1 ? "was" : "were",
             SecondsText(profile.whole()));
  line("clients at work", profile.train);
  line("aggregation", profile.aggregate);
  line("evaluation", profile.evaluate);
  line("the rest of it", std::max(0.0, profile.seconds - profile.train - profile.aggregate - profile.evaluate));
  line("until the next one", profile.between);
  if (profile.tasks > 0) {
    fmt::print("{:.0f} tasks were aggregated, {:.1f} at a time\n", profile.tasks, profile.at_once);
    fmt::print("  half in {}, 9 of 10 in {}, all in {}\n", SecondsText(profile.median), SecondsText(profile.ninth),
               SecondsText(profile.last));
    fmt::print("  a task waits {}, trains {}, uploads {}\n", SecondsText(profile.waits), SecondsText(profile.trains),
               SecondsText(profile.uploads));
    if (profile.slowest_times > 1)
      fmt::print("  last most often: {} ({} rounds)\n", profile.slowest, profile.slowest_times);
  }
  fmt::print("\n{}\n", Emphasised(Emphasis::kHeading, "Possible improvements"));
  for (const Advice& one : advice) {
    fmt::print("{}", Listed(fmt::format("by up to {} ({}): {}", SecondsText(one.gain),
                                        PercentText(one.gain / profile.whole()), one.what)));
  }
  if (advice.empty()) fmt::print("  none found in its rows\n");
}

void PrintProfileJson(const RunRow& run, const RoundProfile& profile, const std::vector<Advice>& advice) {
  Json json = {{"run_id", run.run_id},
               {"rounds", profile.rounds},
               {"round_seconds", profile.whole()},
               {"train_seconds", profile.train},
               {"aggregate_seconds", profile.aggregate},
               {"evaluate_seconds", profile.evaluate},
               {"between_seconds", profile.between},
               {"tasks", profile.tasks},
               {"tasks_at_once", profile.at_once},
               {"task_wait_seconds", profile.waits},
               {"task_train_seconds", profile.trains},
               {"task_upload_seconds", profile.uploads},
               {"median_task_seconds", profile.median},
               {"ninth_task_seconds", profile.ninth},
               {"last_task_seconds", profile.last},
               {"slowest_client", profile.slowest},
               {"slowest_times", profile.slowest_times}};
  json["advice"] = Json::Array();
  for (const Advice& one : advice) json["advice"].Append({{"gain_seconds", one.gain}, {"what", one.what}});
  fmt::print("{}\n", json.Dump());
}

Status ProfileRun(const RunsProfileOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(options.run));
  RIVULET_ASSIGN_OR_RETURN(const auto rounds, NewestRoundTimes(*history, run.run_id, options.rounds.value_or(kRounds)));
  if (rounds.empty()) return NotFound("run '{}' has no committed round yet to profile", run.run_id);
  RIVULET_ASSIGN_OR_RETURN(const auto keys, history->RunKeys(run.run_id));
  RoundProfile profile = ProfileOf(rounds);
  RIVULET_ASSIGN_OR_RETURN(const SqlAnswer drawn,
                           history->Ask("SELECT selected FROM rounds WHERE run_id = ? AND status = 'committed' "
                                        "ORDER BY round DESC LIMIT 1",
                                        {run.run_id}));
  if (!drawn.rows.empty()) profile.drawn = std::get<int64_t>(drawn.rows[0][0]);
  const std::vector<Advice> advice = AdviceOn(profile, keys);
  if (options.history.json) {
    PrintProfileJson(run, profile, advice);
  } else {
    PrintProfile(run, profile, advice);
  }
  return absl::OkStatus();
}

}  // namespace

Command RunsProfileCommand() {
  auto options = std::make_shared<RunsProfileOptions>();
  Command command{.name = "profile",
                  .summary = "Show the bottleneck of a run's rounds, and estimate possible improvements.",
                  .example = "rivulet runs profile latest\n  rivulet runs profile latest --rounds 500 --json"};
  command.Positional("RUN", &options->run, kRunHelp)
      .Option("--rounds", "N", &options->rounds, "profile the newest N committed rounds [50]", {1, kMostRounds});
  AddHistoryOptions(command, &options->history);
  command.run = [options] { return ProfileRun(*options); };
  return command;
}

}  // namespace rivulet
