// Differences between the configurations of runs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/table.h"

namespace rivulet {

using ConfigKeys = std::vector<std::pair<std::string, std::string>>;  // key and its value as TOML

// Of a stored configuration (RunRow::config) the keys that matter: without one of them it would say something else.
// In its order. All keys of one that this program cannot read, such as a newer one's.
ConfigKeys KeysThatMatter(const std::string& config);

// The keys with different values in `runs`. A key without use in a run is not among its keys, and counts as its default
// there.
std::set<std::string> DifferingKeys(const std::vector<std::map<std::string, std::string>>& runs);

// `key` as it is among `keys`, as short as it is clear: "learning_rate" of "client.optimizer.learning_rate" unless
// another ends so, and "algorithm.name" whole.
std::string ShortKey(const std::string& key, const std::set<std::string>& keys);

// `"x"` as the text x, `3` as the integer, anything that is no plain value as its TOML; null of "".
Cell CellOfToml(const std::string& value);

}  // namespace rivulet
