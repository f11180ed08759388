#include "pages/live_run.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/quantities.h"
#include "federated/evaluation/evaluator.h"
#include "pages/figures.h"
#include "pages/page_parts.h"
#include "pages/pages.h"

namespace rivulet {
namespace {

constexpr size_t kRoundsShown = 12, kEventsShown = 30, kClientsNamed = 8, kLostNamed = 3;
// The least time between two states for one browser. It gets a round's end within this time and that of drawing curves.
constexpr std::chrono::milliseconds kBetweenStates{50};
constexpr std::chrono::seconds kFarewellOfPages{1};

}  // namespace

// Sends the present state after each change, and a last one after the run's end.
class LiveStream final : public HttpStream {
 public:
  explicit LiveStream(LiveRun& run) : run_(run) {
    MutexLock lock(run_.mutex_);
    ++run_.streams_;
  }
  ~LiveStream() override {
    MutexLock lock(run_.mutex_);
    --run_.streams_;
    run_.changed_.NotifyAll();
  }

  std::optional<std::string> Next(std::chrono::milliseconds patience) override {
    if (ended_) return std::nullopt;
    if (!run_.AwaitChange(seen_, patience)) return "";
    // Changes until then are part of the sent state.
    const auto due = sent_ + kBetweenStates;
    if (const auto now = std::chrono::steady_clock::now(); now < due) std::this_thread::sleep_for(due - now);
    const std::shared_ptr<const LiveRun::Shown> shown = run_.Show();
    sent_ = std::chrono::steady_clock::now();
    seen_ = shown->change;
    std::map<std::string, std::string> places;
    for (const auto& [id, html] : shown->places) {
      std::string& last = last_[id];
      if (last == html) continue;
      places[id] = last = html;
    }
    const Json message = {{"closed", shown->closed_unix_ms}, {"places", places}};
    std::string text = fmt::format("retry: 1000\nevent: show\ndata: {}\n\n", message.Dump());
    ended_ = shown->ended;
    if (ended_) text += "event: end\ndata: \n\n";
    return text;
  }

 private:
  LiveRun& run_;
  uint64_t seen_ = 0;
  bool ended_ = false;
  std::chrono::steady_clock::time_point sent_;
  std::map<std::string, std::string> last_;  // the browser's content of each place
};

void LiveRun::Changed() {
  ++change_;
  changed_.NotifyAll();
}

void LiveRun::AddPoints(int64_t round, const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) {
    if (std::ranges::count(name, '/') > 1) continue;  // distributions over clients
    auto curve = std::ranges::find(curves_, name, &Curve::name);
    if (curve == curves_.end()) {
      curves_.push_back({.name = name, .points = {}, .lower_is_better = LowerIsBetter(name)});
      curve = std::prev(curves_.end());
    }
    if (curve->points.empty() || curve->points.back().first < round) curve->points.emplace_back(round, value);
  }
  ++curves_change_;
}

void LiveRun::Round(const RoundReport& report) {
  MutexLock lock(mutex_);
  newest_.push_front(report);
  if (newest_.size() > kRoundsShown) newest_.pop_back();
  if (report.status == "committed") {
    committed_ = report.round;
    AddPoints(report.round, report.central);
    if (report.train_loss) AddPoints(report.round, {{"train/loss", *report.train_loss}});
  }
  if (report.round >= round_) {
    folded_ = selected_ = offers_ = 0;
    offered_.clear();
  }
  closed_unix_ms_ = Clock::System().UnixMs();
  Changed();
}

void LiveRun::Observe(CoordinatorObserver& observer) {
  observer.on_offer = [this, before = std::move(observer.on_offer)](const std::string& client_id) {
    if (before) before(client_id);
    MutexLock lock(mutex_);
    ++offers_;
    if (offered_.size() < kClientsNamed) offered_.push_back(client_id);
    Changed();
  };
  observer.on_progress = [this, before = std::move(observer.on_progress)](int64_t round, int64_t folded,
                                                                          int64_t selected) {
    if (before) before(round, folded, selected);
    MutexLock lock(mutex_);
    round_ = round;
    folded_ = folded;
    selected_ = selected;
    Changed();
  };
  observer.on_event = [this, before = std::move(observer.on_event)](const EventRow& event) {
    if (before) before(event);
    MutexLock lock(mutex_);
    log_.push_front(event);
    if (log_.size() > kEventsShown) log_.pop_back();
    Changed();
  };
  observer.on_round = [this, before = std::move(observer.on_round)](const RoundReport& report) {
    if (before) before(report);
    Round(report);
  };
  observer.on_evaluation = [this, before = std::move(observer.on_evaluation)](const EvaluationReport& report) {
    if (before) before(report);
    MutexLock lock(mutex_);
    AddPoints(report.round, report.federated);
    Changed();
  };
}

void LiveRun::Begin(std::string run_id, std::vector<Curve> before) {
  MutexLock lock(mutex_);
  run_id_ = std::move(run_id);
  // Rounds may have closed since the run was first observed: they follow those that were read.
  const std::vector<Curve> since = std::exchange(curves_, std::move(before));
  for (const Curve& curve : curves_) committed_ = std::max(committed_, curve.points.back().first);
  for (const Curve& curve : since)
    for (const auto& [round, value] : curve.points) AddPoints(round, {{curve.name, value}});
  Changed();
}

void LiveRun::End(const std::string& sentence) {
  MutexLock lock(mutex_);
  end_ = sentence;
  Changed();
  const auto until = SteadyClock::now() + kFarewellOfPages;
  while (streams_ > 0) {
    const auto left = until - SteadyClock::now();
    if (left <= left.zero() || !changed_.WaitFor(mutex_, left)) return;
  }
}

std::unique_ptr<HttpStream> LiveRun::Open() { return std::make_unique<LiveStream>(*this); }

std::string LiveRun::run_id() const {
  MutexLock lock(mutex_);
  return run_id_;
}

bool LiveRun::AwaitChange(uint64_t seen, std::chrono::milliseconds patience) {
  MutexLock lock(mutex_);
  if (change_ == seen) (void)changed_.WaitFor(mutex_, patience);
  return change_ != seen;
}

std::string LiveRun::StateHtml() const {
  if (!end_.empty()) return fmt::format("<p><b>{}</b></p>\n", XmlText(end_));
  if (offers_ == 0 && selected_ == 0) {
    if (committed_ == 0) return "<p><b>waiting for the first round</b></p>\n";
    return fmt::format("<p><b>round {} of {} is done</b></p>\n<progress max=\"{}\" value=\"{}\"></progress>\n",
                       committed_, rounds_wanted_, rounds_wanted_, committed_);
  }
  const int64_t round = std::max(round_, committed_ + (selected_ > 0 ? 0 : 1));
  std::string html = fmt::format("<p><b>round {} of {}</b>", round, rounds_wanted_);
  if (selected_ > 0) {
    html += fmt::format(", {} of {} updates are in", folded_, selected_);
  } else {
    html += fmt::format(", {} {} handed out", offers_, offers_ == 1 ? "task is" : "tasks are");
  }
  html += fmt::format("</p>\n<progress max=\"{}\" value=\"{}\"></progress>\n", rounds_wanted_ * 1000,
                      committed_ * 1000 + (selected_ > 0 ? folded_ * 1000 / selected_ : 0));
  if (!offered_.empty()) {
    html += fmt::format("<p class=\"faint\">selected: {}{}</p>\n", XmlText(Join(offered_, ", ")),
                        offers_ > static_cast<int64_t>(offered_.size())
                            ? fmt::format(" and {} more", offers_ - static_cast<int64_t>(offered_.size()))
                            : "");
  }
  return html;
}

std::string LiveRun::RoundsHtml() const {
  if (newest_.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const RoundReport& report : newest_) {
    std::string lost;
    for (size_t i = 0; i < std::min(report.lost.size(), kLostNamed); ++i)
      lost += fmt::format("{}{} {}", lost.empty() ? "" : "; ", report.lost[i].client_id, report.lost[i].sentence);
    if (report.lost.size() > kLostNamed) lost += fmt::format("; and {} more", report.lost.size() - kLostNamed);
    if (!report.reason.empty()) lost = report.reason + (lost.empty() ? "" : "; " + lost);
    const auto accuracy = report.central.find("test/accuracy");
    rows.push_back({fmt::format("{}", report.round), fmt::format("{}", report.attempt), XmlText(report.status),
                    fmt::format("{}", report.selected), fmt::format("{}", report.folded),
                    report.train_loss ? MetricText(*report.train_loss) : "",
                    accuracy == report.central.end() ? "" : MetricText(accuracy->second),
                    SecondsText(report.train_seconds), SecondsText(report.aggregate_seconds),
                    SecondsText(report.evaluate_seconds), XmlText(lost)});
  }
  return "<h3>Newest rounds</h3>\n" +
         HtmlTable({"round#", "attempt#", "status", "selected#", "folded#", "train loss#", "?test accuracy#",
                    "clients#", "aggregation#", "evaluation#", "?failures and their reasons"},
                   rows);
}

std::string LiveRun::LogHtml() const {
  if (log_.empty()) return "";
  return "<h3>Log of this process, newest first</h3>\n" + EventsTable({log_.begin(), log_.end()});
}

// The curves are drawn without the run's lock, from a copy: this takes milliseconds, and the run must not wait.
std::shared_ptr<const LiveRun::Shown> LiveRun::Show() {
  MutexLock showing(showing_);
  auto next = std::make_shared<Shown>();
  std::vector<Curve> curves;
  uint64_t curves_change = 0;
  std::string run_id;
  {
    MutexLock lock(mutex_);
    if (shown_ != nullptr && shown_->change == change_) return shown_;
    next->change = change_;
    next->ended = !end_.empty();
    next->closed_unix_ms = closed_unix_ms_;
    next->places = {{"live-state", StateHtml()}, {"live-rounds", RoundsHtml()}, {"live-log", LogHtml()}};
    curves_change = curves_change_;
    if (curves_change != shown_curves_) curves = curves_;
    run_id = run_id_;
  }
  if (curves_change != shown_curves_) {
    std::string html;
    html = CurveFigures(curves, run_id, run_id);
    next->places["live-curves"] = std::move(html);
    shown_curves_ = curves_change;
  } else {
    next->places["live-curves"] = shown_->places.at("live-curves");
  }
  shown_ = next;
  return next;
}

std::string LiveRun::Panel() {
  const std::shared_ptr<const Shown> shown = Show();
  const auto place = [&](const char* id, const char* more = "") {
    return fmt::format("<div id=\"{0}\"{2}>{1}</div>\n", id, shown->places.at(id), more);
  };
  return fmt::format(
             "<section aria-label=\"what happens now\"><p class=\"faint\" id=\"live-link\" data-feed=\"{}\">not "
             "live: the script does not run here</p>\n",
             kFeedPath) +
         place("live-state", " aria-live=\"polite\"") + place("live-curves", " class=\"curves\"") +
         place("live-rounds") + place("live-log") + "</section>\n";
}

}  // namespace rivulet
