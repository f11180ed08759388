// Replacement of an algorithm's local rule by the scenario's (algorithm.graph).
#pragma once

#include "engine/base/status.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/composition.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

// The options of the scenario's [algorithm] that are the algorithm's own; what else stands there are settings of a
// rule, where there is one.
SettingValues OptionsOf(const Algorithm& algorithm, const Scenario& scenario);

// Reads the rule's file and has the composition's clients follow it. Nothing where there is none. Of the server nothing
// changes, so that a coordinator that has a plan needs no file.
// NOT_FOUND: no such file, a setting that the rule has not. INVALID_ARGUMENT: no rule
// (federated/local_rules/own_rule.h), an algorithm whose clients train in a way of their own that its options are
// about, or that sends or reads other than the rule.
Status TakeRule(const Scenario& scenario, Composition& composition);

}  // namespace rivulet
