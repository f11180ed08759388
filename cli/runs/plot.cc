// rivulet runs plot: a metric of one or several runs as a curve each.
#include <algorithm>

#include "cli/picture/chart.h"
#include "cli/runs/commands.h"
#include "cli/runs/spread.h"
#include "cli/terminal.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

struct PlotOptions {
  HistoryOptions history;
  std::vector<std::string> runs;
  std::string metric, out;
  bool terminal = false;
};

Status PlotRuns(const PlotOptions& options) {
  if (options.terminal == !options.out.empty())
    return UsageError("'rivulet runs plot' takes --out FILE.png, --out FILE.svg or --terminal, one of them");
  if (!options.out.empty()) {
    if (const Status name = CheckPictureName(options.out); !name.ok()) return AsUsageError(Annotate(name, "--out"));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto history, OpenToRead(options.history));
  std::vector<std::pair<std::string, std::vector<Curve>>> runs;
  std::vector<std::string> known;
  for (const std::string& name : options.runs) {
    RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(name));
    RIVULET_ASSIGN_OR_RETURN(std::vector<Curve> curves, LoadCurves(*history, run.run_id));
    for (const Curve& curve : curves) known.push_back(curve.name);
    runs.emplace_back(run.run_id, std::move(curves));
  }
  const std::string metric = options.metric.empty() ? FirstMetric(known) : options.metric;
  if (known.empty()) return FailedPrecondition("there is nothing to plot: no round of these runs has a metric yet");
  if (std::ranges::find(known, metric) == known.end())
    return UsageError("--metric: none of these runs has '{}'.{}", Shortened(metric), DidYouMean(metric, known));
  Chart chart{.title = metric, .x_label = "round", .series = {}};
  for (const auto& [run_id, curves] : runs) {
    const auto curve = std::ranges::find(curves, metric, &Curve::name);
    if (curve == curves.end()) {
      fmt::print(stderr, "run {} has no {}\n", run_id, metric);
      continue;
    }
    ChartSeries& series = chart.series.emplace_back();
    series.label = run_id;
    for (const auto& [round, value] : curve->points) series.points.emplace_back(static_cast<double>(round), value);
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
                      "  rivulet runs plot fedavg fedprox --metric test/loss --out loss.png"};
  command.Positional("RUN", &options->runs, kRunHelp)
      .Option("--metric", "NAME", &options->metric,
              "such as test/accuracy, test/loss, train/loss [the first of these that is there]")
      .Option("--out", "FILE", &options->out, "the drawing, .png or .svg; needs no display")
      .Flag("--terminal", &options->terminal, "draw it in the terminal");
  AddHistoryOptions(command, &options->history, false);
  command.run = [options] { return PlotRuns(*options); };
  return command;
}

}  // namespace rivulet
