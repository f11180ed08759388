// Choice of a version for a request: by version, by label, or by the shares of a name. Immutable; a switch replaces it
// as a whole, so that each request sees one state.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "serving/canary_watch.h"
#include "serving/loaded_version.h"
#include "serving/model_counts.h"

namespace rivulet {

// A version for a request, with the counts of its label.
struct Route {
  std::shared_ptr<const LoadedVersion> version;
  std::string label;  // "": the request named the version
  std::shared_ptr<ModelCounts> counts;
  std::shared_ptr<ComparedSide> compared = nullptr;  // null: the request is not compared

  void Tell(const Status& status, int64_t rows, const RequestTimes& times) const;
};

struct RoutedLabel {
  std::shared_ptr<const LoadedVersion> version;
  double share = 0;  // percent
  std::shared_ptr<ModelCounts> counts;
};

struct Routing {
  std::string name;
  std::map<std::string, RoutedLabel, std::less<>> labels;  // those with an available version
  std::shared_ptr<CanaryWatch> watch;                      // null: no canary is compared

  // `version` is a number, a label, or ""; `key` decides between canary and stable. NOT_FOUND: no such version or label
  // is served (lists those that are). FAILED_PRECONDITION: no version or label was given, and there is no stable one.
  StatusOr<Route> Choose(std::string_view version, std::string_view key) const;
};

// Whether a key is among the first `percent` of all keys. A key that is among them stays when the share grows.
bool FallsInto(std::string_view name, std::string_view key, double percent);

}  // namespace rivulet
