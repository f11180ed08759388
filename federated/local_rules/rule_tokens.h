// Tokens of a rule file (rule_graph.h has its grammar).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

struct RuleToken {
  enum class Kind : uint8_t { kName, kNumber, kSign, kLineEnd, kEnd } kind = Kind::kEnd;
  std::string_view text;  // "memory.m", "0.1", "<="; a view of the file's bytes
  double number = 0;
  int line = 1, column = 1;  // counted from 1, in bytes

  bool Is(std::string_view sign) const { return kind == Kind::kSign && text == sign; }
};

// Returns the tokens of a file, ended by one kEnd. Line ends inside parentheses are skipped, and consecutive ones
// merged. `text` must outlive the tokens. INVALID_ARGUMENT, as "3:12: …": an invalid character, a number out of range.
StatusOr<std::vector<RuleToken>> ReadRuleTokens(std::string_view text);

}  // namespace rivulet
