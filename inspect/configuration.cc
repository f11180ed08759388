#include "inspect/configuration.h"

#include <algorithm>
#include <charconv>

#include "federated/scenario/scenario.h"

namespace rivulet {

// A default may depend on other keys, so it is tested, not looked up: a key is a default if leaving it out gives the
// same configuration. A stored configuration has one key per line.
ConfigKeys KeysThatMatter(const std::string& config) {
  struct Line {
    size_t begin, end;
    std::string key, value;
  };
  std::vector<Line> lines;
  std::string section;
  for (size_t begin = 0; begin < config.size();) {
    const size_t end = std::min(config.find('\n', begin), config.size());
    const std::string_view line = std::string_view(config).substr(begin, end - begin);
    const size_t equals = line.find(" = ");
    if (line.starts_with('[') && line.ends_with(']')) {
      section = std::string(line.substr(1, line.size() - 2)) + ".";
    } else if (equals != line.npos) {
      lines.push_back(
          {begin, end, section + std::string(line.substr(0, equals)), std::string(line.substr(equals + 3))});
    }
    begin = end + 1;
  }
  const StatusOr<Scenario> whole = Scenario::ParseStored(config, "");
  const std::string said = whole.ok() ? whole->ToToml() : "";
  ConfigKeys keys;
  for (const Line& line : lines) {
    if (whole.ok()) {
      std::string without = config;
      without.erase(line.begin, line.end - line.begin);
      const StatusOr<Scenario> rest = Scenario::ParseStored(without, "");
      if (rest.ok() && rest->ToToml() == said) continue;
    }
    keys.emplace_back(line.key, line.value);
  }
  return keys;
}

std::set<std::string> DifferingKeys(const std::vector<std::map<std::string, std::string>>& runs) {
  std::map<std::string, std::string> defaults;
  for (const ScenarioKey& key : ScenarioKeys()) {
    const std::string& said = key.default_value;
    if (said.starts_with('`')) defaults.emplace(key.name, said.substr(1, said.size() - 2));
  }
  std::set<std::string> all, differing;
  for (const auto& run : runs)
    for (const auto& [key, value] : run) all.insert(key);
  for (const std::string& key : all) {
    std::set<std::string> values;
    for (const auto& run : runs) {
      // An unused key is missing from a run; if it has no implied default either, its value counts as "".
      const auto found = run.find(key);
      const auto implied = defaults.find(key);
      values.insert(found != run.end() ? found->second : implied != defaults.end() ? implied->second : "");
    }
    if (values.size() > 1) differing.insert(key);
  }
  return differing;
}

std::string ShortKey(const std::string& key, const std::set<std::string>& keys) {
  for (size_t dot = key.rfind('.'); dot != key.npos; dot = dot == 0 ? key.npos : key.rfind('.', dot - 1)) {
    const std::string tail = key.substr(dot);
    if (tail == ".name" || tail == ".kind") continue;  // alone it would not name its subject
    if (std::ranges::count_if(keys, [&](const std::string& other) { return ("." + other).ends_with(tail); }) == 1)
      return tail.substr(1);
  }
  return key;
}

Cell CellOfToml(const std::string& value) {
  if (value.empty()) return {};
  if (value == "true" || value == "false") return value == "true";
  int64_t integer = 0;
  const char *begin = value.data(), *end = begin + value.size();
  if (const auto read = std::from_chars(begin, end, integer); read.ec == std::errc() && read.ptr == end) return integer;
  double number = 0;
  if (const auto read = std::from_chars(begin, end, number); read.ec == std::errc() && read.ptr == end) return number;
  const bool plain = value.size() >= 2 && value.front() == '"' && value.back() == '"' &&
                     value.find('\\') == value.npos && std::ranges::count(value, '"') == 2;
  return plain ? value.substr(1, value.size() - 2) : value;
}

}  // namespace rivulet
