// Names of the classes of a scenario's data, stored by an import beside its records.
#pragma once

#include <string>
#include <vector>

#include "federated/scenario/scenario.h"

namespace rivulet {

// The names beside `records`, else beside the scenario's test set, else beside its training set. Empty: the examples
// have no classes, or there are no names.
std::vector<std::string> ClassNamesOf(const Scenario& scenario, const std::string& records = "");

}  // namespace rivulet
