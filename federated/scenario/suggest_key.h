// The scenario key that a word probably means: a misspelt key, a key of another table, or its name in Flower, PyTorch
// and papers. Errors of scenarios, of command lines and of the Python package use it for suggestions.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

// "client.optimizer.learning_rate" for "lr", "client.lr" and "optimizer.lr"; "" if no key is near. Ignores case, '-'
// and '_'. Prefers the nearest key of the same table.
std::string NearestScenarioKey(std::string_view unknown);

}  // namespace rivulet
