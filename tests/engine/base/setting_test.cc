#include "engine/base/setting.h"

#include <cmath>
#include <limits>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::HasSubstr;

using Given = SettingValues;

SettingValue S(const char* text) { return std::string(text); }
SettingValue I(int64_t number) { return number; }
SettingValue List(std::vector<int64_t> numbers) { return numbers; }
SettingValue Names(std::vector<std::string> names) { return names; }

std::string Refusal(const Setting& setting, const SettingValue& given) {
  return ErrorOf(setting.Take(given, "x in f"));
}

const Setting kCount = Integer("count", 3, "How many").Between(1, 1e9);
const Setting kRate = Float("rate", 0.5, "How fast").AtLeast(0).Below(1);
const Setting kFlag = Flag("flag", false, "Whether");
const Setting kKind = Text("kind", "iid", "Which").OneOf({"iid", "shards"});
const Setting kText = Text("text", "", "What");
const Setting kSizes = Integers("sizes", std::vector<int64_t>{2}, "How large").AtLeast(1).Items(1, 2);
const Setting kNames{.name = "names", .type = SettingType::kStrings, .doc = "Who"};

TEST(SettingTake, AValueInRange_IsGivenInTheSettingsType) {
  EXPECT_EQ(*kCount.Take(I(1), "x"), I(1));
  EXPECT_EQ(*kRate.Take(I(0), "x"), SettingValue(0.0));
  EXPECT_EQ(*kRate.Take(0.25, "x"), SettingValue(0.25));
  EXPECT_EQ(*kFlag.Take(true, "x"), SettingValue(true));
  EXPECT_EQ(*kKind.Take(S("shards"), "x"), S("shards"));
  EXPECT_EQ(*kSizes.Take(I(5), "x"), List({5}));
  EXPECT_EQ(*kSizes.Take(List({5, 6}), "x"), List({5, 6}));
  EXPECT_EQ(*kNames.Take(Names({"a"}), "x"), Names({"a"}));
}

TEST(SettingTake, AnEmptyArray_IsOfEitherType) {
  const Setting any = Integers("any", std::vector<int64_t>(), "Any");
  EXPECT_EQ(*any.Take(Names({}), "x"), List({}));
  EXPECT_EQ(*kNames.Take(List({}), "x"), Names({}));
}

TEST(SettingTake, AWrongType_SaysWantedAndGiven) {
  EXPECT_EQ(Refusal(kCount, 1.5), "x in f must be an integer, not the float 1.5");
  EXPECT_EQ(Refusal(kRate, true), "x in f must be a number, not the boolean true");
  EXPECT_EQ(Refusal(kFlag, I(1)), "x in f must be true or false, not the integer 1");
  EXPECT_EQ(Refusal(kText, I(1)), "x in f must be a string, not the integer 1");
  EXPECT_EQ(Refusal(kSizes, S("a")), "x in f must be an integer or an array of integers, not the string \"a\"");
  EXPECT_EQ(Refusal(kSizes, Names({"a"})),
            "x in f must be an integer or an array of integers, not an array of strings");
  EXPECT_EQ(Refusal(kNames, List({1})), "x in f must be an array of strings, not an array of integers");
  EXPECT_EQ(std::string(Message(kCount.WrongType("x", "a date"))), "x must be an integer, not a date");
}

TEST(SettingTake, OutOfRange_SaysTheRange) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Refusal(kCount, I(0)), "x in f must be at least 1 and at most 1000000000, not 0");
  EXPECT_EQ(Refusal(kRate, I(1)), "x in f must be at least 0 and below 1, not 1");
  EXPECT_EQ(Refusal(Float("alpha", 0.5, "").Above(0), I(0)), "x in f must be above 0, not 0");
  EXPECT_EQ(Refusal(kRate, std::nan("")), "x in f must be a finite number, not nan");
  EXPECT_EQ(Refusal(Float("any", 0, ""), infinity), "x in f must be a finite number, not inf");
  EXPECT_EQ(Refusal(kSizes, List({1, 0})), "x in f must be at least 1, not 0");
  EXPECT_EQ(Refusal(kSizes, List({})), "x in f must hold 1 value or more, not 0");
  EXPECT_EQ(Refusal(kSizes, List({1, 2, 3})), "x in f must hold 2 values at most, not 3");
}

// 1 - 1e-16 is below 1, and 1 in the 32 bits that kernels compute in.
TEST(SettingTake, WhatIsOutOfRangeIn32Bits_SaysWhatItIsThere) {
  EXPECT_EQ(Refusal(kRate, 0.9999999999999999),
            "x in f must be at least 0 and below 1, not 0.9999999999999999, which is 1 as a 32-bit float");
  EXPECT_EQ(Refusal(kRate, 5e-324),
            "x in f must be 0 or at least 1.2e-38 in size, not 5e-324, which is 0 as a 32-bit float");
  EXPECT_EQ(Refusal(Float("tau", 1e-3, "How much").Above(0), 1e39),
            "x in f must be at most 3.4e38 in size, not 1e+39, which is beyond 32-bit floats");
  const double least = 1e-9;  // nearer to 0 in 32 bits: an included bound may be rounded across
  EXPECT_OK(Float("fraction", 0.5, "How many").Between(least, 1).Take(least, "x").status());
}

TEST(SettingTake, ATextThatIsNoChoice_SuggestsTheNearest) {
  EXPECT_EQ(Refusal(kKind, S("idd")), "x in f must be one of \"iid\", \"shards\", not \"idd\". Did you mean 'iid'?");
  EXPECT_EQ(Refusal(Text("only", "a", "").OneOf({"", "a"}), S("zzzz")), "x in f must be \"a\", not \"zzzz\".");
  EXPECT_EQ(Refusal(kText, std::string("a\0b", 3)), "x in f must not contain a zero byte");
  EXPECT_EQ(Refusal(kNames, Names({"a", ""})), "x in f must hold names, not \"\"");
  EXPECT_THAT(Refusal(kKind, S(std::string(1000, 'a').c_str())), HasSubstr(std::string(60, 'a') + "…\""));
}

TEST(SettingsRead, WhatIsNotGiven_IsTheDefault) {
  const std::vector<Setting> table = {kCount, kRate, kFlag, kKind, kSizes};
  ASSERT_OK_AND_ASSIGN(const Settings settings, Settings::Read(table, Given{{"rate", I(0)}}, "layer 2"));
  EXPECT_EQ(settings.integer("count"), 3);
  EXPECT_EQ(settings.number("rate"), 0);
  EXPECT_FALSE(settings.flag("flag"));
  EXPECT_EQ(settings.text("kind"), "iid");
  EXPECT_EQ(settings.integers("sizes"), std::vector<int64_t>{2});
}

TEST(SettingsRead, Mistakes_NameOwnerAndKey) {
  const std::vector<Setting> table = {kCount, Integer("units", std::nullopt, "Width").AtLeast(1),
                                      Text("with", std::nullopt, "Whom")};
  const auto error = [&](const Given& given) { return ErrorOf(Settings::Read(table, given, "layer 2")); };
  EXPECT_EQ(error({}), "layer 2: units must be given: at least 1");
  EXPECT_EQ(error({{"units", I(1)}}), "layer 2: with must be given: a string");
  EXPECT_EQ(error({{"units", I(0)}}), "layer 2: units must be at least 1, not 0");
  EXPECT_EQ(error({{"units", I(1)}, {"with", S("a")}, {"cuont", I(1)}}),
            "layer 2: unknown key 'cuont'. Did you mean 'count'? Its keys are count, units, with");
  EXPECT_EQ(ErrorOf(Settings::Read({}, Given{{"mu", I(1)}}, "'fedavg'")), "'fedavg': unknown key 'mu'; it takes none");
}

TEST(ToToml, IsWhatTomlReads) {
  EXPECT_EQ(ToToml(I(-3)), "-3");
  EXPECT_EQ(ToToml(1.0), "1.0");
  EXPECT_EQ(ToToml(1e-8), "1e-08");
  EXPECT_EQ(ToToml(true), "true");
  EXPECT_EQ(ToToml(S("a\"\\\n\x01")), "\"a\\\"\\\\\\n\\u0001\"");
  EXPECT_EQ(ToToml(List({1, 2})), "[1, 2]");
  EXPECT_EQ(ToToml(Names({"a", "b"})), "[\"a\", \"b\"]");
}

}  // namespace
}  // namespace rivulet
