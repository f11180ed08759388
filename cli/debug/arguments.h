// The words of one debugger command.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/debug/shell.h"
#include "engine/base/status.h"

namespace rivulet {

struct DebugShell::Arguments {
  std::vector<std::string> words;     // without flags
  std::map<char, std::string> flags;  // 's' → its value, or ""
  bool Has(char flag) const { return flags.contains(flag); }
  std::string Value(char flag) const { return Has(flag) ? flags.at(flag) : ""; }
  // The flag's number; `fallback` without the flag. Usage error outside 1 … 10^9.
  StatusOr<int64_t> Number(char flag, int64_t fallback) const;
  // Matches everything without the flag. Usage error: no regular expression.
  StatusOr<std::regex> Regex(char flag) const;
};

struct DebugShell::CommandDef {
  std::string_view name, other_name, usage, help;
  std::string_view flags;        // that take no value: "ra"
  std::string_view value_flags;  // that take one: "nts"
  int min_words = 0, max_words = 0;
  Handler handler;
};

}  // namespace rivulet
