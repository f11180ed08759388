#include "federated/local_rules/rule_tokens.h"

#include <charconv>
#include <cmath>

namespace rivulet {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class RuleTokenReader {
 public:
  explicit RuleTokenReader(std::string_view text) : text_(text) {}

  StatusOr<std::vector<RuleToken>> Read() && {
    while (at_ < text_.size()) RIVULET_RETURN_IF_ERROR(ReadOne());
    AddLineEnd();
    Add(RuleToken::Kind::kEnd, 0);
    return std::move(tokens_);
  }

 private:
  Status ReadOne() {
    const char c = text_[at_];
    if (c == '\n') {
      if (depth_ == 0) AddLineEnd();
      ++at_;
      ++line_;
      line_begin_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (IsLetter(c)) {
      Add(RuleToken::Kind::kName, NameSize());
    } else if (IsDigit(c) || (c == '.' && at_ + 1 < text_.size() && IsDigit(text_[at_ + 1]))) {
      return AddNumber();
    } else {
      return AddSign();
    }
    return absl::OkStatus();
  }

  // The length of a name, or of two names with a dot between: "memory.m".
  size_t NameSize() const {
    size_t end = at_;
    bool point = false;
    for (; end < text_.size(); ++end) {
      const bool second = text_[end] == '.' && !point && end + 1 < text_.size() && IsLetter(text_[end + 1]);
      point = point || second;
      if (!second && !IsLetter(text_[end]) && !IsDigit(text_[end])) break;
    }
    return end - at_;
  }

  Status AddNumber() {
    double number = 0;
    const char* const first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), number);
    const auto size = static_cast<size_t>(end - first);
    if (error != std::errc() || !std::isfinite(number)) {
      return Refuse("'{}' is beyond the range of a float64 number", text_.substr(at_, std::min<size_t>(size, 40)));
    }
    if (at_ + size < text_.size() && IsLetter(text_[at_ + size])) {
      return Refuse("'{}' runs into a name; put a sign or a space between",
                    text_.substr(at_, std::min<size_t>(size, 40)));
    }
    Add(RuleToken::Kind::kNumber, size);
    tokens_.back().number = number;
    return absl::OkStatus();
  }

  Status AddSign() {
    const std::string_view rest = text_.substr(at_);
    for (const std::string_view sign :
         {"<=", ">=", "==", "!=", "+", "-", "*", "/", "^", "(", ")", ",", "=", "<", ">", ":"}) {
      if (!rest.starts_with(sign)) continue;
      if (sign == "(") ++depth_;
      if (sign == ")" && depth_ > 0) --depth_;
      Add(RuleToken::Kind::kSign, sign.size());
      return absl::OkStatus();
    }
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte < 0x20 || byte >= 0x7F) {
      return Refuse("byte 0x{:02x} is not ASCII; write the rule with letters, digits and signs", byte);
    }
    return Refuse("a rule has no '{}'; its signs are + - * / ^ ( ) , = : and those that compare", text_[at_]);
  }

  void Add(RuleToken::Kind kind, size_t size) {
    tokens_.push_back({kind, text_.substr(at_, size), 0, line_, static_cast<int>(at_ - line_begin_) + 1});
    at_ += size;
  }

  void AddLineEnd() {
    if (!tokens_.empty() && tokens_.back().kind != RuleToken::Kind::kLineEnd) Add(RuleToken::Kind::kLineEnd, 0);
  }

  template <typename... Args>
  Status Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("{}:{}: {}", line_, at_ - line_begin_ + 1, fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string_view text_;
  size_t at_ = 0, line_begin_ = 0;
  int line_ = 1, depth_ = 0;
  std::vector<RuleToken> tokens_;
};

}  // namespace

StatusOr<std::vector<RuleToken>> ReadRuleTokens(std::string_view text) { return RuleTokenReader(text).Read(); }

}  // namespace rivulet
