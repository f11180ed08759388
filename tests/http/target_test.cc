#include "http/target.h"

#include <gtest/gtest.h>

namespace rivulet {
namespace {

TEST(HttpTarget, PathAndParameters_AreDecoded) {
  const HttpTarget target = TargetOf("/a%20b?x=1&y=%C3%A9+z&x=2&flag&=v&&w=%zz%4");
  EXPECT_EQ(target.path, "/a b");
  const std::multimap<std::string, std::string> expected = {{"x", "1"},   {"y", "\xC3\xA9 z"}, {"x", "2"},
                                                            {"flag", ""}, {"", "v"},           {"w", "%zz%4"}};
  EXPECT_EQ(target.parameters, expected);
}

TEST(HttpTarget, WhateverBytes_AreTaken) {
  EXPECT_EQ(TargetOf("").path, "");
  EXPECT_EQ(TargetOf("?").parameters.size(), 0u);
  EXPECT_EQ(TargetOf("/a+b#c?d=e").path, "/a+b");
  EXPECT_EQ(TargetOf("/%00%").path, std::string("/\0%", 3));
}

}  // namespace
}  // namespace rivulet
