#include "engine/base/numbered_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace rivulet {
namespace {

TEST(NumberedNames, WhatHasNoName_IsCalledByItsNumber) {
  const std::vector<std::string> names = {"ill", "we\nll", "gesünder"};
  EXPECT_EQ(NameOrNumber(names, 0), "ill");
  EXPECT_EQ(NameOrNumber(names, 1), "we ll");  // shown in one line
  EXPECT_EQ(NameOrNumber(names, 3), "3");
  EXPECT_EQ(NameOrNumber(names, -1), "-1");
  EXPECT_EQ(NameOrNumber({}, 7), "7");
}

TEST(NumberedNames, WidthIsThatOfTheLongestInCharacters) {
  EXPECT_EQ(WidthOfNames(std::vector<std::string>{"ill", "gesünder"}, 4), 8u);
  EXPECT_EQ(WidthOfNames(std::vector<std::string>{"ill"}, 4), 4u);
  EXPECT_EQ(WidthOfNames({}, 4), 4u);
}

}  // namespace
}  // namespace rivulet
