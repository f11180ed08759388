// rivulet reproduce: runs a paper's experiments and compares the results with the published numbers.
#include <algorithm>
#include <memory>

#include "cli/command.h"
#include "cli/sweep/run_trials.h"
#include "cli/terminal.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/quantities.h"
#include "engine/base/table.h"
#include "simulations/papers/paper.h"
#include "simulations/papers/reproduction.h"

namespace rivulet {
namespace {

std::string Wanted(const PaperResult& result) {
  std::vector<std::string> wanted;
  if (result.at_least) wanted.push_back("at least " + NumberText(*result.at_least));
  if (result.at_most) wanted.push_back("at most " + NumberText(*result.at_most));
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
      return fmt::format("rounds to {} {}", metric, NumberText(result.target));
    case PaperMeasure::kVirtualSeconds:
      return fmt::format("virtual seconds to {} {}", metric, NumberText(result.target));
    case PaperMeasure::kBest:
      return "best " + metric;
    case PaperMeasure::kLast:
      return "last " + metric;
  }
  return "";
}

// For a part of the grid it gives the size of that part: more of it can only improve the best.
std::string Verdict(const Reproduced& one) {
  if (!one.whole()) return fmt::format("{} of {} settings", one.done, one.settings);
  if (Wanted(*one.result).empty()) return "";
  return one.missed.empty() ? "as wanted" : "missed";
}

void PrintTable(const Paper& paper, const std::vector<Reproduced>& all, bool quick) {
  const bool beside = std::ranges::any_of(all, [](const Reproduced& one) { return !one.result->plain_loop.empty(); });
  Table table({{.name = "result"},
               {.name = "what"},
               {.name = "here"},
               {.name = "published"},
               {.name = "PyTorch loop", .only_json = !beside, .width = 40, .rank = 2},
               {.name = "wanted", .rank = 1},
               {.name = "setting", .width = 40, .rank = 3},
               {.name = "time", .rank = 2},
               {.name = ""}});
  for (const Reproduced& one : all) {
    const PaperResult& result = *one.result;
    std::string here = one.done == 0 ? "not run" : result.to_target() ? "not reached" : "none";
    if (one.value)
      here = NumberText(one.value->mean) + (one.value->runs > 1 ? " ± " + NumberText(one.value->deviation) : "");
    table.Add({result.name, MeasureText(result, paper.metric), here,
               result.published ? Cell(NumberText(*result.published)) : Cell(), TextCell(result.plain_loop),
               TextCell(Wanted(result)), TextCell(one.point.empty() ? "" : PointName(one.point)),
               SecondsText(one.seconds), quick ? "" : Verdict(one)});
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
    if (!one.result->plain_loop.empty()) entry["plain_loop"] = one.result->plain_loop;
    for (const auto& [key, value] : one.point) entry["setting"][key] = value;
    if (!quick) {
      entry["missed"] = one.missed;
      entry["settings"] = one.settings;
      entry["settings_done"] = one.done;
    }
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

// The results of `only`, with those they are compared with; all without it.
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

struct ReproduceCommand : ReproduceOptions {
  std::string name, plot;
  std::vector<std::string> only;  // results by name; empty: all
  bool json = false;
};

Status CheckOptions(const ReproduceCommand& options) {
  for (const std::string& setting : options.settings) {
    const size_t equals = setting.find('=');
    if (equals == setting.npos || equals == 0)
      return UsageError("--setting takes KEY=VALUE, not '{}'", Shortened(setting));
  }
  if (options.quick && (options.gathered || options.seeds || !options.settings.empty()))
    return UsageError("--quick is the first setting under the first seed; leave out --gathered, --setting and --seeds");
  if (options.plot.empty()) return absl::OkStatus();
  const Status name = CheckPictureName(options.plot);
  return name.ok() ? name : AsUsageError(Annotate(name, "--plot"));
}

// A key in no grid would have no effect, without a message.
Status CheckSettings(const Paper& paper, const std::vector<std::string>& settings) {
  std::vector<std::string> keys;
  for (const PaperResult& result : paper.results)
    for (const std::string& grid : result.grids) keys.push_back(grid.substr(0, grid.find('=')));
  for (const std::string& setting : settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (std::ranges::find(keys, key) == keys.end())
      return UsageError("--setting: no grid of '{}' has '{}'.{}", paper.name, Shortened(key), DidYouMean(key, keys));
  }
  return absl::OkStatus();
}

Status ReproducePaper(const ReproduceCommand& options) {
  RIVULET_RETURN_IF_ERROR(CheckOptions(options));
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
  RIVULET_RETURN_IF_ERROR(CheckSettings(*paper, options.settings));
  std::vector<Reproduced> all;
  size_t missed = 0;
  for (const PaperResult& result : paper->results) {
    if (!options.gathered && CurrentProgressStyle() == ProgressStyle::kText) PrintNote(result.name, Note::kProgress);
    RIVULET_ASSIGN_OR_RETURN(Reproduced reproduced, Reproduce(*paper, result, options, RunTrialsHere));
    if (!options.quick) reproduced.missed = Missed(reproduced, all);
    missed += reproduced.missed.empty() ? 0 : 1;
    all.push_back(std::move(reproduced));
  }
  if (!options.plot.empty()) RIVULET_RETURN_IF_ERROR(WritePicture(ChartPicture(ChartOf(*paper, all)), options.plot));
  if (options.json) {
    PrintJson(*paper, all, options.quick);
  } else {
    PrintTable(*paper, all, options.quick);
  }
  if (missed == 0) return absl::OkStatus();
  return FailedPrecondition("{} of {} results of '{}' differ from what was wanted", missed, all.size(), paper->name);
}

const RegisterCommand kReproduce(12, [] {
  auto options = std::make_shared<ReproduceCommand>();
  Command command{.name = "reproduce",
                  .summary = "Reproduce a paper's experiments, and compare the results with the published numbers.",
                  .example =
                      "rivulet reproduce\n"
                      "  rivulet reproduce fedprox-synthetic --quick\n"
                      "  rivulet reproduce fedopt-digits --quick --only FedAvg --plot fedopt.svg"};
  command.OptionalPositional("PAPER", &options->name, "the paper; without it, list all")
      .Repeated("--only", "RESULT", &options->only, "run only this result and those it is compared with; repeatable")
      .Repeated("--setting", "KEY=VALUE", &options->settings,
                "run only the grid points with this value, such as client.optimizer.learning_rate=0.1; other points "
                "count if the history has them; repeatable")
      .Option("--seeds", "N", &options->seeds, "runs of each setting [as in the paper's file]", {1, 1000})
      .Flag("--gathered", &options->gathered, "run nothing: report the complete and partial results in the history")
      .Flag("--quick", &options->quick, "run a few rounds of the first setting of each, without checking bounds")
      .Option("--db", "FILE", &options->db, "the history; the paper's runs in it are not repeated [./rivulet.sqlite]")
      .Option("--workers", "N", &options->workers, "threads that train clients [one per core]", {1, 1024})
      .Option("--plot", "FILE", &options->plot,
              "draw each result at its best setting, over rounds or virtual time: .svg or .png")
      .Flag("--json", &options->json, "print the results as one JSON object");
  command.run = [options] { return ReproducePaper(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
