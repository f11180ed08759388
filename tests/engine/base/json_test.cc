#include "engine/base/json.h"

#include <cmath>
#include <limits>
#include <map>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::ErrorOf;
using ::testing::HasSubstr;

Json Parsed(std::string_view text) {
  const StatusOr<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Json();
}

TEST(Json, BracesOfPairs_AreAnObjectInTheOrderGiven) {
  const Json json = {{"b", 1}, {"a", {{"x", true}, {"y", nullptr}}}, {"none", Json::Array()}};
  EXPECT_EQ(json.Dump(), R"({"b":1,"a":{"x":true,"y":null},"none":[]})");
  EXPECT_EQ(json.size(), 3u);
}

TEST(Json, BracesOfOtherThings_AreAnArray) {
  EXPECT_EQ((Json{1, "two", 3.5}).Dump(), R"([1,"two",3.5])");
  EXPECT_EQ(Json(std::vector<std::string>{"a", "b"}).Dump(), R"(["a","b"])");
}

TEST(Json, AMap_IsAnObject) {
  EXPECT_EQ(Json(std::map<std::string, int>{{"a", 1}, {"b", 2}}).Dump(), R"({"a":1,"b":2})");
}

TEST(Json, Numbers_KeepTheirKindAndAllTheirDigits) {
  const Json json = {std::numeric_limits<uint64_t>::max(), std::numeric_limits<int64_t>::min(), 0.1, 1.0, 1e300};
  EXPECT_EQ(json.Dump(), "[18446744073709551615,-9223372036854775808,0.1,1.0,1e+300]");
}

TEST(Json, WhatIsNoNumber_IsWrittenAsNull) {
  EXPECT_EQ((Json{std::nan(""), std::numeric_limits<double>::infinity(), 1}).Dump(), "[null,null,1]");
}

TEST(Json, TextThatIsNoUtf8_IsMended) { EXPECT_EQ(Json("a\xFF\n").Dump(), "\"a\xEF\xBF\xBD\\n\""); }

TEST(Json, AnIndent_PutsMembersOnLinesOfTheirOwn) {
  EXPECT_EQ((Json{{"a", std::vector<int>{1}}}).Dump(1), "{\n \"a\": [\n  1\n ]\n}");
}

TEST(Json, AMemberOfNull_MakesAnObject) {
  Json json;
  json["a"]["b"] = 1;
  json["a"]["b"] = 2;
  json["list"].Append("x");
  EXPECT_EQ(json.Dump(), R"({"a":{"b":2},"list":["x"]})");
}

TEST(Json, Find_WhatIsNotThere_IsNull) {
  const Json json = {{"a", 1}};
  ASSERT_NE(json.Find("a"), nullptr);
  EXPECT_EQ(json.Find("a")->integer(), 1);
  EXPECT_EQ(json.Find("b"), nullptr);
  EXPECT_EQ(json.At("a").integer(), 1);
  EXPECT_TRUE(json.At("b").At("c").IsNull());
  const Json number = 3;
  EXPECT_EQ(number.Find("a"), nullptr);
}

TEST(Json, ValuesOfAnotherKind_AreEmpty) {
  const Json number = 3;
  EXPECT_EQ(number.text(), "");
  EXPECT_TRUE(number.elements().empty());
  EXPECT_TRUE(number.members().empty());
  EXPECT_EQ(Json("3").integer(), 0);
  EXPECT_EQ(Json("3").number(), 0);
  EXPECT_FALSE(Json(1).IsTrue());
}

TEST(Json, Integer_BeyondItsRange_IsTheNearestBound) {
  EXPECT_EQ(Json(1e300).integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Json(-1e300).integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Json(std::numeric_limits<uint64_t>::max()).integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Json(std::nan("")).integer(), 0);
}

TEST(JsonParse, WhatDumpWrote_IsReadAgain) {
  const std::string text = R"({"b":[1,-2,18446744073709551615,0.25,"é\n",true,false,null,[],{}],"a":{"x":1}})";
  EXPECT_EQ(Parsed(text).Dump(), text);
}

TEST(JsonParse, KindsOfNumbers_AreTold) {
  const Json json = Parsed("[1, 1.0, -1, 1e2]");
  EXPECT_TRUE(json.elements()[0].IsInteger());
  EXPECT_FALSE(json.elements()[1].IsInteger());
  EXPECT_TRUE(json.elements()[1].IsNumber());
  EXPECT_EQ(json.elements()[2].integer(), -1);
  EXPECT_EQ(json.elements()[3].number(), 100);
}

TEST(JsonParse, TwoMembersOfOneName_TheLaterCountsInTheFirstsPlace) {
  EXPECT_EQ(Parsed(R"({"a":1,"b":2,"a":3,"c":4,"a":5})").Dump(), R"({"a":5,"b":2,"c":4})");
}

TEST(JsonParse, NoJson_SaysWhereAndWhy) {
  EXPECT_THAT(ErrorOf(Json::Parse("{\"a\": }")), HasSubstr("line 1, column 7"));
  EXPECT_THAT(ErrorOf(Json::Parse("")), HasSubstr("unexpected end of input"));
  EXPECT_THAT(ErrorOf(Json::Parse("1 2")), HasSubstr("column 3"));
  EXPECT_EQ(Json::Parse("\"\xFF\"").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(JsonParse, NestedDeeperThanAllowed_IsRefused) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(Json::Parse(nested(Json::kMaxDepth)).ok());
  EXPECT_THAT(ErrorOf(Json::Parse(nested(Json::kMaxDepth + 1))), HasSubstr("nested deeper than 200"));
}

}  // namespace
}  // namespace rivulet
