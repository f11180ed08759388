// The language of rules: accepted rules, and errors with position and remedy.
#include "federated/local_rules/rule_graph.h"

#include "engine/graphdef/graph_def.h"
#include "federated/local_rules/own_rule.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

StatusOr<OwnRule> Rule(std::string_view text) {
  RIVULET_ASSIGN_OR_RETURN(const Graph graph, BuildRule(text));
  return OwnRule::Open(SerializeGraph(graph));
}

TEST(RuleGraph, WhatARuleHas_FollowsFromWhatItNames) {
  ASSERT_OK_AND_ASSIGN(const OwnRule rule, Rule(R"(
# Everything there is, on lines that go on
rate = 0.5   # a setting
shift = -1e-3
memory.b = memory.a
memory.a = (memory.a + rate * grad
            + shift * (params - base))
gradient = memory.a + broadcast.c - state.h * round
loss = loss + rate * dot(params, base) - norm(params)

end:
state.h = where(abs(params) > 0.5, params, -params) / (steps * learning_rate)
update.u = min(params, 0) + max(sign(base), tanh(base)) * exp(sqrt(log(rate)))
params = params ^ 2 ^ 0.5
)"));
  EXPECT_THAT(rule.settings(), ElementsAre(std::pair("rate", 0.5), std::pair("shift", -1e-3)));
  EXPECT_THAT(rule.memory(), ElementsAre("a", "b"));
  EXPECT_THAT(rule.state(), ElementsAre("h"));
  EXPECT_THAT(rule.broadcast(), ElementsAre("c"));
  EXPECT_THAT(rule.update(), ElementsAre("u"));
  EXPECT_TRUE(rule.reads_learning_rate());
  EXPECT_TRUE(rule.ends());
  EXPECT_EQ(Describe(rule),
            "setting rate = 0.5\nsetting shift = -0.001\nremembers a from step to step\nremembers b from step to "
            "step\nkeeps h from task to task\nreads c of the server\nsends u beside the model\n");
}

TEST(RuleGraph, SameText_IsTheSameBytes) {
  constexpr char kText[] = "mu = 0.1\ngradient = grad + mu * (params - base)\n";
  EXPECT_EQ(SerializeGraph(*BuildRule(kText)), SerializeGraph(*BuildRule(kText)));
}

TEST(RuleGraph, WhatIsNoRule_IsRefusedByLineAndColumn) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "1:1: the rule does nothing"},
      {"mu = 0.1\ngradient = gard * mu", "2:12: there is no 'gard'. Did you mean 'grad'?"},
      {"gradient = grad + memry.m",
       "1:19: there is no 'memry.m'; give it a value on a line above, or write memory.NAME"},
      {"gradient = grd(2)", "1:12: there is no function 'grd'; there are abs, dot, exp"},
      {"gradient = 2", "1:12: 'gradient' is a vector, and this is a number"},
      {"gradient = sum(grad)", "1:12: 'gradient' is a vector, and this is a number"},
      {"gradient = sum(2) * grad", "1:12: sum(v) takes vectors, and here is a number"},
      {"gradient = min(grad)", "1:12: min is given 1 values; write min(x, y)"},
      {"gradient = grad < 0", "1:12: a comparison is no value"},
      {"gradient = (grad < 0) * grad", "1:23: a comparison is no value to calculate with"},
      {"gradient = where(grad, grad, grad)", "1:18: where() begins with a comparison"},
      {"gradient = where(grad > 0, grad > 0, grad)", "1:28: a comparison is no value"},
      {"gradient = grad +", "1:18: a number, a name or '(' comes here, not the end of the line"},
      {"gradient = (grad", "1:17: the end of the line is in the place of the ')' that closes 1:12"},
      {"gradient = grad)", "1:16: the line ends here, not with ')'"},
      {"gradient = grad grad", "1:17: the line ends here, not with 'grad'"},
      {"gradient grad", "1:10: after 'gradient' a line continues with '=', not with 'grad'"},
      {"= grad", "1:1: a line begins with the name that it sets, not with '='"},
      {"gradient = grad\ngradient = grad", "2:1: 'gradient' is given twice"},
      {"a = 1\na = 2\ngradient = a * grad", "2:1: 'a' is given twice"},
      {"mu = 1\ngradient = grad", "1:1: the setting 'mu' is read nowhere"},
      {"grad = params\ngradient = grad", "1:1: 'grad' is a name of the language"},
      {"name = 1\ngradient = name * grad", "1:1: 'name' is a name of the language"},
      {"params = grad", "1:1: params belong to the optimiser"},
      {"update.u = grad", "1:1: an update is made when the last step is done"},
      {"broadcast.c = grad", "1:1: 'broadcast.c' is sent by the server and read-only"},
      {"hut.c = grad", "1:1: nothing is called 'hut.c'; a rule writes gradient"},
      {"gradient = steps * grad", "1:12: steps are known only after the last one"},
      {"end:\nstate.h = grad", "2:11: a gradient exists only in its step"},
      {"end:\nmemory.m = params", "2:1: memory is lost after the last step; write state.m"},
      {"end:\ngradient = params", "2:1: the gradient is a step's"},
      {"end:\nloss = loss + 1", "2:1: the loss is a step's"},
      {"a = params - base\ngradient = a\nend:\nstate.h = a", "4:11: 'a' was of the step"},
      {"end:\nend:", "2:1: 'end:' occurs twice"},
      {"loss = 2", "1:8: the loss is the model's, to which a rule adds: loss = loss + …"},
      {"loss = loss * 2", "1:8: the loss is the model's"},
      {"loss = loss + params", "1:13: the loss must be a number"},
      {"loss = loss + sum(grad)", "1:19: the gradient is computed from the loss"},
      {"gradient = loss * grad", "1:12: the loss has no value here"},
      {"gradient = grad + \xe2\x82\xac", "1:19: byte 0xe2 is not ASCII"},
      {"gradient = grad % 2", "1:17: a rule has no '%'"},
      {"gradient = 2x * grad", "1:12: '2' runs into a name"},
      {"gradient = 1e999 * grad", "1:12: '1e999' is beyond the range of a float64 number"},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_THAT(BuildRule(text), StatusIs(absl::StatusCode::kInvalidArgument, StartsWith(error))) << text;
  }
}

TEST(RuleGraph, WhatStandsTooDeep_IsRefusedBeforeItsDepthIsGone) {
  constexpr int kDeep = 20'000;
  const std::string open(kDeep, '('), close(kDeep, ')');
  std::string calls, closes, minuses, powers;
  for (int i = 0; i < 5'000; ++i) {
    calls += "abs(";
    closes += ")";
    minuses += "-";
    powers += "2^";
  }
  for (const std::string& text :
       {open + "grad" + close, open, calls + "grad" + closes, minuses + "grad", powers + "2 * grad"}) {
    EXPECT_THAT(ErrorOf(BuildRule("gradient = " + text)), HasSubstr("more than 64 expressions are nested"));
  }
  EXPECT_OK(BuildRule("gradient = " + std::string(60, '(') + "grad" + std::string(60, ')')));
}

TEST(RuleGraph, WhatIsLong_IsReadAndWhatIsTooLongRefused) {
  std::string sum = "gradient = grad";
  while (sum.size() < 20'000) sum += " + params * 2";
  EXPECT_OK(Rule(sum));
  EXPECT_THAT(BuildRule(std::string(70'000, '#')),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("70000 bytes")));
}

}  // namespace
}  // namespace rivulet
