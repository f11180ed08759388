#include "federated/local_rules/rule_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "federated/local_rules/rule_nodes.h"
#include "federated/local_rules/rule_tokens.h"

namespace rivulet {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 10;
constexpr int kMaxDepth = 64;  // limit of nested expressions, and so of the parser's recursion
constexpr std::string_view kMemory = "memory.", kState = "state.", kBroadcast = "broadcast.", kUpdate = "update.";

using Value = RuleValue;
constexpr std::pair<std::string_view, std::string_view> kComparisons[] = {
    {"<", "Less"}, {"<=", "LessEqual"}, {">", "Greater"}, {">=", "GreaterEqual"}, {"==", "Equal"}, {"!=", "NotEqual"}};

// Null: no such function.
const RuleFunction* FunctionNamed(std::string_view name) {
  const auto found = std::ranges::find(RuleFunctions(), name, &RuleFunction::name);
  return found == RuleFunctions().end() ? nullptr : &*found;
}

// Whether the language reserves a name.
bool IsReserved(std::string_view name) {
  constexpr std::string_view kNames[] = {"base",  "end",   "grad",  "learning_rate", "memory",    "name",
                                         "graph", "round", "state", "steps",         "broadcast", "update"};
  return std::ranges::find(kNames, name) != std::end(kNames) || FunctionNamed(name) != nullptr;
}

// Parser of a rule, from left to right; adds parsed expressions to the graph.
class RuleReader {
 public:
  explicit RuleReader(std::vector<RuleToken> tokens) : tokens_(std::move(tokens)) {}

  StatusOr<Graph> Read() && {
    while (token().kind != RuleToken::Kind::kEnd) RIVULET_RETURN_IF_ERROR(ReadLine());
    if (!gradient_.output && !loss_.output && !nodes_.assigns()) {
      return Refuse(token(), "the rule does nothing; set the gradient that clients follow: gradient = grad + …");
    }
    if (!unread_.empty()) {
      const auto& [setting, at] = *unread_.begin();
      return Refuse(at, "the setting '{}' is read nowhere, so that it would change nothing; use it or leave it out",
                    setting.substr(0, 40));
    }
    return std::move(nodes_).Finish(gradient_, loss_);
  }

 private:
  const RuleToken& token() const { return tokens_[at_]; }
  bool Take(std::string_view sign) {
    const bool there = token().Is(sign);
    if (there) ++at_;
    return there;
  }

  template <typename... Args>
  static Status Refuse(const RuleToken& at, fmt::format_string<Args...> format, Args&&... args) {
    return InvalidArgument("{}:{}: {}", at.line, at.column, fmt::format(format, std::forward<Args>(args)...));
  }
  static std::string Shown(const RuleToken& token) {
    if (token.kind == RuleToken::Kind::kLineEnd || token.kind == RuleToken::Kind::kEnd) return "the end of the line";
    return fmt::format("'{}'{}", token.text.substr(0, 40), token.text.size() > 40 ? "…" : "");
  }

  Status ReadLine() {
    const RuleToken name = token();
    if (name.kind != RuleToken::Kind::kName) {
      return Refuse(name, "a line begins with the name that it sets, not with {}", Shown(name));
    }
    ++at_;
    if (name.text == "end" && Take(":")) {
      RIVULET_RETURN_IF_ERROR(BeginEnd(name));
    } else if (!Take("=")) {
      return Refuse(token(), "after '{}' a line continues with '=', not with {}", name.text.substr(0, 40),
                    Shown(token()));
    } else {
      RIVULET_RETURN_IF_ERROR(ReadAssignment(name));
    }
    if (token().kind != RuleToken::Kind::kLineEnd) {
      return Refuse(token(), "the line ends here, not with {}; put a sign before it, or a new line", Shown(token()));
    }
    ++at_;
    return absl::OkStatus();
  }

  // Starts the second graph, which runs after the last step and sees the variables as that step left them.
  Status BeginEnd(const RuleToken& at) {
    if (in_end_) return Refuse(at, "'end:' occurs twice; put all work after the last step behind the first");
    in_end_ = true;
    for (const auto& [name, value] : values_) of_step_.insert(name);
    values_.clear();
    return absl::OkStatus();
  }

  Status ReadAssignment(const RuleToken& name) {
    if (values_.contains(name.text) || settings_.contains(name.text) || (name.text == "gradient" && gradient_.output) ||
        (name.text == "loss" && loss_.output)) {
      return Refuse(name, "'{}' is given twice; give the second another name", name.text.substr(0, 40));
    }
    if (name.text == "loss") return ReadLoss(name);
    const bool target = name.text == "gradient" || name.text == "params" || name.text.find('.') != name.text.npos;
    if (!target && IsReserved(name.text)) {
      return Refuse(name, "'{}' is a name of the language; choose another one for this line", name.text);
    }
    if (!target && IsSetting()) return ReadSetting(name);
    std::string flat;
    if (target) RIVULET_RETURN_IF_ERROR(CheckTarget(name, flat));
    const RuleToken begin = token();
    RIVULET_ASSIGN_OR_RETURN(const Value value, ReadExpression());
    if (value.truth) return Refuse(begin, "a comparison is no value; where(comparison, a, b) makes one of it");
    if (target && !value.vector) {
      return Refuse(begin, "'{}' is a vector, and this is a number; multiply it with a vector",
                    name.text.substr(0, 40));
    }
    if (name.text == "gradient") {
      gradient_ = value;
      return absl::OkStatus();
    }
    values_.emplace(name.text, value);
    if (!flat.empty()) nodes_.Assign(flat, value, in_end_);
    return absl::OkStatus();
  }

  // Checks that this name may be assigned here, and sets `flat` to its variable.
  Status CheckTarget(const RuleToken& name, std::string& flat) const {
    const std::string_view text = name.text;
    if (text == "gradient") {
      if (!in_end_) return absl::OkStatus();
      return Refuse(name, "the gradient is a step's; write it before 'end:'");
    }
    if (text == "params") {
      flat = text;
      if (in_end_) return absl::OkStatus();
      return Refuse(name, "params belong to the optimiser; write gradient, or params after 'end:'");
    }
    flat = text;
    flat[flat.find('.')] = '/';
    if (text.starts_with(kState)) return absl::OkStatus();
    if (text.starts_with(kMemory)) {
      if (!in_end_) return absl::OkStatus();
      return Refuse(name, "memory is lost after the last step; write state.{} to keep it", text.substr(kMemory.size()));
    }
    if (text.starts_with(kUpdate)) {
      if (in_end_) return absl::OkStatus();
      return Refuse(name, "an update is made when the last step is done; write it after 'end:'");
    }
    if (text.starts_with(kBroadcast)) {
      return Refuse(name, "'{}' is sent by the server and read-only; write memory or state instead", text);
    }
    return Refuse(name,
                  "nothing is called '{}'; a rule writes gradient, loss, memory.NAME, state.NAME, and after 'end:' "
                  "params, state.NAME and update.NAME",
                  text.substr(0, 40));
  }

  bool IsSetting() const {
    const size_t number = at_ + (token().Is("-") ? 1 : 0);
    return tokens_[number].kind == RuleToken::Kind::kNumber && tokens_[number + 1].kind == RuleToken::Kind::kLineEnd;
  }

  Status ReadSetting(const RuleToken& name) {
    unread_.emplace(name.text, name);
    const bool negative = Take("-");
    const double number = tokens_[at_++].number;
    settings_.emplace(name.text, nodes_.Setting(name.text, negative ? -number : number));
    return absl::OkStatus();
  }

  Status ReadLoss(const RuleToken& name) {
    if (in_end_) return Refuse(name, "the loss is a step's; write it before 'end:'");
    const RuleToken first = token();
    const bool own = first.text == "loss";
    if (own) ++at_;
    if (!own || (!token().Is("+") && !token().Is("-"))) {
      return Refuse(first, "the loss is the model's, to which a rule adds: loss = loss + …");
    }
    in_loss_ = true;
    const RuleToken begin = token();
    RIVULET_ASSIGN_OR_RETURN(const Value value, ReadSum(true));
    in_loss_ = false;
    if (value.vector || value.truth) return Refuse(begin, "the loss must be a number; use sum(…)");
    loss_ = value;
    return absl::OkStatus();
  }

  StatusOr<Value> ReadExpression() {
    RIVULET_ASSIGN_OR_RETURN(const Value left, ReadSum(false));
    for (const auto& [sign, op] : kComparisons) {
      if (!token().Is(sign)) continue;
      RIVULET_RETURN_IF_ERROR(CheckNoTruth(left, token()));
      const RuleToken at = tokens_[at_++];
      RIVULET_ASSIGN_OR_RETURN(const Value right, ReadSum(false));
      RIVULET_RETURN_IF_ERROR(CheckNoTruth(right, at));
      Value truth = nodes_.Both(op, left, right);
      truth.truth = true;
      return truth;
    }
    return left;
  }

  // With `signed_only` the sum must start with a sign: the part after `loss`.
  StatusOr<Value> ReadSum(bool signed_only) {
    Value sum;
    if (!signed_only) {
      RIVULET_ASSIGN_OR_RETURN(sum, ReadProduct());
    }
    while (token().Is("+") || token().Is("-")) {
      const RuleToken sign = tokens_[at_++];
      RIVULET_ASSIGN_OR_RETURN(const Value term, ReadProduct());
      RIVULET_RETURN_IF_ERROR(CheckNoTruth(term, sign));
      if (!sum.output) {
        sum = sign.text == "-" ? nodes_.Each("Neg", term) : term;
        continue;
      }
      RIVULET_RETURN_IF_ERROR(CheckNoTruth(sum, sign));
      sum = nodes_.Both(sign.text == "-" ? "Sub" : "AddV2", sum, term);
    }
    return sum;
  }

  StatusOr<Value> ReadProduct() {
    RIVULET_ASSIGN_OR_RETURN(Value product, ReadSigned());
    while (token().Is("*") || token().Is("/")) {
      const RuleToken sign = tokens_[at_++];
      RIVULET_ASSIGN_OR_RETURN(const Value factor, ReadSigned());
      RIVULET_RETURN_IF_ERROR(CheckNoTruth(product, sign));
      RIVULET_RETURN_IF_ERROR(CheckNoTruth(factor, sign));
      product = sign.text == "*" ? nodes_.Product(product, factor) : nodes_.Quotient(product, factor);
    }
    return product;
  }

  StatusOr<Value> ReadSigned() {
    const RuleToken sign = token();
    if (!Take("-")) return ReadPower();
    if (++depth_ > kMaxDepth) return TooDeep(sign);
    RIVULET_ASSIGN_OR_RETURN(const Value value, ReadSigned());
    --depth_;
    RIVULET_RETURN_IF_ERROR(CheckNoTruth(value, sign));
    return nodes_.Each("Neg", value);
  }

  StatusOr<Value> ReadPower() {
    RIVULET_ASSIGN_OR_RETURN(const Value base, ReadAtom());
    const RuleToken sign = token();
    if (!Take("^")) return base;
    const bool square = token().kind == RuleToken::Kind::kNumber && token().number == 2 && !tokens_[at_ + 1].Is("^");
    if (++depth_ > kMaxDepth) return TooDeep(sign);
    RIVULET_ASSIGN_OR_RETURN(const Value power, ReadSigned());
    --depth_;
    RIVULET_RETURN_IF_ERROR(CheckNoTruth(base, sign));
    RIVULET_RETURN_IF_ERROR(CheckNoTruth(power, sign));
    return square ? nodes_.Each("Square", base) : nodes_.Both("Pow", base, power);
  }

  StatusOr<Value> ReadAtom() {
    const RuleToken first = token();
    if (first.kind == RuleToken::Kind::kNumber) {
      ++at_;
      return nodes_.Number(first.number);
    }
    if (Take("(")) {
      if (++depth_ > kMaxDepth) return TooDeep(first);
      RIVULET_ASSIGN_OR_RETURN(const Value value, ReadExpression());
      --depth_;
      RIVULET_RETURN_IF_ERROR(Close(first));
      return value;
    }
    if (first.kind != RuleToken::Kind::kName) {
      return Refuse(first, "a number, a name or '(' comes here, not {}", Shown(first));
    }
    ++at_;
    return token().Is("(") ? ReadCall(first) : ReadName(first);
  }

  Status Close(const RuleToken& open) {
    if (Take(")")) return absl::OkStatus();
    return Refuse(token(), "{} is in the place of the ')' that closes {}:{}", Shown(token()), open.line, open.column);
  }

  static Status TooDeep(const RuleToken& at) {
    return Refuse(at, "more than {} expressions are nested; give an inner one a name on a separate line", kMaxDepth);
  }

  static Status CheckNoTruth(const Value& value, const RuleToken& at) {
    if (!value.truth) return absl::OkStatus();
    return Refuse(at, "a comparison is no value to calculate with; where(comparison, a, b) makes one of it");
  }

  StatusOr<Value> ReadName(const RuleToken& name) {
    const std::string_view text = name.text;
    if (const auto known = values_.find(text); known != values_.end()) return known->second;
    if (const auto setting = settings_.find(text); setting != settings_.end()) {
      unread_.erase(text);
      return setting->second;
    }
    if (text == "params") return nodes_.Vector("params");
    if (text == "base") return nodes_.Vector("base_params");
    if (text == "learning_rate") return nodes_.Rate();
    if (text == "round") return nodes_.Scalar("round");
    if (text == "grad") {
      if (in_loss_) return Refuse(name, "the gradient is computed from the loss, so the loss cannot use grad");
      if (!in_end_) return nodes_.Vector("grads");
      return Refuse(name, "a gradient exists only in its step, not after 'end:'; keep it as state.NAME");
    }
    if (text == "steps") {
      if (in_end_) return nodes_.Scalar("steps");
      return Refuse(name, "steps are known only after the last one; read them after 'end:'");
    }
    if (text == "loss") return Refuse(name, "the loss has no value here; a rule adds to it: loss = loss + …");
    for (const std::string_view prefix : {kMemory, kState, kBroadcast}) {
      if (!text.starts_with(prefix)) continue;
      std::string flat(text);
      flat[prefix.size() - 1] = '/';
      return nodes_.Vector(flat);
    }
    if (of_step_.contains(text)) {
      return Refuse(name, "'{}' was of the step, and 'end:' starts over; calculate it there too", text.substr(0, 40));
    }
    return Refuse(name, "there is no '{}'{}", text.substr(0, 40), Mend(text));
  }

  std::string Mend(std::string_view unknown) const {
    std::vector<std::string> names = {"params", "base", "round", "learning_rate", in_end_ ? "steps" : "grad"};
    for (const auto& [name, value] : values_) names.emplace_back(name);
    for (const auto& [name, value] : settings_) names.emplace_back(name);
    const std::string near = DidYouMean(unknown, names);
    if (!near.empty()) return "." + near;
    return "; give it a value on a line above, or write memory.NAME, state.NAME or broadcast.NAME for a vector";
  }

  StatusOr<Value> ReadCall(const RuleToken& name) {
    const RuleFunction* const function = FunctionNamed(name.text);
    if (function == nullptr) {
      std::vector<std::string> names;
      for (const RuleFunction& known : RuleFunctions()) names.emplace_back(known.name);
      return Refuse(name, "there is no function '{}'; there are {}.{}", name.text.substr(0, 40), Join(names, ", "),
                    DidYouMean(name.text, names));
    }
    const RuleToken open = token();
    if (++depth_ > kMaxDepth) return TooDeep(open);
    std::vector<Value> arguments;
    do {
      ++at_;  // '(' or ','
      const RuleToken begin = token();
      RIVULET_ASSIGN_OR_RETURN(const Value argument, ReadExpression());
      const bool wants_truth = function->of_truth && arguments.empty();
      if (argument.truth != wants_truth) {
        return Refuse(begin, "{}",
                      wants_truth ? "where() begins with a comparison, such as x < y"
                                  : "a comparison is no value; where(comparison, a, b) makes one of it");
      }
      arguments.push_back(argument);
    } while (token().Is(","));
    --depth_;
    RIVULET_RETURN_IF_ERROR(Close(open));
    if (std::ssize(arguments) != function->arguments) {
      return Refuse(name, "{} is given {} values; write {}", function->name, arguments.size(), function->call);
    }
    if (function->of_vectors && std::ranges::any_of(arguments, [](const Value& value) { return !value.vector; })) {
      return Refuse(name, "{} takes vectors, and here is a number; leave it out", function->call);
    }
    return function->make(nodes_, arguments);
  }

  const std::vector<RuleToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool in_end_ = false, in_loss_ = false;
  RuleNodes nodes_;
  std::map<std::string_view, Value> values_;
  std::map<std::string_view, Value> settings_;
  std::map<std::string_view, RuleToken> unread_;  // values that no expression has read yet
  std::set<std::string_view> of_step_;
  Value gradient_, loss_;
};

}  // namespace

StatusOr<Graph> BuildRule(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return ResourceExhausted("the rule has {} bytes, and may have {}; write a longer one as an algorithm", text.size(),
                             kMaxBytes);
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<RuleToken> tokens, ReadRuleTokens(text));
  return RuleReader(std::move(tokens)).Read();
}

}  // namespace rivulet
