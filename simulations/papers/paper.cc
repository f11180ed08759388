#include "simulations/papers/paper.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {
namespace {

constexpr std::string_view kEnding = ".expected.json";

// The members of one object, each taken once; the rest are unknown keys.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.IsObject()) error_ = InvalidArgument("{} is no object", where_);
  }
  template <typename T>
  void Take(const char* key, T& value, bool required = false) {
    known_.emplace_back(key);
    if (!error_.ok()) return;
    const Json* const found = json_.Find(key);
    if (found == nullptr) {
      if (required) error_ = InvalidArgument("{} has no '{}'", where_, key);
    } else if (!Read(*found, value)) {
      error_ = InvalidArgument("'{}' of {} is {}", key, where_, found->Dump());
    }
  }
  const Json* Object(const char* key) {
    known_.emplace_back(key);
    return error_.ok() ? json_.Find(key) : nullptr;
  }
  Status Finish() const {
    if (!error_.ok()) return error_;
    for (const auto& [key, value] : json_.members()) {
      if (std::ranges::find(known_, key) == known_.end()) {
        return InvalidArgument("{} has '{}', which means nothing.{}", where_, key, DidYouMean(key, known_));
      }
    }
    return absl::OkStatus();
  }

 private:
  static bool Read(const Json& json, std::string& value) {
    if (json.IsText()) value = json.text();
    return json.IsText();
  }
  static bool Read(const Json& json, int64_t& value) {
    if (json.IsInteger()) value = json.integer();
    return json.IsInteger() && value >= 1;
  }
  static bool Read(const Json& json, double& value) {
    if (json.IsNumber()) value = json.number();
    return json.IsNumber();
  }
  static bool Read(const Json& json, std::optional<double>& value) { return Read(json, value.emplace()); }
  static bool Read(const Json& json, std::vector<std::string>& value) {
    if (!json.IsArray()) return false;
    for (const Json& entry : json.elements()) {
      if (!Read(entry, value.emplace_back())) return false;
    }
    return true;
  }

  const Json& json_;
  const std::string where_;
  std::vector<std::string> known_;
  Status error_;
};

Status ReadBeside(Members& members, const char* key, const std::string& where,
                  std::optional<PaperResult::Beside>& beside) {
  const Json* const object = members.Object(key);
  if (object == nullptr) return absl::OkStatus();
  Members inner(*object, fmt::format("'{}' of {}", key, where));
  PaperResult::Beside read;
  inner.Take("of", read.of, true);
  inner.Take("by", read.by);
  inner.Take("times", read.times);
  beside = std::move(read);
  return inner.Finish();
}

StatusOr<PaperResult> ReadResult(const Json& json, const std::string& paper) {
  PaperResult result;
  std::string measure = "last";
  const std::string where = fmt::format("a result of '{}'", paper);
  Members members(json, where);
  members.Take("name", result.name, true);
  members.Take("set", result.sets);
  members.Take("grid", result.grids);
  members.Take("measure", measure);
  members.Take("target", result.target);
  members.Take("rounds", result.rounds, true);
  members.Take("quick_rounds", result.quick_rounds);
  members.Take("published", result.published);
  members.Take("plain_loop", result.plain_loop);
  members.Take("at_least", result.at_least);
  members.Take("at_most", result.at_most);
  RIVULET_RETURN_IF_ERROR(ReadBeside(members, "at_least_beside", where, result.at_least_beside));
  RIVULET_RETURN_IF_ERROR(ReadBeside(members, "at_most_beside", where, result.at_most_beside));
  RIVULET_RETURN_IF_ERROR(members.Finish());
  constexpr std::pair<std::string_view, PaperMeasure> kMeasures[] = {{"rounds", PaperMeasure::kRounds},
                                                                     {"virtual_seconds", PaperMeasure::kVirtualSeconds},
                                                                     {"last", PaperMeasure::kLast},
                                                                     {"best", PaperMeasure::kBest}};
  const auto* const found = std::ranges::find(kMeasures, measure, &std::pair<std::string_view, PaperMeasure>::first);
  if (found == std::end(kMeasures)) {
    return InvalidArgument("'measure' of {} is '{}'; it is rounds, virtual_seconds, last or best", where, measure);
  }
  result.measure = found->second;
  return result;
}

Status CheckBeside(const Paper& paper) {
  std::set<std::string> earlier;
  for (const PaperResult& result : paper.results) {
    for (const auto& beside : {result.at_least_beside, result.at_most_beside}) {
      if (beside && !earlier.contains(beside->of)) {
        return InvalidArgument("'{}' of '{}' is compared with '{}', which is no earlier result", result.name,
                               paper.name, beside->of);
      }
    }
    earlier.insert(result.name);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Paper> ParsePaper(const std::string& name, const std::string& text) {
  const StatusOr<Json> json = Json::Parse(text);
  if (!json.ok()) return Annotate(json.status(), fmt::format("{}{} is no JSON", name, kEnding));
  Paper paper{.name = name, .about = {}, .scenario = {}, .source = {}, .metric = "test/accuracy", .results = {}};
  Members members(*json, fmt::format("{}{}", name, kEnding));
  members.Take("source", paper.source, true);
  members.Take("metric", paper.metric);
  members.Take("seeds", paper.seeds);
  const Json* const results = members.Object("results");
  RIVULET_RETURN_IF_ERROR(members.Finish());
  if (results == nullptr || results->elements().empty()) {
    return InvalidArgument("{}{} has no list of 'results'", name, kEnding);
  }
  for (const Json& result : results->elements()) {
    RIVULET_ASSIGN_OR_RETURN(paper.results.emplace_back(), ReadResult(result, name));
  }
  RIVULET_RETURN_IF_ERROR(CheckBeside(paper));
  return paper;
}

StatusOr<std::vector<Paper>> ShippedPapers() {
  std::vector<Paper> papers;
  for (const ShippedScenario& scenario : ShippedIn(ShippedFolder::kPapers)) {
    const std::string path = JoinPath(FolderOf(scenario.path), scenario.name + std::string(kEnding));
    RIVULET_ASSIGN_OR_RETURN(const std::string text, FileSystem::Default().ReadAll(path));
    RIVULET_ASSIGN_OR_RETURN(Paper paper, ParsePaper(scenario.name, text));
    paper.about = scenario.about;
    paper.scenario = scenario.path;
    papers.push_back(std::move(paper));
  }
  return papers;
}

}  // namespace rivulet
