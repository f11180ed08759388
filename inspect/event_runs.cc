#include "inspect/event_runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "engine/data/event_file.h"

namespace rivulet {
namespace {

namespace fs = std::filesystem;

constexpr char kVersion[] = "TensorBoard event files";

bool IsEventFile(const fs::path& path) { return path.filename().string().find("tfevents") != std::string::npos; }

// A run's id is also a folder's name, so it has only letters that are allowed there.
std::string RunIdOf(const fs::path& folder, const fs::path& root) {
  const fs::path inside = folder.lexically_relative(root);
  std::string id =
      inside == "." || inside.empty() ? fs::absolute(folder).lexically_normal().filename().string() : inside.string();
  for (char& c : id) {
    const bool good =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' || c == '-';
    if (!good) c = '-';
  }
  id.erase(0, id.find_first_not_of(".-"));
  if (id.size() > 200) id.resize(200);
  return id.empty() ? "events" : id;
}

// As TOML, like the keys of our own runs.
std::string TextOf(const HyperParameter& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  std::string text = "\"";
  for (const char c : std::get<std::string>(value)) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string StatusOf(const std::optional<SummaryEnd>& end) {
  return end == SummaryEnd::kFailure ? "failed" : end == SummaryEnd::kRunning ? "interrupted" : "finished";
}

// Whether seconds since 1970 can be written as a date. Negative ones, NaN, and milliseconds cannot.
bool IsTime(double seconds) {
  constexpr double kYear10000 = 253'402'300'800;
  return seconds > 0 && seconds < kYear10000;
}

double TimeOfFile(const fs::path& file) {
  struct stat info;
  return stat(file.c_str(), &info) == 0 ? static_cast<double>(info.st_mtime) : 1;
}

// Several files in one folder are one restarted run: their numbers are joined by time. One without a time counts as
// earlier than any with one; among those, their order counts.
StatusOr<EventRun> ReadRun(const std::string& run_id, std::vector<fs::path> files) {
  EventRun made;
  std::optional<SummaryEnd> end;
  double first = 0, last = 0;
  std::map<std::pair<std::string, int64_t>, std::pair<double, double>> numbers;  // (tag, step) → time, value
  std::map<std::string, std::string> keys;
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    RIVULET_ASSIGN_OR_RETURN(const EventFileNumbers read, ReadEventFile(file.string()));
    const auto take_time = [&](double seconds) {
      if (!IsTime(seconds)) return false;
      first = first == 0 ? seconds : std::min(first, seconds);
      last = std::max(last, seconds);
      return true;
    };
    take_time(read.first_time);
    take_time(read.last_time);
    int64_t without_time = 0;
    double example = 0;
    if (read.end) end = read.end;
    for (const auto& [key, value] : read.hyperparameters) keys[key] = TextOf(value);
    for (const ScalarEvent& scalar : read.scalars) {
      if (!std::isfinite(scalar.value)) {
        ++made.not_finite;
        continue;
      }
      const bool timed = take_time(scalar.wall_time);
      if (!timed && without_time++ == 0) example = scalar.wall_time;
      const double at = timed ? scalar.wall_time : 0;
      const auto [known, is_new] = numbers.try_emplace({scalar.tag, scalar.step}, at, scalar.value);
      if (!is_new && at >= known->second.first) known->second = {at, scalar.value};
    }
    if (without_time > 0) {
      made.without_time.push_back(fmt::format(
          "{} numbers of '{}' have times that are no seconds since 1970 (such as {}); they are kept without",
          without_time, file.string(), example));
    }
  }
  if (first == 0) first = last = TimeOfFile(files.front());
  const auto time = [](double seconds) { return Iso8601(std::llround(seconds * 1000)); };
  made.run = {.run_id = run_id,
              .name = run_id,
              .status = StatusOf(end),
              .reason = end == SummaryEnd::kFailure ? "its event file reports a failure" : "",
              .version = kVersion,
              .created_at = time(first),
              .started_at = time(first),
              .finished_at = time(last)};
  for (const auto& [key, value] : keys) made.keys.push_back({run_id, key, value});
  for (const auto& [place, number] : numbers) {
    made.metrics.push_back(
        {.run_id = run_id, .round = place.second, .scope = "central", .name = place.first, .value = number.second});
  }
  return made;
}

}  // namespace

bool MayHoldEventRuns(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) || IsEventFile(path);
}

StatusOr<std::vector<EventRun>> ReadEventRuns(const std::string& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path root = is_folder ? fs::path(path) : fs::path(path).parent_path();
  std::map<std::string, std::vector<fs::path>> by_run;
  if (!is_folder) by_run[RunIdOf(root.empty() ? "." : root, root.empty() ? "." : root)].push_back(path);
  if (is_folder) {
    fs::recursive_directory_iterator walk(root, fs::directory_options::skip_permission_denied, error);
    for (const auto end = fs::recursive_directory_iterator(); !error && walk != end; walk.increment(error)) {
      if (walk->is_regular_file(error) && IsEventFile(walk->path()))
        by_run[RunIdOf(walk->path().parent_path(), root)].push_back(walk->path());
    }
  }
  if (error) return Unavailable("{}: {}", path, error.message());
  std::vector<EventRun> runs;
  for (const auto& [run_id, files] : by_run) {
    RIVULET_ASSIGN_OR_RETURN(EventRun run, ReadRun(run_id, files));
    if (!run.metrics.empty()) runs.push_back(std::move(run));
  }
  if (runs.empty()) {
    return NotFound("'{}' holds {}; give the folder that TensorBoard's --logdir names", path,
                    by_run.empty() ? "no event files" : "event files without a single number");
  }
  return runs;
}

}  // namespace rivulet
