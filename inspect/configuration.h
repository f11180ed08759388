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

// The keys of a stored configuration (RunRow::config) that matter, in its order: omitting one would change its meaning.
// All its keys if this program cannot read it, such as a newer one's.
ConfigKeys KeysThatMatter(const std::string& config);

// The keys with different values in `runs`. A key that a run does not use is missing there, and counts as its
// default.
std::set<std::string> DifferingKeys(const std::vector<std::map<std::string, std::string>>& runs);

// The shortest unambiguous form of `key` among `keys`: "learning_rate" for "client.optimizer.learning_rate" unless
// another key ends so, but "algorithm.name" in full.
std::string ShortKey(const std::string& key, const std::set<std::string>& keys);

// `"x"` as the text x, `3` as the integer, any other value as its TOML; null for "".
Cell CellOfToml(const std::string& value);

}  // namespace rivulet
