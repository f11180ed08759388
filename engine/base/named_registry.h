// A registry of kinds by name, with visitors. Files register their kinds before main. A visitor sees every kind, also
// those registered after the visit began, because registrations have no order.
//
// Not thread-safe: registrations run before main, or while a library is loaded. A registry is made at first use and
// never destroyed:
//
//   NamedRegistry<MetricKind>& Metrics() {
//     static auto* const metrics = new NamedRegistry<MetricKind>("metrics");
//     return *metrics;
//   }
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"

namespace rivulet {

// `Kind` has a member `name`.
template <typename Kind>
class NamedRegistry {
 public:
  using Visit = std::function<void(const Kind&)>;

  explicit NamedRegistry(const char* kinds) : kinds_word_(kinds) {}  // "metrics", for the failed check of Add

  // A check fails where two have one name.
  void Add(Kind kind) {
    std::string name = kind.name;
    const auto [at, added] = kinds_.emplace(std::move(name), std::move(kind));
    RIVULET_CHECK(added, "two {} are named '{}'", kinds_word_, at->first);
    for (const Visit& visit : visitors_) visit(at->second);
  }
  // Null: no kind has that name.
  const Kind* Find(std::string_view name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? nullptr : &found->second;
  }
  // In byte order of their names.
  const std::map<std::string, Kind, std::less<>>& kinds() const { return kinds_; }
  void ForEach(Visit visit) {
    for (const auto& [name, kind] : kinds_) visit(kind);
    visitors_.push_back(std::move(visit));
  }

 private:
  const char* const kinds_word_;
  std::map<std::string, Kind, std::less<>> kinds_;
  std::vector<Visit> visitors_;
};

}  // namespace rivulet
