#include "cli/program/help_keys.h"

#include <algorithm>
#include <vector>

#include "cli/program/option_keys.h"
#include "engine/base/shown_text.h"
#include "engine/base/usage_error.h"
#include "engine/base/wildcard.h"
#include "federated/scenario/scenario.h"
#include "federated/scenario/suggest_key.h"

namespace rivulet {
namespace {

constexpr size_t kHelpWidth = 100;

// Without Markdown's marks: links as their words.
std::string WithoutMarkdown(std::string_view markdown) {
  std::string words;
  for (size_t i = 0; i < markdown.size(); ++i) {
    if (markdown[i] == '`') continue;
    const size_t middle = markdown[i] == '[' ? markdown.find("](", i) : std::string_view::npos;
    const size_t end = middle == std::string_view::npos ? middle : markdown.find(')', middle);
    if (end == std::string_view::npos) {
      words += markdown[i];
    } else {
      words += markdown.substr(i + 1, middle - i - 1);
      i = end;
    }
  }
  return words;
}

// Lines of at most kHelpWidth characters, indented.
std::string IndentedLines(std::string_view text) {
  std::string lines, line;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!line.empty() && line.size() + 1 + word.size() > kHelpWidth - 4) {
      lines += "    " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return lines + (line.empty() ? "" : "    " + line + "\n");
}

std::string TextOfKey(const ScenarioKey& key) {
  std::string facts = fmt::format("{}, default {}", key.type, WithoutMarkdown(key.default_value));
  if (!key.allowed.empty()) facts += fmt::format("; {}", WithoutMarkdown(key.allowed));
  const std::string when = key.applies_when.empty() ? "" : fmt::format(" Only when {}.", key.applies_when);
  return fmt::format("{} = {}\n{}{}", key.name, key.example, IndentedLines(facts),
                     IndentedLines(WithoutMarkdown(key.doc + when)));
}

bool IsLike(const ScenarioKey& key, const std::string& pattern) {
  if (pattern.find('*') != std::string::npos) return MatchesWildcard(pattern, key.name);
  return key.name.find(pattern) != std::string::npos;
}

}  // namespace

StatusOr<bool> PrintHelpOfKeys(std::span<const std::string> words) {
  if (words.empty() || words[0] != "keys") return false;
  if (words.size() > 2) return UsageError("'rivulet help keys' takes one pattern, not {}", words.size() - 1);
  const std::vector<ScenarioKey> keys = KeysAndOptions();
  std::vector<const ScenarioKey*> found;
  for (const ScenarioKey& key : keys)
    if (words.size() == 1 || IsLike(key, words[1])) found.push_back(&key);
  if (found.empty()) {
    // Other programs call the learning rate `lr`.
    const std::string nearest = NearestScenarioKey(words[1]);
    for (const ScenarioKey& key : keys)
      if (key.name == nearest) found.push_back(&key);
    if (found.empty()) return NotFound("no key is like '{}'; 'rivulet help keys' lists all", Shortened(words[1]));
  }
  for (size_t i = 0; i < found.size(); ++i) fmt::print("{}{}", i == 0 ? "" : "\n", TextOfKey(*found[i]));
  return true;
}

}  // namespace rivulet
