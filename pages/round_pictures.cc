#include "pages/round_pictures.h"

#include <algorithm>
#include <map>
#include <span>

#include "coordinator/history/questions.h"
#include "engine/base/quantities.h"
#include "pages/figures.h"
#include "pages/page_parts.h"

namespace rivulet {
namespace {

constexpr const char* kPartNames[] = {"waited", "trained", "uploaded"};
constexpr const char* kPartColours[] = {kColours[4], kColours[5], kColours[2]};
constexpr const char* kStageNames[] = {"clients at work", "aggregation", "evaluation"};
constexpr const char* kStageColours[] = {kColours[5], kColours[1], kColours[2]};
constexpr size_t kMostRoundBars = 60;
constexpr size_t kClientsDrawn = 16, kLossesListed = 20;
constexpr double kBarsLeft = 62, kBarsRight = 704;

void AddLegend(Picture& picture, double x, double y, double step, std::span<const char* const> names,
               std::span<const char* const> colours) {
  for (size_t i = 0; i < names.size(); ++i) {
    const double left = x + step * static_cast<double>(i);
    picture.Rectangle(left, y, 12, 12, colours[i]);
    picture.Text(left + 18, y + 10, names[i]);
  }
}

// One attempt, or several consecutive ones.
struct RoundsBar {
  std::array<double, 3> stages{};
  int64_t first = 0, last = 0;  // rounds
  bool abandoned = false;
  double seconds() const { return stages[0] + stages[1] + stages[2]; }
};

std::vector<RoundsBar> BarsOf(const std::vector<RoundRow>& attempts) {
  const size_t count = std::min(attempts.size(), kMostRoundBars);
  std::vector<RoundsBar> bars(count);
  for (size_t i = 0; i < attempts.size(); ++i) {
    RoundsBar& bar = bars[i * count / attempts.size()];
    const RoundRow& attempt = attempts[i];
    if (bar.first == 0) bar.first = attempt.round;
    bar.last = attempt.round;
    bar.stages[0] += attempt.train_seconds;
    bar.stages[1] += attempt.aggregate_seconds;
    bar.stages[2] += attempt.evaluate_seconds;
    bar.abandoned = bar.abandoned || attempt.status != "committed";
  }
  return bars;
}

// One client's tasks in the newest attempts.
struct ClientLane {
  std::string client_id;
  std::vector<const TaskInTime*> tasks;
  size_t lost = 0;
  double longest = 0;
};

template <typename Task>
TaskParts PartsOf(const Task& task) {
  return TaskPartsOf(task.wait_seconds, task.train_seconds, task.upload_seconds);
}

std::vector<ClientLane> LanesOf(const std::vector<TaskInTime>& tasks) {
  std::map<std::string, ClientLane> by_client;
  for (const TaskInTime& task : tasks) {
    ClientLane& lane = by_client[task.client_id];
    lane.client_id = task.client_id;
    lane.tasks.push_back(&task);
    lane.lost += task.status == "folded" ? 0 : 1;
    lane.longest = std::max(lane.longest, SecondsOf(PartsOf(task)));
  }
  std::vector<ClientLane> lanes;
  for (auto& [client_id, lane] : by_client) lanes.push_back(std::move(lane));
  std::ranges::stable_sort(lanes, [](const ClientLane& a, const ClientLane& b) {
    return a.lost != b.lost ? a.lost > b.lost : a.longest > b.longest;
  });
  return lanes;
}

// When its work began, in seconds after `origin_unix_ms`. A task that took longer than the attempt in which it ended
// had begun before that.
double BeganAt(const TaskInTime& task, int64_t origin_unix_ms) {
  const auto after = [&](int64_t unix_ms) { return static_cast<double>(unix_ms - origin_unix_ms) / 1000; };
  return std::max(0.0, std::min(after(task.started_unix_ms), after(task.finished_unix_ms) - SecondsOf(PartsOf(task))));
}

std::string HowLost(const TaskInTime& task) {
  return task.error.empty() ? task.status : fmt::format("{}: {}", task.status, task.error);
}

Picture LanesPicture(std::span<const ClientLane> lanes, const std::vector<TaskInTime>& tasks,
                     const std::string& place) {
  constexpr double kRow = 16, kNames = 150, kTop = 46;
  const int64_t origin = std::ranges::min(tasks, {}, &TaskInTime::started_unix_ms).started_unix_ms;
  const int64_t end = std::ranges::max(tasks, {}, &TaskInTime::finished_unix_ms).finished_unix_ms;
  const double seconds = std::max(static_cast<double>(end - origin) / 1000, 1e-3),
               scale = (kBarsRight - kNames) / seconds;
  const double bottom = kTop + kRow * static_cast<double>(lanes.size()) + 4;
  Picture picture{.width = 720, .height = bottom + 28, .label = "tasks of the newest rounds over time", .marks = {}};
  AddPartsLegend(picture, kNames);
  picture.Text(kNames + 330, 16, "\u2717 failed");
  std::map<std::pair<int64_t, int64_t>, int64_t> attempts;  // round and attempt, with the time of its begin
  for (const TaskInTime& task : tasks) attempts[{task.round, task.attempt}] = task.started_unix_ms;
  double labelled = -100;
  for (const auto& [attempt, started] : attempts) {
    const double x = kNames + static_cast<double>(started - origin) / 1000 * scale;
    picture.Line({{x, kTop - 2}, {x, bottom}}).opacity = 0.25;
    if (x - labelled < 60 || x > picture.width - 60) continue;  // names would touch, or be cut
    picture.Text(x, kTop - 8, fmt::format("round {}", attempt.first), Anchor::kStart, 11).link =
        RoundAddress(place, attempt.first);
    labelled = x;
  }
  for (size_t row = 0; row < lanes.size(); ++row) {
    const ClientLane& lane = lanes[row];
    const double y = kTop + kRow * static_cast<double>(row);
    Mark& name = picture.Text(kNames - 8, y + 12, lane.client_id.substr(0, 20), Anchor::kEnd, 11);
    name.title = lane.client_id;
    name.link = ClientAddress(place, lane.client_id);
    for (const TaskInTime* task : lane.tasks) {
      const std::string link = RoundAddress(place, task->round);
      const bool folded = task->status == "folded";
      const std::string title = fmt::format("round {}, {}{}", task->round, PartsText(lane.client_id, PartsOf(*task)),
                                            folded ? "" : "; " + HowLost(*task));
      const double x = AddPartsBar(picture, kNames + BeganAt(*task, origin) * scale, y + 3, kRow - 5, scale,
                                   PartsOf(*task), title, link);
      if (folded) continue;
      Mark& cross = picture.Text(std::min(x + 2, kBarsRight), y + 13, "\u2717", Anchor::kStart, 12);
      cross.title = title;
      cross.link = link;
    }
  }
  picture.Line({{kNames, bottom}, {kBarsRight, bottom}}).opacity = 0.6;
  picture.Text(kNames, bottom + 16, "0 s");
  picture.Text(kBarsRight, bottom + 16, SecondsText(seconds), Anchor::kEnd);
  return picture;
}

std::string LossesTable(const std::vector<TaskInTime>& tasks, const std::string& place) {
  std::vector<std::vector<std::string>> rows;
  size_t lost = 0;
  for (const TaskInTime& task : tasks) {  // newest first
    if (task.status == "folded") continue;
    if (++lost > kLossesListed) continue;
    rows.push_back({RoundLink(place, task.round, fmt::format("{}", task.round)), ClientLink(place, task.client_id),
                    StatusHtml(task.status), XmlText(task.error)});
  }
  if (lost == 0) return "<p>No task failed.</p>\n";
  return HtmlTable({"round#", "client", "status", "why"}, rows) +
         (lost > rows.size() ? fmt::format("<p class=\"faint\">and {} more</p>\n", lost - rows.size()) : "");
}

}  // namespace

std::string PartsText(const std::string& client, const TaskParts& parts) {
  std::string text = client;
  for (size_t i = 0; i < parts.size(); ++i)
    text += fmt::format("{} {} {}", i == 0 ? ":" : ",", kPartNames[i], SecondsText(parts[i]));
  return text;
}

void AddPartsLegend(Picture& picture, double x) { AddLegend(picture, x, 6, 110, kPartNames, kPartColours); }

double AddPartsBar(Picture& picture, double x, double y, double height, double scale, const TaskParts& parts,
                   const std::string& title, const std::string& link) {
  constexpr double kSeen = 0.3;  // points
  const double begin = x;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double width = parts[i] * scale;
    if (width > kSeen) picture.Rectangle(x, y, width, height, kPartColours[i]);
    x += width;
  }
  // One area for the pointer over the whole task, at least wide enough to be hit.
  Mark& over = picture.Rectangle(begin, y, std::max(x - begin, 2.0), height, kPartColours[1]);
  if (x - begin > kSeen) over.opacity = 0.001;
  over.title = title;
  over.link = link;
  return x;
}

std::optional<Picture> RoundsPicture(const std::vector<RoundRow>& attempts, const std::string& place) {
  const std::vector<RoundsBar> bars = BarsOf(attempts);
  double longest = 0;
  for (const RoundsBar& bar : bars) longest = std::max(longest, bar.seconds());
  if (longest <= 0) return std::nullopt;
  constexpr double kTop = 8, kBottom = 128;
  Picture picture{.width = 720, .height = 180, .label = "where the time of each round went", .marks = {}};
  picture.Text(kBarsLeft - 8, 18, SecondsText(longest), Anchor::kEnd);
  const double step = (kBarsRight - kBarsLeft) / static_cast<double>(bars.size());
  for (size_t i = 0; i < bars.size(); ++i) {
    const RoundsBar& bar = bars[i];
    const double x = kBarsLeft + step * static_cast<double>(i);
    double y = kBottom;
    std::string title = bar.first == bar.last ? fmt::format("round {}", bar.first)
                                              : fmt::format("rounds {} to {}", bar.first, bar.last);
    for (size_t stage = 0; stage < 3; ++stage) {
      title += fmt::format(", {} {}", kStageNames[stage], SecondsText(bar.stages[stage]));
      const double height = bar.stages[stage] / longest * (kBottom - kTop);
      y -= height;
      if (height > 0.05) picture.Rectangle(x, y, std::max(step - 1, 0.5), height, kStageColours[stage]);
    }
    if (bar.abandoned) {
      picture.Text(x + step / 2, std::max(y - 2, 12.0), "\u2717", Anchor::kMiddle);
      title += ", an attempt was abandoned";
    }
    Mark& over = picture.Rectangle(x, kTop, step, kBottom - kTop, kStageColours[0]);
    over.opacity = 0.001;
    over.title = std::move(title);
    over.link = RoundAddress(place, bar.last);
  }
  picture.Line({{kBarsLeft, kBottom}, {kBarsRight, kBottom}}).opacity = 0.6;
  picture.Text(kBarsLeft, kBottom + 16, fmt::format("round {}", bars.front().first));
  picture.Text(kBarsRight, kBottom + 16, fmt::format("round {}", bars.back().last), Anchor::kEnd);
  AddLegend(picture, kBarsLeft, 158, 150, kStageNames, kStageColours);
  return picture;
}

Picture TasksPicture(const std::vector<TaskInTime>& tasks, const std::string& place) {
  const std::vector<ClientLane> lanes = LanesOf(tasks);
  return LanesPicture(std::span(lanes).first(std::min(lanes.size(), kClientsDrawn)), tasks, place);
}

std::string TasksTimeline(const std::vector<TaskInTime>& tasks, const std::string& run_id, const std::string& place) {
  if (tasks.empty()) return "";
  const size_t clients = LanesOf(tasks).size();
  const int64_t first = tasks.back().round, last = tasks.front().round;
  const std::string says =
      clients > kClientsDrawn
          ? fmt::format("{} of {} clients: failed tasks first, then the slowest", kClientsDrawn, clients)
          : "";
  return HeadingHtml("tasks",
                     first == last ? fmt::format("Tasks of round {}", last)
                                   : fmt::format("Tasks of rounds {} to {}", first, last),
                     {}) +
         FigureHtml("waited, trained, uploaded", says, TasksPicture(tasks, place),
                    PictureDownloads("of=tasks&run=" + UrlText(place), run_id + "-tasks"), true) +
         LossesTable(tasks, place);
}

std::optional<Picture> TaskLines(std::span<const ClientRoundRow> tasks) {
  double longest = 0;
  for (const ClientRoundRow& task : tasks) longest = std::max(longest, SecondsOf(PartsOf(task)));
  if (longest <= 0) return std::nullopt;
  constexpr double kRow = 14, kLeft = 150, kRight = 700, kTop = 30;
  Picture picture{.width = 720,
                  .height = kTop + kRow * static_cast<double>(tasks.size()) + 40,
                  .label = "tasks over time",
                  .marks = {}};
  AddPartsLegend(picture, kLeft);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ClientRoundRow& task = tasks[i];
    const double y = kTop + kRow * static_cast<double>(i);
    const bool folded = task.status == "folded";
    picture.Text(kLeft - 8, y + 10, (folded ? "" : "\u2717 ") + task.client_id.substr(0, 20), Anchor::kEnd, 11);
    const double x = AddPartsBar(picture, kLeft, y + 2, kRow - 4, (kRight - kLeft) / longest, PartsOf(task),
                                 PartsText(task.client_id, PartsOf(task)), "");
    if (!folded) picture.Text(std::min(x + 6, kRight - 60), y + 10, task.status, Anchor::kStart, 11);
  }
  const double bottom = kTop + kRow * static_cast<double>(tasks.size()) + 4;
  picture.Line({{kLeft, bottom}, {kRight, bottom}}).opacity = 0.6;
  picture.Text(kLeft, bottom + 16, "0 s");
  picture.Text(kRight, bottom + 16, SecondsText(longest), Anchor::kEnd);
  return picture;
}

}  // namespace rivulet
