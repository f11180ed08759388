#include "engine/base/named_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rivulet {
namespace {

using ::testing::ElementsAre;

struct Fruit {
  std::string name;
  int seeds = 0;
};

TEST(NamedRegistryTest, KindsAreFoundByNameAndInItsOrder) {
  NamedRegistry<Fruit> fruits("fruits");
  fruits.Add({"pear", 8});
  fruits.Add({"apple", 5});
  ASSERT_NE(fruits.Find("pear"), nullptr);
  EXPECT_EQ(fruits.Find("pear")->seeds, 8);
  EXPECT_EQ(fruits.Find("plum"), nullptr);
  EXPECT_EQ(fruits.kinds().begin()->first, "apple");
}

TEST(NamedRegistryTest, VisitorsSeeWhatIsThereAndWhatComesLater) {
  NamedRegistry<Fruit> fruits("fruits");
  fruits.Add({"pear"});
  std::vector<std::string> seen;
  fruits.ForEach([&](const Fruit& fruit) { seen.push_back(fruit.name); });
  fruits.Add({"apple"});
  EXPECT_THAT(seen, ElementsAre("pear", "apple"));
}

TEST(NamedRegistryDeathTest, TwoOfOneName_FailACheck) {
  NamedRegistry<Fruit> fruits("fruits");
  fruits.Add({"pear"});
  EXPECT_DEATH(fruits.Add({"pear"}), "two fruits are named 'pear'");
}

}  // namespace
}  // namespace rivulet
