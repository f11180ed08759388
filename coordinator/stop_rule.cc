#include "coordinator/stop_rule.h"

#include <cmath>

#include "coordinator/commit/version_writer.h"

namespace rivulet {
namespace {

std::string NamesOf(const std::map<std::string, Measure>& central) {
  if (central.empty()) return "nothing (data.test)";
  std::string names;
  for (const auto& [name, measure] : central) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

// A metric without a set is the validation set's, if there is one, as for every choice by a metric.
std::map<std::string, Measure>::const_iterator FindMeasure(const std::map<std::string, Measure>& central,
                                                           const std::string& metric) {
  if (const auto named = central.find(metric); named != central.end()) return named;
  for (const char* const set : {"validation/", "test/"}) {
    if (const auto of_set = central.find(set + metric); of_set != central.end()) return of_set;
  }
  return central.end();
}

}  // namespace

StatusOr<StopRule> StopRule::Create(const RunConfig& config) {
  StopRule rule;
  rule.patience_ = config.patience;
  rule.text_ = config.stop;
  if (config.stop.empty()) return rule;
  RIVULET_ASSIGN_OR_RETURN(rule.condition_, StopCondition::Parse(config.stop));
  return rule;
}

StatusOr<std::string> StopRule::After(const std::map<std::string, Measure>& central) {
  RIVULET_ASSIGN_OR_RETURN(const std::string no_better, NoBetter(central));
  RIVULET_ASSIGN_OR_RETURN(const std::string reached, Reached(central));
  return reached.empty() ? no_better : reached;
}

StatusOr<std::string> StopRule::Reached(const std::map<std::string, Measure>& central) const {
  if (!condition_) return "";
  const auto measure = FindMeasure(central, condition_->metric);
  if (measure == central.end()) {
    return FailedPrecondition("run.stop is \"{}\", and versions are measured by {}; name one of these", text_,
                              NamesOf(central));
  }
  const auto& [name, found] = *measure;
  if (!condition_->Holds(found.value)) return "";
  return fmt::format("{} is {:.6g}, and run.stop is \"{}\"", name, found.value, text_);
}

StatusOr<std::string> StopRule::NoBetter(const std::map<std::string, Measure>& central) {
  if (patience_ == 0) return "";
  const std::optional<double> worth = WorthOf(central);
  if (!worth) {
    return FailedPrecondition("run.patience goes by accuracy or loss, and versions are measured by {}; leave it out",
                              NamesOf(central));
  }
  if (std::isfinite(*worth) && (!best_ || *worth > *best_)) {
    best_ = worth;
    no_better_ = 0;
    return "";
  }
  if (++no_better_ < patience_) return "";
  return fmt::format("{} measured version{} after the best so far {} no better, as many as run.patience says",
                     no_better_, no_better_ == 1 ? "" : "s", no_better_ == 1 ? "was" : "were");
}

}  // namespace rivulet
