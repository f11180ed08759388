// Weights by a rule, several parts, exact scalars, denominators and staleness: numbers that a reader checks by hand.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::BytesOf;
using ::testing::ElementsAre;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Make;
using testing::Read;
using testing::Spec;
using testing::StatusIs;

// An update of named parts.
struct PartsUpdate {
  TaskId task;
  std::map<std::string, std::vector<float>> values;
  Scalars declared = {};
  int64_t base_version = 0;
  Scalars numbers = {};  // of the task

  template <class Use>
  auto With(const Use& use) const {
    std::vector<PartView> parts;
    for (const auto& [name, part] : values) parts.push_back({.name = name, .data = std::as_bytes(std::span(part))});
    return use(UpdateView{task, base_version, parts, declared});
  }
  Status FoldInto(Aggregation& aggregation) const {
    RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(aggregation.spec(), declared, numbers));
    return With([&](const UpdateView& view) {
      const Status checked = aggregation.Check(view, weights);
      const Status folded = aggregation.Fold(view, weights);
      EXPECT_EQ(checked, folded);
      return folded;
    });
  }
};

ServerInput Finished(const AggregationSpec& spec, const std::vector<PartsUpdate>& updates,
                     const Staleness& staleness = {}) {
  auto aggregation = Make(spec);
  for (const PartsUpdate& update : updates) EXPECT_OK(update.FoldInto(*aggregation));
  auto input = std::move(*aggregation).Finish(staleness);
  EXPECT_OK(input);
  return *std::move(input);
}

// ---- Weights -------------------------------------------------------------------------------------------------------

TEST(WeightsOf, Rules_GiveUnitsOfTheirFraction) {
  AggregationSpec spec;
  spec.weight_fraction_bits = 4;
  for (const char* rule : {"examples", "one", "scalar:steps", "examples / number:p", "one / number:p"}) {
    PartSpec& part = spec.parts.emplace_back();
    part.name = rule;
    part.elements = 1;
    part.weigh = rule;
  }
  spec.scalars = {{"loss"}, {"right", "one"}};
  ASSERT_OK(ValidateSpec(spec));
  const auto weights = WeightsOf(spec, {{"examples", 10}, {"steps", 2.53}}, {{"p", 0.25}});
  ASSERT_OK(weights);
  EXPECT_THAT(weights->parts, ElementsAre(160, 16, 40, 640, 64));  // 2.53 × 16 = 40.48
  EXPECT_THAT(weights->scalars, ElementsAre(160, 16));
  EXPECT_EQ(spec.weight_bound(spec.parts[0]), 65536 * 16);
  EXPECT_EQ(spec.weight_bound(spec.parts[1]), 16) << "nothing is above one";
  EXPECT_EQ(spec.weight_bound(spec.parts[4]), 65536 * 16);
}

TEST(WeightsOf, WhatIsMissingOrNoNumber_IsRefusedByName) {
  AggregationSpec spec = Spec(1);
  const auto error = [&](const char* rule, const Scalars& declared, const Scalars& numbers = {}) {
    spec.parts[0].weigh = rule;
    return ErrorOf(WeightsOf(spec, declared, numbers));
  };
  const double nan = std::nan("");
  EXPECT_EQ(error("examples", {}), "the declared 'examples', which weighs an update, is missing");
  EXPECT_EQ(error("scalar:steps", {{"steps", nan}}), "the declared 'steps', which weighs an update, is nan");
  EXPECT_EQ(error("one / number:p", {}), "the task's number 'p', which weighs an update, is missing");
  EXPECT_EQ(error("one / number:p", {}, {{"p", 0}}), "the task's number 'p' is 0; a divisor must be above 0");
}

TEST(Weights, OutOfRange_AreRefusedWithTheUpdate) {
  AggregationSpec spec = Spec(1);
  spec.max_weight = 20;
  const auto error = [&](double examples) {
    auto aggregation = Make(spec);
    const PartsUpdate update{"t", {{"delta", {1.0f}}}, {{"examples", examples}}};
    return std::string(Message(update.FoldInto(*aggregation)));
  };
  EXPECT_EQ(error(21), "the update of task 't' weighs 21, more than server.max_weight = 20; raise server.max_weight");
  EXPECT_THAT(error(1e300), HasSubstr("raise server.max_weight"));
  EXPECT_THAT(error(0.4), HasSubstr("weighs 0; a weight is at least 1"));
  EXPECT_THAT(error(-1e300), HasSubstr("a weight is at least 1"));
  EXPECT_EQ(error(20), "");
}

TEST(Weights, One_IsTheMeanOfClients) {
  AggregationSpec spec = Spec(2);
  spec.parts[0].weigh = "one";
  const ServerInput input = Finished(spec, {{"a", {{"delta", {1.0f, 5.0f}}}, {{"examples", 100}}},
                                            {"b", {{"delta", {3.0f, -5.0f}}}, {{"examples", 1}}}});
  EXPECT_THAT(input.parts[0].mean, ElementsAre(2.0f, 0.0f));
  EXPECT_EQ(input.parts[0].denominator, 2);
  // A weight of at most 1 leaves the sums the bits that examples would need.
  EXPECT_EQ(spec.fraction_bits(spec.parts[0]), Spec(2).fraction_bits(Spec(2).parts[0]) + 16);
}

// ---- Parts ---------------------------------------------------------------------------------------------------------

AggregationSpec ControlSpec() {
  AggregationSpec spec = Spec(2);
  spec.parts.push_back({.name = "dc", .elements = 1, .value_bits = 0, .weigh = "one"});
  spec.parts.push_back({.name = "scores", .elements = 1, .weigh = "one", .optional = true});
  return spec;
}

TEST(Parts, EachHasItsOwnWeightAndBound) {
  const ServerInput input = Finished(
      ControlSpec(), {{"a", {{"delta", {1.0f, 0.0f}}, {"dc", {1.0f}}}, {{"examples", 3}}},
                      {"b", {{"delta", {5.0f, 8.0f}}, {"dc", {0.0f}}, {"scores", {7.0f}}}, {{"examples", 1}}}});
  EXPECT_THAT(input.Find("delta")->mean, ElementsAre(2.0f, 2.0f));
  EXPECT_THAT(input.Find("dc")->mean, ElementsAre(0.5f));
  EXPECT_THAT(input.Find("scores")->mean, ElementsAre(7.0f)) << "the mean of those who sent it";
  EXPECT_EQ(input.Find("dw"), nullptr);
  EXPECT_EQ(input.updates, 2);
}

TEST(Parts, OptionalPartThatNobodySent_HasNoMean) {
  const ServerInput input =
      Finished(ControlSpec(), {{"a", {{"delta", {1.0f, 0.0f}}, {"dc", {1.0f}}}, {{"examples", 3}}}});
  EXPECT_THAT(input.Find("scores")->mean, ElementsAre());
  EXPECT_EQ(input.Find("scores")->denominator, 0);
}

TEST(Parts, BadValueInALaterPart_LeavesNoTraceOfTheEarlier) {
  auto aggregation = Make(ControlSpec());
  PartsUpdate good{"a", {{"delta", {1.0f, 0.5f}}, {"dc", {1.0f}}}, {{"examples", 3}}};
  ASSERT_OK(good.FoldInto(*aggregation));
  const std::string before = testing::Bytes(*aggregation);
  PartsUpdate bad = good;
  bad.task = "b";
  bad.values["dc"] = {1.5f};
  EXPECT_THAT(bad.FoldInto(*aggregation),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 1.5 at element 0 of its dc, beyond ±2^0")));
  EXPECT_EQ(testing::Bytes(*aggregation), before);
  bad.values.erase("dc");
  EXPECT_THAT(bad.FoldInto(*aggregation),
              StatusIs(absl::StatusCode::kInvalidArgument, "the update of task 'b' has no part 'dc'"));
}

// Two models, of which an update is for one.
AggregationSpec ChoiceSpec() {
  AggregationSpec spec = Spec(2);
  spec.parts[0].optional = true;
  spec.parts[0].only_where = {"model", 0};
  PartSpec other = spec.parts[0];
  other.name = "other";
  other.only_where->value = 1;
  spec.parts.push_back(other);
  return spec;
}

TEST(Parts, OfSomeUpdates_AreTheMeanOfThoseAlone) {
  const ServerInput input = Finished(ChoiceSpec(), {{"a", {{"delta", {1.0f, 0.0f}}}, {{"examples", 3}, {"model", 0}}},
                                                    {"b", {{"other", {5.0f, 8.0f}}}, {{"examples", 1}, {"model", 1}}},
                                                    {"c", {{"other", {1.0f, 4.0f}}}, {{"examples", 3}, {"model", 1}}}});
  EXPECT_THAT(input.Find("delta")->mean, ElementsAre(1.0f, 0.0f));
  EXPECT_THAT(input.Find("other")->mean, ElementsAre(2.0f, 5.0f));
  EXPECT_EQ(input.updates, 3);
}

TEST(Parts, OfSomeUpdates_TellTheNormOfWhatThereIs) {
  auto aggregation = Make(ChoiceSpec());
  const PartsUpdate update{"a", {{"other", {3.0f, 4.0f}}}, {{"examples", 2}, {"model", 1}}};
  ASSERT_OK_AND_ASSIGN(const Weights weights, WeightsOf(aggregation->spec(), update.declared, {}));
  ASSERT_OK_AND_ASSIGN(const Aggregation::Taken taken,
                       update.With([&](const UpdateView& view) { return aggregation->Take(view, weights); }));
  EXPECT_EQ(taken.norm, 5);
  ASSERT_EQ(aggregation->Save().size(), 1u);
  EXPECT_EQ(aggregation->Save()[0].parts[1].weight_sum, 2);
  EXPECT_EQ(aggregation->Save()[0].parts[0].weight_sum, 0);
}

TEST(Parts, OfAnotherUpdateThanItSays_AreRefused) {
  const auto error = [](const PartsUpdate& update) {
    auto aggregation = Make(ChoiceSpec());
    const std::string message(Message(update.FoldInto(*aggregation)));
    EXPECT_TRUE(message.empty() || aggregation->Save().empty()) << "it has left a trace";
    return message;
  };
  EXPECT_EQ(error({"t", {{"delta", {1.0f, 0.0f}}}, {{"examples", 1}, {"model", 0}}}), "");
  EXPECT_EQ(error({"t", {{"other", {1.0f, 0.0f}}}, {{"examples", 1}, {"model", 0}}}),
            "the update of task 't' says model = 0 and has no part 'delta', which is of those that say 0");
  EXPECT_EQ(error({"t", {{"delta", {1.0f, 0.0f}}, {"other", {1.0f, 0.0f}}}, {{"examples", 1}, {"model", 0}}}),
            "the update of task 't' says model = 0 and has part 'other', which is of those that say 1");
  EXPECT_EQ(error({"t", {{"delta", {1.0f, 0.0f}}}, {{"examples", 1}}}),
            "the update of task 't' does not say its model, by which it has part 'delta' or not");
  EXPECT_EQ(error({"t", {}, {{"examples", 1}, {"model", 7}}}),
            "the update of task 't' has none of the parts that the plan takes");
}

TEST(ValidateSpec, PartsAndScalars_AreRefusedByName) {
  const auto error = [](auto change) {
    AggregationSpec spec = ControlSpec();
    spec.scalars = {{"loss"}};
    change(spec);
    return std::string(Message(ValidateSpec(spec)));
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_EQ(error([](auto& s) { s.parts[1].name = "delta"; }), "two parts are named 'delta'");
  EXPECT_EQ(error([](auto& s) { s.parts[1].name = ""; }), "the name of a part has 1 to 256 bytes, not 0");
  EXPECT_EQ(error([](auto& s) { s.scalars.push_back({"loss"}); }), "two scalars are named 'loss'");
  EXPECT_EQ(error([](auto& s) { s.parts.clear(), s.scalars.clear(); }),
            "an aggregation of 0 parts and 0 scalars; there are at most 16 and 10000, and one at least");
  EXPECT_EQ(error([](auto& s) { s.parts[1].elements = 0; }),
            "part 'dc': an update of 0 elements cannot be aggregated; it has 1 to 2^40");
  for (const char* rule : {"", "size", "scalar:", "one / 2", "one / number:", "number:p"}) {
    EXPECT_EQ(error([&](auto& s) { s.parts[1].weigh = rule; }),
              fmt::format("part 'dc' is weighed by '{}'; a rule is 'examples', 'one' or 'scalar:NAME', and may end in "
                          "' / number:NAME'",
                          rule));
  }
  EXPECT_THAT(error([](auto& s) { s.scalars[0].weigh = "two"; }), HasSubstr("scalar 'loss' is weighed by 'two'"));
  EXPECT_THAT(error([](auto& s) {
                s.staleness_bits = 8;
                s.updates_per_version = int64_t{1} << 31;
                for (PartSpec& part : s.parts) part.value_bits = -30;
                s.max_weight = 1 << 24;
              }),
              HasSubstr("are beyond 2^54; lower one of them"));
  EXPECT_EQ(
      error([](auto& s) {
        s.parts[1].only_where = {"model", 1};
      }),
      "part 'dc' is of updates that declare 'model' as 1; such a part is optional, and the scalar has a name and a "
      "finite value");
  EXPECT_EQ(error([](auto& s) { s.parts[1].denominator = {.kind = Denominator::Kind::kConstant}; }),
            "part 'dc' is divided by the constant 0, which is not between 2^-100 and 2^100");
  EXPECT_EQ(error([](auto& s) { s.parts[1].denominator = {.kind = Denominator::Kind::kScalar, .scalar = "mass"}; }),
            "part 'dc' is divided by the sum of the scalar 'mass', which the plan does not sum");
}

// ---- Scalars -------------------------------------------------------------------------------------------------------

TEST(WideSum, IsTheProductRoundedOnce) {
  EXPECT_EQ(WideSum::Of(3, 0.5).ToDouble(), 1.5);
  EXPECT_EQ(WideSum::Of(3, -0.5), WideSum(~uint64_t{0} - (uint64_t{3} << 31) + 1, ~uint64_t{0}));
  // In units of 2^-32: 0.5, 1.5, 2.5 and what is just above 0.5.
  EXPECT_EQ(WideSum::Of(1, 0x1p-33), WideSum(0, 0));
  EXPECT_EQ(WideSum::Of(3, 0x1p-33), WideSum(2, 0));
  EXPECT_EQ(WideSum::Of(5, 0x1p-33), WideSum(2, 0));
  EXPECT_EQ(WideSum::Of(1, 0x1.0000000000001p-33), WideSum(1, 0));
  EXPECT_EQ(WideSum::Of(1, std::numeric_limits<double>::denorm_min()), WideSum(0, 0));
  EXPECT_EQ(WideSum::Of(int64_t{1} << 29, 0x1.fffffffffffffp31).ToDouble(), 0x1.fffffffffffffp60);
  EXPECT_FALSE(WideSum::Takes(0x1p32));
  EXPECT_FALSE(WideSum::Takes(std::nan("")));
  EXPECT_TRUE(WideSum::Takes(-0x1.fffffffffffffp31));
}

// Sums far beyond 2^53 units, of values with all their bits: doubles would tell the order.
TEST(Scalars, LargeSums_DoNotDependOnOrder) {
  AggregationSpec spec = Spec(1, 64);
  spec.scalars = {{"energy"}, {"steps", "one"}};
  std::vector<PartsUpdate> updates;
  double naive = 0;
  for (int i = 0; i < 64; ++i) {
    Draws draws(StreamFor(9, "", Purpose::kSynthesize, static_cast<uint32_t>(i)), 0);
    const double energy = (draws.Uniform() - 0.25) * 0x1p31, examples = static_cast<double>(1 + draws.Below(65536));
    updates.push_back(
        {fmt::format("t{}", i), {{"delta", {1.0f}}}, {{"examples", examples}, {"energy", energy}, {"steps", 6}}});
    naive += energy * examples;
  }
  const auto bytes = [&] {
    auto left = Make(spec), right = Make(spec);
    for (size_t i = 0; i < updates.size(); ++i) EXPECT_OK(updates[i].FoldInto(i % 3 == 0 ? *left : *right));
    EXPECT_OK(left->Merge(*Read(spec, BytesOf(spec, right->Save().at(0)))));
    return testing::Bytes(*left);
  };
  const std::string first = bytes();
  const ServerInput input = Finished(spec, updates);
  EXPECT_GT(input.scalars.at("energy"), 0x1p44) << "beyond what doubles add up exactly";
  EXPECT_NEAR(input.scalars.at("energy") / naive, 1, 1e-14);
  EXPECT_EQ(input.scalars.at("steps"), 6 * 64);
  for (uint32_t turn = 0; turn < 10; ++turn) {
    Draws draws(StreamFor(1, "", Purpose::kShuffle), turn);
    for (size_t i = updates.size(); i > 1; --i) std::swap(updates[i - 1], updates[draws.Below(i)]);
    EXPECT_EQ(bytes(), first);
  }
}

TEST(Scalars, MissingOrTooLarge_AreRefusedByName) {
  AggregationSpec spec = Spec(1);
  spec.scalars = {{"loss", "one"}};
  const auto error = [&](const Scalars& declared) {
    auto aggregation = Make(spec);
    Scalars all = declared;
    all["examples"] = 1;
    return std::string(Message(PartsUpdate{"t", {{"delta", {1.0f}}}, all}.FoldInto(*aggregation)));
  };
  EXPECT_EQ(error({}), "the update of task 't' does not say its loss, which the plan sums");
  EXPECT_EQ(error({{"loss", 0x1p32}}),
            "the update of task 't' has loss = 4294967296; a summed number must be between -2^32 and 2^32");
  EXPECT_THAT(error({{"loss", std::nan("")}}), HasSubstr("says loss = nan"));
  EXPECT_EQ(error({{"loss", -4294967295.5}}), "");
}

TEST(Merge, ScalarBeyondWhatUpdatesGive_IsRefused) {
  AggregationSpec spec = Spec(1);
  spec.max_weight = 2;
  spec.scalars = {{"loss"}};
  auto aggregation = Make(spec);
  ASSERT_OK((PartsUpdate{"t", {{"delta", {1.0f}}}, {{"examples", 2}, {"loss", 3}}}.FoldInto(*aggregation)));
  Partial partial = aggregation->Extract(0);
  partial.scalars[0] = WideSum(0, 3);  // 3 × 2^32
  EXPECT_THAT(aggregation->Merge(partial),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "a partial sum's 12884901888 of 'loss' is beyond the range of its 1 updates"));
}

// ---- Denominators --------------------------------------------------------------------------------------------------

TEST(Denominator, EachKind_DividesTheSameSum) {
  AggregationSpec spec = Spec(1);
  spec.weight_fraction_bits = 2;
  spec.scalars = {{"mass", "one"}};
  const auto mean = [&](Denominator denominator) {
    spec.parts[0].denominator = std::move(denominator);
    // The sum is 2 × 3 + 4 × 0.5 = 8.
    const ServerInput input = Finished(spec, {{"a", {{"delta", {3.0f}}}, {{"examples", 2}, {"mass", 0.75}}},
                                              {"b", {{"delta", {0.5f}}}, {{"examples", 4}, {"mass", 1.25}}}});
    return std::pair(input.parts[0].mean[0], input.parts[0].denominator);
  };
  using Kind = Denominator::Kind;
  EXPECT_EQ(mean({.kind = Kind::kWeights}), std::pair(8.0f / 6.0f, 6.0));
  EXPECT_EQ(mean({.kind = Kind::kTasks}), std::pair(4.0f, 2.0));
  EXPECT_EQ(mean({.kind = Kind::kConstant, .constant = 0.5}), std::pair(16.0f, 0.5));
  EXPECT_EQ(mean({.kind = Kind::kScalar, .scalar = "mass"}), std::pair(4.0f, 2.0));
}

TEST(Denominator, ScalarSumOfNothing_IsFailedPrecondition) {
  AggregationSpec spec = Spec(1);
  spec.scalars = {{"mass", "one"}};
  spec.parts[0].denominator = {.kind = Denominator::Kind::kScalar, .scalar = "mass"};
  for (const double mass : {0.0, -1.0}) {
    auto aggregation = Make(spec);
    ASSERT_OK((PartsUpdate{"t", {{"delta", {1.0f}}}, {{"examples", 2}, {"mass", mass}}}.FoldInto(*aggregation)));
    EXPECT_THAT(std::move(*aggregation).Finish(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the denominator of part 'delta' comes to")));
  }
}

// ---- Staleness -----------------------------------------------------------------------------------------------------

int64_t HalfAVersion(int64_t base_version) { return base_version == 8 ? 256 : 128; }

TEST(Staleness, MultipliesASumAndItsWeights) {
  AggregationSpec spec = Spec(1);
  spec.staleness_bits = 8;
  spec.scalars = {{"loss"}};
  const std::vector<PartsUpdate> updates = {{"new", {{"delta", {3.0f}}}, {{"examples", 2}, {"loss", 1}}, 8},
                                            {"old", {{"delta", {-1.0f}}}, {{"examples", 4}, {"loss", 2}}, 7}};
  ServerInput input = Finished(spec, updates, HalfAVersion);
  EXPECT_THAT(input.parts[0].mean, ElementsAre(1.0f));  // (2·3 − ½·4·1) / (2 + ½·4)
  EXPECT_EQ(input.parts[0].denominator, 4);
  EXPECT_EQ(input.scalars.at("loss"), 6);  // 2·1 + ½·4·2
  spec.parts[0].denominator.kind = Denominator::Kind::kTasks;
  input = Finished(spec, updates, HalfAVersion);
  EXPECT_THAT(input.parts[0].mean, ElementsAre(2.0f));  // (6 − 2) / 2: what is stale moves less
  spec.parts[0].denominator = {.kind = Denominator::Kind::kConstant, .constant = 8};
  EXPECT_THAT(Finished(spec, updates, HalfAVersion).parts[0].mean, ElementsAre(0.5f));
}

TEST(Staleness, TreeFlatAndMerged_GiveTheSameBits) {
  AggregationSpec spec = Spec(33, 12);
  spec.staleness_bits = 8;
  spec.scalars = {{"loss"}};
  std::vector<PartsUpdate> updates;
  for (int i = 0; i < 12; ++i) {
    Draws draws(StreamFor(4, "", Purpose::kSynthesize, static_cast<uint32_t>(i)), 0);
    std::vector<float> delta;
    for (int e = 0; e < 33; ++e) delta.push_back(static_cast<float>(draws.Normal()));
    updates.push_back(
        {fmt::format("t{}", i), {{"delta", delta}}, {{"examples", 1 + i}, {"loss", draws.Uniform()}}, 5 + i % 3});
  }
  const Staleness staleness = [](int64_t base) { return 256 / (8 - base); };
  const ServerInput flat = Finished(spec, updates, staleness);
  for (size_t sites = 1; sites <= 4; ++sites) {
    std::vector<std::unique_ptr<Aggregation>> leaves;
    for (size_t i = 0; i < sites; ++i) leaves.push_back(Make(spec));
    for (size_t i = 0; i < updates.size(); ++i) EXPECT_OK(updates[11 - i].FoldInto(*leaves[i % sites]));
    auto root = Make(spec);
    for (size_t i = sites; i-- > 0;) {
      for (Partial& partial : leaves[i]->Save()) EXPECT_OK(root->Merge(std::move(partial)));
    }
    EXPECT_EQ(root->Save().size(), 3u) << "a partial for each base version";
    const auto tree = std::move(*root).Finish(staleness);
    ASSERT_OK(tree);
    EXPECT_EQ(tree->parts[0].mean, flat.parts[0].mean);
    EXPECT_EQ(tree->scalars, flat.scalars);
  }
}

TEST(FinishUndivided, InAnyStretches_GivesTheBitsOfFinish) {
  AggregationSpec spec = Spec(9001, 12);
  spec.staleness_bits = 8;
  std::vector<PartsUpdate> updates;
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<float> delta(9001);
    for (size_t e = 0; e < delta.size(); ++e)
      delta[e] = 1e-3f * static_cast<float>(e % 1000 + 17 * static_cast<size_t>(i));
    updates.push_back({fmt::format("t{}", i), {{"delta", delta}}, {{"examples", 1 + i}}, 8 - i % 2});
  }
  const ServerInput whole = Finished(spec, updates, HalfAVersion);
  EXPECT_EQ(whole.parts[0].undivided, nullptr);
  auto aggregation = Make(spec);
  for (const PartsUpdate& update : updates) ASSERT_OK(update.FoldInto(*aggregation));
  ASSERT_OK_AND_ASSIGN(ServerInput input, std::move(*aggregation).FinishUndivided(HalfAVersion));
  aggregation.reset();
  ServerInput::Part& part = input.parts[0];
  ASSERT_NE(part.undivided, nullptr);
  EXPECT_TRUE(part.mean.empty());
  EXPECT_EQ(part.denominator, whole.parts[0].denominator);
  std::vector<float> mean(static_cast<size_t>(part.undivided->elements()));
  for (size_t first = mean.size(), count = 1; first > 0; ++count) {  // from behind, in ever longer stretches
    const size_t stretch = std::min(count, first);
    first -= stretch;
    part.undivided->Divide(static_cast<int64_t>(first), std::span(mean).subspan(first, stretch));
  }
  EXPECT_EQ(mean, whole.parts[0].mean);
  part.Divide();
  EXPECT_EQ(part.undivided, nullptr);
  EXPECT_EQ(part.mean, mean);
}

TEST(Staleness, OneFactorForAll_IsTheMeanWithoutAny) {
  AggregationSpec spec = Spec(1), stale = Spec(1);
  stale.staleness_bits = 8;
  const std::vector<PartsUpdate> updates = {{"a", {{"delta", {0.1f}}}, {{"examples", 2}}},
                                            {"b", {{"delta", {0.7f}}}, {{"examples", 5}}}};
  const float expected = Finished(spec, updates).parts[0].mean[0];
  for (const int64_t factor : {1, 100, 256}) {
    EXPECT_FLOAT_EQ(Finished(stale, updates, [&](int64_t) { return factor; }).parts[0].mean[0], expected);
  }
}

TEST(Staleness, WithoutBitsForIt_AnotherBaseVersionIsRefused) {
  auto aggregation = Make(Spec(1)), other = Make(Spec(1));
  ASSERT_OK((PartsUpdate{"a", {{"delta", {1.0f}}}, {{"examples", 2}}, 7}.FoldInto(*aggregation)));
  const PartsUpdate late{"b", {{"delta", {1.0f}}}, {{"examples", 2}}, 6};
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                "an update from version 6 cannot join those from version 7: the plan takes none that "
                                "are stale");
  EXPECT_THAT(late.FoldInto(*aggregation), refused);
  ASSERT_OK(late.FoldInto(*other));
  EXPECT_THAT(aggregation->Merge(other->Extract(6)), refused);
}

}  // namespace
}  // namespace rivulet
