#include "serving/routing.h"

#include <charconv>

#include "engine/base/fingerprint64.h"
#include "engine/base/join.h"
#include "engine/base/shown_text.h"
#include "serving/pointed_names.h"

namespace rivulet {
namespace {

std::string Served(const Routing& routing) {
  std::vector<std::string> texts;
  for (const auto& [label, target] : routing.labels)
    texts.push_back(fmt::format("{} ({})", target.version->pointed.version, label));
  return texts.empty() ? "none" : Join(texts, ", ");
}

}  // namespace

// The name is hashed too, so that the canaries of different names have different users.
bool FallsInto(std::string_view name, std::string_view key, double percent) {
  const uint64_t hash = Fingerprint64(fmt::format("{}\n{}", name, key));
  return static_cast<double>(hash >> 11) * 0x1p-53 * 100 < percent;
}

void Route::Tell(const Status& status, int64_t rows, const RequestTimes& times) const {
  counts->Tell(status, rows, times);
  if (compared != nullptr) compared->Tell(status, times);
}

StatusOr<Route> Routing::Choose(std::string_view version, std::string_view key) const {
  if (version.empty()) {
    const auto stable = labels.find(kStableLabel);
    if (stable == labels.end())
      return FailedPrecondition("'{}' has no label '{}', so a request names a version; served are {}", name,
                                kStableLabel, Served(*this));
    const auto canary = labels.find(kCanaryLabel);
    const bool goes = canary != labels.end() && canary->second.share > 0 && FallsInto(name, key, canary->second.share);
    const auto& [label, target] = goes ? *canary : *stable;
    Route route{target.version, label, target.counts};
    if (watch != nullptr) route.compared = {watch, goes ? &watch->canary : &watch->stable};
    return route;
  }
  if (const auto label = labels.find(version); label != labels.end())
    return Route{label->second.version, label->first, label->second.counts};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), number);
  if (error == std::errc() && end == version.data() + version.size()) {
    for (const auto& [label, target] : labels)
      if (target.version->pointed.version == number) return Route{target.version, "", target.counts};
  }
  return NotFound("'{}' serves no version or label '{}'; served are {}", name, Shortened(version), Served(*this));
}

}  // namespace rivulet
