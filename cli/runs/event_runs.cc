#include "cli/runs/event_runs.h"

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

// A run's id is a folder's name too, so it has the letters of one.
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

// As TOML writes it, like the keys of our own runs.
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

// Several files in one folder are one run that was begun again: their numbers are joined by time.
StatusOr<EventRun> ReadRun(const std::string& run_id, std::vector<fs::path> files) {
  EventRun made;
  std::optional<SummaryEnd> end;
  double first = 0, last = 0;
  std::map<std::pair<std::string, int64_t>, std::pair<double, double>> numbers;  // (tag, step) → time, value
  std::map<std::string, std::string> keys;
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    RIVULET_ASSIGN_OR_RETURN(const EventFileNumbers read, ReadEventFile(file.string()));
    if (read.first_time > 0) first = first == 0 ? read.first_time : std::min(first, read.first_time);
    last = std::max(last, read.last_time);
    if (read.end) end = read.end;
    for (const auto& [key, value] : read.hyperparameters) keys[key] = TextOf(value);
    for (const ScalarEvent& scalar : read.scalars) {
      if (!std::isfinite(scalar.value)) {
        ++made.not_finite;
        continue;
      }
      auto& known = numbers[{scalar.tag, scalar.step}];
      if (scalar.wall_time >= known.first) known = {scalar.wall_time, scalar.value};
    }
  }
  const auto time = [](double seconds) { return Iso8601(std::llround(seconds * 1000)); };
  made.run = {.run_id = run_id,
              .name = run_id,
              .status = StatusOf(end),
              .reason = end == SummaryEnd::kFailure ? "its event file says that it failed" : "",
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
