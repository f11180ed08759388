// Rules by name.
#include <map>

#include "engine/base/nearest.h"
#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/word_sums.h"
#include "federated/settings/registered_piece.h"

namespace rivulet {
namespace {

// Created at first use and never destroyed: registrations of other files run before main in an unspecified order.
std::map<std::string, AggregationFactory>& Rules() {
  static auto* const rules = new std::map<std::string, AggregationFactory>;
  return *rules;
}

}  // namespace

AggregationRegistration::AggregationRegistration(const char* rule, AggregationFactory factory) {
  RegisterPiece("aggregation rule", rule, [rule = std::string(rule), factory] { Rules().emplace(rule, factory); });
}

StatusOr<std::unique_ptr<Aggregation>> RuleWithoutWords(const AggregationSpec& spec) {
  const auto rule = Rules().find(spec.rule);
  if (rule == Rules().end()) {
    std::vector<std::string> names;
    for (const auto& [name, factory] : Rules()) names.push_back(name);
    return NotFound("there is no aggregation rule '{}'.{}", spec.rule, DidYouMean(spec.rule, names));
  }
  RIVULET_RETURN_IF_ERROR(ValidateSpec(spec));
  return rule->second(spec);
}

StatusOr<std::unique_ptr<Aggregation>> Aggregation::Create(const AggregationSpec& spec,
                                                           std::shared_ptr<SumFiles> files) {
  RIVULET_ASSIGN_OR_RETURN(auto aggregation, RuleWithoutWords(spec));
  if (!spec.secure.on()) {
    aggregation->sum_files_ = std::move(files);
    return aggregation;
  }
  RIVULET_ASSIGN_OR_RETURN(auto one, RuleWithoutWords(spec));
  return SumByWords(std::move(aggregation), std::move(one));
}

}  // namespace rivulet
