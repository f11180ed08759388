// Replacement of an algorithm's local rule by the scenario's (algorithm.graph).
#pragma once

#include "engine/base/status.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/composition.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// The options in the scenario's [algorithm] that belong to the algorithm; other keys are settings of the rule, if there
// is one.
SettingValues OptionsOf(const Algorithm& algorithm, const Scenario& scenario);

// Reads the rule's file and makes the composition's clients follow it. No effect without a rule. The server is
// unchanged, so a coordinator with a plan does not need the file.
// NOT_FOUND: no such file, or a setting that the rule lacks. INVALID_ARGUMENT: not a rule
// (federated/local_rules/own_rule.h); an algorithm whose options change the clients' training; or an algorithm that
// sends or reads other vectors than the rule.
Status TakeRule(const Scenario& scenario, Composition& composition);

}  // namespace rivulet
