// rivulet reproduce: a paper's numbers, run here and held against the published ones.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>

#include "cli/papers/paper.h"
#include "cli/quantities.h"
#include "cli/sweep/run_trials.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "coordinator/ledger/ledger.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

struct ReproduceOptions {
  std::string name, db = "./rivulet.sqlite";
  std::vector<std::string> only;
  std::optional<int64_t> workers;
  bool quick = false, json = false;
};

// What came of one result.
struct Reproduced {
  const PaperResult* result;
  SweepPoint point;             // the best of its grid
  std::optional<Spread> value;  // over its seeds; none: the target was not reached
  std::string missed;           // the bound that it should have come out at; "": none
  double seconds = 0;           // of all its runs that were not there already
};

// Where the best value so far reaches `target`, between two rounds as a straight line between them has it. Rounds lie
// where `place` has them.
std::optional<double> PlaceOfTarget(const Curve& curve, double target, const std::function<double(int64_t)>& place) {
  const double sign = curve.lower_is_better ? -1 : 1;
  double before = 0, best = 0;
  bool begun = false;
  for (const auto& [round, value] : curve.points) {
    const double now = place(round);
    if (sign * value >= sign * target) {
      if (!begun || value == best) return now;
      return before + (now - before) * (target - best) / (value - best);
    }
    if (!begun || sign * value > sign * best) best = value;
    before = now;
    begun = true;
  }
  return std::nullopt;
}

std::optional<double> SecondsToTarget(const Curve& curve, double target, const Curve* time) {
  if (time == nullptr) return std::nullopt;
  const std::map<int64_t, double> made(time->points.begin(), time->points.end());
  return PlaceOfTarget(curve, target, [&](int64_t round) {
    const auto found = made.find(round);
    return found == made.end() ? 0 : found->second;
  });
}

std::optional<double> ValueOf(const PaperResult& result, const std::string& metric, const SweptRun& run) {
  const Curve* const curve = FindCurve(run.curves, metric);
  if (curve == nullptr || run.status != "finished") return std::nullopt;
  switch (result.measure) {
    case PaperMeasure::kRounds:
      return PlaceOfTarget(*curve, result.target, [](int64_t round) { return static_cast<double>(round); });
    case PaperMeasure::kVirtualSeconds:
      return SecondsToTarget(*curve, result.target, FindCurve(run.curves, kVirtualSeconds));
    case PaperMeasure::kLast:
      return curve->points.back().second;
    case PaperMeasure::kBest:
      break;
  }
  return curve->best().second;
}

// The point of the grid that comes out best: all of whose seeds have a value, of these the fewest rounds or best value.
void TakeBest(const SweepOutcome& outcome, Reproduced& reproduced) {
  const PaperResult& result = *reproduced.result;
  const bool lower = result.to_target() || outcome.lower_is_better;
  for (const SweptPoint& point : outcome.points) {
    std::vector<double> values;
    for (const SweptRun& run : point.runs) {
      if (const auto value = ValueOf(result, outcome.metric, run)) values.push_back(*value);
    }
    if (values.size() < point.runs.size()) continue;
    const Spread spread = SpreadOf(values);
    const auto& best = reproduced.value;
    if (best && (lower ? spread.mean >= best->mean : spread.mean <= best->mean)) continue;
    reproduced.value = spread;
    reproduced.point = point.point;
  }
}

std::string Number(double value) { return fmt::format("{:.4g}", value); }

// Every bound that a value has to keep, as sentences of those that it does not.
std::string Missed(const Reproduced& reproduced, const std::vector<Reproduced>& earlier) {
  const PaperResult& result = *reproduced.result;
  std::vector<std::string> missed;
  const auto other = [&](const PaperResult::Beside& beside) -> std::optional<double> {
    const auto found = std::ranges::find(earlier, beside.of, [](const Reproduced& one) { return one.result->name; });
    if (found != earlier.end() && found->value) return found->value->mean * beside.times + beside.by;
    missed.push_back(fmt::format("no value of '{}'", beside.of));
    return std::nullopt;
  };
  const auto hold = [&](std::optional<double> bound, bool at_least) {
    if (!bound) return;
    if (!reproduced.value) {
      // A target that is not reached takes more rounds than any bound; a run that fails has come to less than any.
      if (at_least != result.to_target()) missed.push_back("no value");
    } else if (at_least ? reproduced.value->mean < *bound : reproduced.value->mean > *bound) {
      missed.push_back(fmt::format("{} {}", at_least ? "at least" : "at most", Number(*bound)));
    }
  };
  hold(result.at_least, true);
  hold(result.at_most, false);
  if (result.at_least_beside) hold(other(*result.at_least_beside), true);
  if (result.at_most_beside) hold(other(*result.at_most_beside), false);
  return Join(missed, ", ");
}

StatusOr<Reproduced> Reproduce(const Paper& paper, const PaperResult& result, const ReproduceOptions& options) {
  Reproduced reproduced{.result = &result, .point = {}, .value = {}, .missed = {}};
  ScenarioOptions scenario{.scenario = paper.name, .sets = result.sets, .db = options.db};
  scenario.rounds = options.quick ? result.quick_rounds : result.rounds;
  RIVULET_ASSIGN_OR_RETURN(std::vector<SweepPoint> points,
                           PointsOf({.grids = result.grids, .lists = {}, .randoms = {}}));
  if (options.quick) points.resize(1);
  RIVULET_ASSIGN_OR_RETURN(const Scenario first, LoadScenario(scenario));
  const auto begin = std::chrono::steady_clock::now();
  RIVULET_ASSIGN_OR_RETURN(std::vector<SweptPoint> swept,
                           RunTrials({.scenario = scenario,
                                      .points = std::move(points),
                                      .first_seed = first.run.seed,
                                      .seeds = options.quick ? 1 : paper.seeds,
                                      .trials = {.db_path = options.db,
                                                 .tag = "paper-" + paper.name,
                                                 .workers = static_cast<int>(options.workers.value_or(0))}}));
  reproduced.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  RIVULET_ASSIGN_OR_RETURN(const SweepOutcome outcome, JudgeSweep(options.db, std::move(swept), paper.metric));
  TakeBest(outcome, reproduced);
  return reproduced;
}

std::string Wanted(const PaperResult& result) {
  std::vector<std::string> wanted;
  if (result.at_least) wanted.push_back("at least " + Number(*result.at_least));
  if (result.at_most) wanted.push_back("at most " + Number(*result.at_most));
  const auto beside = [&](std::string_view what, const std::optional<PaperResult::Beside>& other) {
    if (!other) return;
    const std::string times = other->times == 1 ? "" : fmt::format("{:.4g} × ", other->times);
    const std::string by = other->times != 1 && other->by == 0 ? "" : fmt::format("{:+.4g}", other->by);
    wanted.push_back(fmt::format("{} {}{}{}", what, times, other->of, by));
  };
  beside("at least", result.at_least_beside);
  beside("at most", result.at_most_beside);
  return Join(wanted, ", ");
}

std::string MeasureText(const PaperResult& result, const std::string& metric) {
  switch (result.measure) {
    case PaperMeasure::kRounds:
      return fmt::format("rounds to {} {}", metric, Number(result.target));
    case PaperMeasure::kVirtualSeconds:
      return fmt::format("virtual seconds to {} {}", metric, Number(result.target));
    case PaperMeasure::kBest:
      return "best " + metric;
    case PaperMeasure::kLast:
      return "last " + metric;
  }
  return "";
}

void PrintTable(const Paper& paper, const std::vector<Reproduced>& all, bool quick) {
  Table table({{.name = "result"},
               {.name = "what"},
               {.name = "here"},
               {.name = "published"},
               {.name = "wanted", .rank = 1},
               {.name = "setting", .width = 40, .rank = 3},
               {.name = "time", .rank = 2},
               {.name = ""}});
  for (const Reproduced& one : all) {
    const PaperResult& result = *one.result;
    std::string here = result.to_target() ? "not reached" : "none";
    if (one.value) here = Number(one.value->mean) + (one.value->runs > 1 ? " ± " + Number(one.value->deviation) : "");
    const std::string verdict = quick || Wanted(result).empty() ? "" : one.missed.empty() ? "as wanted" : "missed";
    table.Add({result.name, MeasureText(result, paper.metric), here,
               result.published ? Cell(Number(*result.published)) : Cell(), TextCell(Wanted(result)),
               TextCell(one.point.empty() ? "" : PointName(one.point)), SecondsText(one.seconds), verdict});
  }
  fmt::print("{}\n{}\n{}", paper.about, "published: " + paper.source, table.Text(ResultColumns()));
  if (quick) fmt::print("\na short form: it shows that all of it runs, and holds nothing against the bounds\n");
}

void PrintJson(const Paper& paper, const std::vector<Reproduced>& all, bool quick) {
  Json json = {{"paper", paper.name},
               {"source", paper.source},
               {"metric", paper.metric},
               {"quick", quick},
               {"results", Json::Array()}};
  for (const Reproduced& one : all) {
    Json entry = {
        {"name", one.result->name}, {"what", MeasureText(*one.result, paper.metric)}, {"seconds", one.seconds}};
    entry["value"] = one.value ? Json(one.value->mean) : Json();
    if (one.value) entry["deviation"] = one.value->deviation;
    entry["published"] = one.result->published ? Json(*one.result->published) : Json();
    for (const auto& [key, value] : one.point) entry["setting"][key] = value;
    if (!quick) entry["missed"] = one.missed;
    json["results"].Append(std::move(entry));
  }
  fmt::print("{}\n", json.Dump());
}

void ListPapers(const std::vector<Paper>& papers) {
  for (const Paper& paper : papers) {
    std::string about = paper.about;
    for (size_t line = 0; (line = about.find('\n', line)) != std::string::npos; line += 5)
      about.replace(line, 1, "\n    ");
    fmt::print("{}\n    {}\n", paper.name, about);
  }
}

// Those of `only`, with what they are held against; all without it.
Status KeepOnly(Paper& paper, const std::vector<std::string>& only) {
  std::vector<std::string> names;
  for (const PaperResult& result : paper.results) names.push_back(result.name);
  for (const std::string& name : only) {
    if (std::ranges::find(names, name) == names.end()) {
      return UsageError("--only: '{}' has no result '{}'.{}", paper.name, Shortened(name), DidYouMean(name, names));
    }
  }
  if (only.empty()) return absl::OkStatus();
  std::vector<std::string> kept = only;
  for (size_t i = 0; i < kept.size(); ++i) {
    const PaperResult& result = *std::ranges::find(paper.results, kept[i], &PaperResult::name);
    for (const auto& beside : {result.at_least_beside, result.at_most_beside})
      if (beside) kept.push_back(beside->of);
  }
  std::erase_if(paper.results, [&](const PaperResult& r) { return std::ranges::find(kept, r.name) == kept.end(); });
  return absl::OkStatus();
}

Status ReproducePaper(const ReproduceOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<Paper> papers, ShippedPapers());
  if (options.name.empty()) {
    ListPapers(papers);
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const Paper& paper : papers) names.push_back(paper.name);
  const auto paper = std::ranges::find(papers, options.name, &Paper::name);
  if (paper == papers.end()) {
    return UsageError("there is no paper '{}'; 'rivulet reproduce' lists them.{}", Shortened(options.name),
                      DidYouMean(options.name, names));
  }
  RIVULET_RETURN_IF_ERROR(KeepOnly(*paper, options.only));
  std::vector<Reproduced> all;
  size_t missed = 0;
  for (const PaperResult& result : paper->results) {
    if (CurrentProgressStyle() == ProgressStyle::kText) PrintNote(result.name, Note::kProgress);
    RIVULET_ASSIGN_OR_RETURN(Reproduced reproduced, Reproduce(*paper, result, options));
    if (!options.quick) reproduced.missed = Missed(reproduced, all);
    missed += reproduced.missed.empty() ? 0 : 1;
    all.push_back(std::move(reproduced));
  }
  if (options.json) {
    PrintJson(*paper, all, options.quick);
  } else {
    PrintTable(*paper, all, options.quick);
  }
  if (missed == 0) return absl::OkStatus();
  return FailedPrecondition("{} of {} results of '{}' did not come out as wanted", missed, all.size(), paper->name);
}

const RegisterCommand kReproduce(12, [] {
  auto options = std::make_shared<ReproduceOptions>();
  Command command{.name = "reproduce",
                  .summary = "Run what a paper ran, and hold its numbers against what is published.",
                  .example = "rivulet reproduce\n  rivulet reproduce fedprox-synthetic --quick"};
  command.OptionalPositional("PAPER", &options->name, "which; without it they are listed")
      .Repeated("--only", "RESULT", &options->only, "this result and what it is held against; repeatable")
      .Flag("--quick", &options->quick, "a few rounds of the first setting of each, and no bound is held")
      .Option("--db", "FILE", &options->db,
              "the history; what it has of the paper's runs is not done again [./rivulet.sqlite]")
      .Option("--workers", "N", &options->workers, "threads that train clients [one per core]", {1, 1024})
      .Flag("--json", &options->json, "print what came of it as one JSON object");
  command.run = [options] { return ReproducePaper(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
