#include "cli/run/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/command.h"
#include "engine/base/quantities.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

std::string_view TimeOf(const EventRow& event) {  // of the day, UTC
  return event.at.size() < 19 ? std::string_view(event.at) : std::string_view(event.at).substr(11, 8);
}

}  // namespace

std::string EvaluationLine(const EvaluationReport& report) {
  if (!report.reason.empty())
    return fmt::format("round {} was not measured by clients: {}", report.round, OneLine(report.reason));
  // "evaluate/loss" is of the model, "personal/loss" of clients' own models.
  constexpr std::string_view kPrefix = "evaluate/";
  std::string text;
  for (const auto& [name, value] : report.federated) {
    if (std::ranges::count(name, '/') > 1) continue;
    std::string measure = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    std::ranges::replace(measure, '/', ' ');
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", measure, MetricText(value));
    const auto low = report.federated.find(name + "/p10"), high = report.federated.find(name + "/p90");
    if (low != report.federated.end() && high != report.federated.end())
      text += fmt::format(" ({} to {})", MetricText(low->second), MetricText(high->second));
  }
  return fmt::format("round {}, measured by {} clients: {}", report.round, report.folded, text);
}

void RoundTracker::Round(const RoundReport& committed) {
  round_ = committed.round;
  ++rounds_seen_;
  const auto accuracy = committed.central.find("test/accuracy"), loss = committed.central.find("test/loss");
  if (accuracy != committed.central.end()) accuracy_ = accuracy->second;
  tested_ = loss != committed.central.end();
  loss_ = tested_ ? std::optional(loss->second) : committed.train_loss;
  virtual_seconds_ = committed.virtual_seconds;
  others_.clear();
  for (const auto& [name, value] : committed.central) {
    const std::string set = name.substr(0, name.find('/'));
    const bool tells_most =
        name == set + "/accuracy" || (name == set + "/loss" && !committed.central.contains(set + "/accuracy"));
    if (set != "test" && tells_most) others_ += fmt::format(" {} {} ", name, MetricText(value));
  }
}

std::optional<double> RoundTracker::SecondsLeft(double within) const {
  if (round_ >= rounds_ || rounds_seen_ == 0) return std::nullopt;
  const double done = static_cast<double>(rounds_seen_) + within;
  return Elapsed() / done * (static_cast<double>(rounds_ - round_) - within);
}

double RoundTracker::Elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

std::string RoundTracker::Json(int64_t round) const {
  Fields fields = {{"progress", std::string("round")},
                   {"round", round},
                   {"rounds", rounds_},
                   {"accuracy", CellOrNull(accuracy_)},
                   {"loss", CellOrNull(loss_)},
                   {"seconds", Elapsed()},
                   {"seconds_left", CellOrNull(SecondsLeft(0))}};
  if (virtual_seconds_) fields.emplace_back("virtual_seconds", *virtual_seconds_);
  return JsonObject(fields);
}

std::string RoundTracker::Head(int64_t round) const {
  return fmt::format("round {:>{}}/{}", round, std::to_string(rounds_).size(), rounds_);
}

std::string RoundTracker::Accuracy() const {
  return accuracy_ ? fmt::format(" accuracy {:.4f} ", *accuracy_) : std::string();
}

std::string RoundTracker::Loss() const {
  return loss_ ? fmt::format(" {} loss {} ", tested_ ? "test" : "train", MetricText(*loss_)) : std::string();
}

std::string RoundTracker::Measured(size_t columns) const {
  std::string line = Head(round_) + Accuracy() + Loss() + others_;
  if (line.size() > columns) line = Head(round_) + Accuracy() + Loss();
  while (line.ends_with(' ')) line.pop_back();
  return line.substr(0, columns);
}

std::string RoundTracker::Line(int64_t round, double within, size_t columns, const std::string& more) const {
  const auto bar = [&](int width) {
    return fmt::format(" [{}]",
                       Bar(static_cast<int64_t>((static_cast<double>(round_) + within) * 1000), rounds_ * 1000, width));
  };
  const std::string head = Head(round), accuracy = Accuracy(), loss = Loss();
  std::string time;
  const std::string devices =
      virtual_seconds_ ? fmt::format(" virtual {} ", SecondsText(*virtual_seconds_)) : std::string();
  if (round_ >= rounds_) {
    time = fmt::format(" in {}", FormatDuration(Elapsed()));
  } else if (const std::optional<double> left = SecondsLeft(within)) {
    time = fmt::format(" ETA {}", FormatDuration(*left));
  }
  // From the full line to the round's number alone; a line that wraps would be redrawn below itself again and
  // again.
  const std::string all[] = {head + bar(20) + accuracy + loss + others_ + devices + time + more,
                             head + bar(20) + accuracy + loss + others_ + devices + time,
                             head + bar(20) + accuracy + loss + devices + time,
                             head + bar(8) + accuracy + loss + devices + time,
                             head + accuracy + loss + time,
                             head + accuracy + time,
                             head + time,
                             head};
  for (const std::string& line : all)
    if (columns == 0 || line.size() <= columns) return line;
  return head.substr(0, columns);
}

void RoundProgress::Draw(const std::string& line) {
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = Clock::now();
  open_ = true;
}

void RoundProgress::Clear() {
  if (open_) fmt::print(stderr, "\r\033[K");
  open_ = false;
}

void RoundProgress::Say(const std::string& sentence) {
  Clear();
  PrintNote(sentence, Note::kImportant);
}

void RoundProgress::Folded(int64_t round, int64_t folded, int64_t selected) {
  const ProgressStyle style = CurrentProgressStyle();
  if (!terminal_ && style != ProgressStyle::kJson) return;
  MutexLock lock(mutex_);
  if (Clock::now() - drawn_ < std::chrono::milliseconds(80)) return;
  if (style == ProgressStyle::kJson) {
    drawn_ = Clock::now();
    fmt::print(
        stderr, "{}\n",
        JsonObject(
            {{"progress", std::string("updates")}, {"round", round}, {"folded", folded}, {"selected", selected}}));
    return;
  }
  const double within = selected > 0 ? static_cast<double>(folded) / static_cast<double>(selected) : 0;
  Draw(tracker_.Line(round, within, TerminalColumns(), fmt::format("  {}/{} clients", folded, selected)));
}

// A round continues without a client whose data are broken, and their owner should know. Each client is reported once,
// and of many only some: the history names them all. If events are observed, they report it.
void RoundProgress::TellLost(const RoundReport& report) {
  constexpr size_t kMost = 20;
  if (hears_events_) return;
  for (const RoundReport::Lost& lost : report.lost) {
    if (told_lost_.size() > kMost || !told_lost_.insert(lost.client_id).second) continue;
    Say(told_lost_.size() > kMost
            ? "more clients are refused or fail; the run's history names each"
            : fmt::format("round {}: client '{}' {}", report.round, lost.client_id, OneLine(lost.sentence)));
  }
}

void RoundProgress::Round(const RoundReport& report) {
  MutexLock lock(mutex_);
  TellLost(report);
  if (report.status != "committed") {
    return Say(fmt::format("round {}, attempt {}: {}: {}", report.round, report.attempt, report.status, report.reason));
  }
  tracker_.Round(report);
  if (CurrentProgressStyle() == ProgressStyle::kQuiet) return;
  if (CurrentProgressStyle() == ProgressStyle::kJson) {
    fmt::print(stderr, "{}\n", tracker_.Json(report.round));
  } else if (!terminal_) {
    fmt::print(stderr, "{}\n", tracker_.Line(report.round, 0));
  } else {
    const bool last = report.round == tracker_.rounds();
    // With many rounds a second only some lines stay; the last one does, also if a message follows it.
    const bool some = Clock::now() - stayed_ >= std::chrono::milliseconds(100);
    const bool stays = !last && (some || !report.ends_early.empty());
    if (stays) {
      Clear();
      fmt::print(stderr, "{}\n", tracker_.Measured(TerminalColumns()));
      stayed_ = Clock::now();
    }
    if (last || stays || Clock::now() - drawn_ >= std::chrono::milliseconds(40)) {
      Draw(tracker_.Line(report.round, 0, TerminalColumns()));
    }
  }
  if (!report.ends_early.empty()) Say(fmt::format("no further round: {}", report.ends_early));
}

void RoundProgress::Note(const std::string& sentence) {
  MutexLock lock(mutex_);
  Say(sentence);
}

void RoundProgress::Event(const EventRow& event) {
  constexpr int64_t kNamed = 10;
  MutexLock lock(mutex_);
  hears_events_ = true;
  if (event.source == "client") {
    if (losing_round_ != event.round) losses_ = 0;
    losing_round_ = event.round;
    if (++losses_ > kNamed) return;
  } else {
    if (losses_ > kNamed) {
      Say(fmt::format("{} and {} more of round {}", TimeOf(event), losses_ - kNamed, losing_round_.value_or(0)));
    }
    losses_ = 0;
  }
  if (event.source == "round") return;  // the round's own line reports it
  if (event.level == "info" && CurrentProgressStyle() == ProgressStyle::kQuiet) return;
  Say(fmt::format("{} {}", TimeOf(event), OneLine(event.message)));
}

void RoundProgress::Evaluation(const EvaluationReport& report) {
  MutexLock lock(mutex_);
  if (!report.reason.empty() && hears_events_) return;  // it is an event
  if (CurrentProgressStyle() == ProgressStyle::kQuiet) return;
  Say(EvaluationLine(report));
}

void RoundProgress::Finish() {
  MutexLock lock(mutex_);
  if (open_) fmt::print(stderr, "\n");
  open_ = false;
}

void RoundProgress::Observe(CoordinatorObserver& observer) {
  observer.on_progress = [this](int64_t round, int64_t folded, int64_t selected) { Folded(round, folded, selected); };
  observer.on_round = [this](const RoundReport& report) { Round(report); };
  observer.on_evaluation = [this](const EvaluationReport& report) { Evaluation(report); };
}

}  // namespace rivulet
