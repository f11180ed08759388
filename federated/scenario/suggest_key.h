// The scenario key that a word means: a misspelt key, a key of another table, or the name that Flower, PyTorch and
// papers use for it. Errors of scenarios, of command lines and of the Python package all suggest by it.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

// "client.optimizer.learning_rate" for "lr", "client.lr" and "optimizer.lr"; "" where no key is near. Case, '-' and '_'
// make no difference. The nearest key of the same table comes before any other.
std::string NearestScenarioKey(std::string_view unknown);

}  // namespace rivulet
