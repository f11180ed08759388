// rivulet runs plot: a metric of one or several runs as curves.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "cli/runs/commands.h"
#include "cli/terminal.h"
#include "coordinator/ledger/ledger.h"
#include "engine/base/nearest.h"
#include "inspect/listed_runs.h"
#include "inspect/picture/chart.h"
#include "inspect/spread.h"

namespace rivulet {
namespace {

struct PlotOptions {
  HistoryOptions history;
  std::vector<std::string> runs;
  std::string metric, out, x = "round";
  bool terminal = false;
};

// The x of a curve's points, by round; nullopt: it is unknown for this round.
using PlaceOf = std::function<std::optional<double>(int64_t round)>;

// For `--x`: rounds, or virtual times of their versions. Nullptr: the run has none.
PlaceOf PlacesOf(const std::string& x, const std::vector<Curve>& curves) {
  if (x == "round") return [](int64_t round) { return std::optional(static_cast<double>(round)); };
  const Curve* const time = FindCurve(curves, kVirtualSeconds);
  if (time == nullptr) return nullptr;
  std::map<int64_t, double> seconds(time->points.begin(), time->points.end());
  return [seconds = std::move(seconds)](int64_t round) {
    const auto found = seconds.find(round);
    return found == seconds.end() ? std::nullopt : std::optional(found->second);
  };
}

Status PlotRuns(const PlotOptions& options) {
  if (options.terminal == !options.out.empty())
    return UsageError("'rivulet runs plot' takes --out FILE.png, --out FILE.svg or --terminal, one of them");
  if (options.x != "round" && options.x != "time")
    return UsageError("--x is '{}'; it must be round or time", Shortened(options.x));
  if (!options.out.empty()) {
    if (const Status name = CheckPictureName(options.out); !name.ok()) return AsUsageError(Annotate(name, "--out"));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  std::vector<std::pair<std::string, std::vector<Curve>>> runs;
  std::vector<std::string> known;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ListedRun> meant, RunsMeant(*history, options.runs));
  for (const ListedRun& run : meant) {
    RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(*history, run.row.run_id));
    for (const Curve& curve : curves) known.push_back(curve.name);
    runs.emplace_back(run.row.run_id, std::move(curves));
  }
  const std::string metric = options.metric.empty() ? FirstMetric(known) : options.metric;
  if (known.empty()) return FailedPrecondition("there is nothing to plot: no round of these runs has a metric yet");
  if (std::ranges::find(known, metric) == known.end())
    return UsageError("--metric: none of these runs has '{}'.{}", Shortened(metric), DidYouMean(metric, known));
  Chart chart{.title = metric, .x_label = options.x == "round" ? "round" : "virtual seconds", .series = {}};
  for (const auto& [run_id, curves] : runs) {
    const auto curve = std::ranges::find(curves, metric, &Curve::name);
    if (curve == curves.end()) {
      fmt::print(stderr, "run {} has no {}\n", run_id, metric);
      continue;
    }
    const PlaceOf place = PlacesOf(options.x, curves);
    if (place == nullptr) {
      return FailedPrecondition("run {} has no virtual time, which a simulation with [devices] has; plot it by round",
                                run_id);
    }
    ChartSeries& series = chart.series.emplace_back();
    series.label = run_id;
    for (const auto& [round, value] : curve->points)
      if (const std::optional<double> x = place(round); x) series.points.emplace_back(*x, value);
  }
  if (options.terminal) {
    fmt::print("{}", ChartText(chart, std::min<size_t>(ResultColumns(), 100), 10));
    return absl::OkStatus();
  }
  RIVULET_RETURN_IF_ERROR(WritePicture(ChartPicture(chart), options.out));
  fmt::print("{}: {} of {} {}\n", options.out, metric, chart.series.size(), chart.series.size() == 1 ? "run" : "runs");
  return absl::OkStatus();
}

}  // namespace

Command RunsPlotCommand() {
  auto options = std::make_shared<PlotOptions>();
  Command command{.name = "plot",
                  .summary = "Draw a metric of one or several runs over their rounds.",
                  .example =
                      "rivulet runs plot latest --terminal\n"
                      "  rivulet runs plot tag=baseline --out accuracy.svg\n"
                      "  rivulet runs plot fedavg fedprox --metric test/loss --out loss.png"};
  command.Positional("RUN", &options->runs, kRunsHelp)
      .Option("--metric", "NAME", &options->metric,
              "the metric, such as test/accuracy, test/loss, train/loss [the first of these in the run]")
      .Option("--x", "WHAT", &options->x,
              "horizontal axis: round, or time: virtual seconds, of simulations with [devices] [round]")
      .Option("--out", "FILE", &options->out, "the drawing to write, .png or .svg; needs no display")
      .Flag("--terminal", &options->terminal, "draw it in the terminal");
  AddHistoryOptions(command, &options->history, false);
  command.run = [options] { return PlotRuns(*options); };
  return command;
}

}  // namespace rivulet
