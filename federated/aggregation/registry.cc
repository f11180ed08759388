// Rules by name.
#include <map>

#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "federated/aggregation/aggregation.h"

namespace rivulet {
namespace {

// Made at first use and never destroyed: registrations of other files run before main in an order that nobody knows.
std::map<std::string, AggregationFactory>& Rules() {
  static auto* const rules = new std::map<std::string, AggregationFactory>;
  return *rules;
}

}  // namespace

AggregationRegistration::AggregationRegistration(const char* rule, AggregationFactory factory) {
  const bool added = Rules().emplace(rule, factory).second;
  RIVULET_CHECK(added, "two aggregation rules are named '{}'", rule);
}

StatusOr<std::unique_ptr<Aggregation>> Aggregation::Create(const AggregationSpec& spec) {
  const auto rule = Rules().find(spec.rule);
  if (rule == Rules().end()) {
    std::vector<std::string> names;
    for (const auto& [name, factory] : Rules()) names.push_back(name);
    return NotFound("there is no aggregation rule '{}'.{}", spec.rule, DidYouMean(spec.rule, names));
  }
  RIVULET_RETURN_IF_ERROR(ValidateSpec(spec));
  return rule->second(spec);
}

}  // namespace rivulet
