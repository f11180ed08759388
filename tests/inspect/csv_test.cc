#include "inspect/csv.h"

#include <gtest/gtest.h>

namespace rivulet {
namespace {

TEST(CsvOf_, QuotesWhatWouldEndAFieldOrARow) {
  const SqlAnswer answer{
      .columns = {"name", "value"},
      .rows = {{std::string("plain"), 0.5}, {std::string("a \"b\", c\n"), std::monostate()}, {int64_t{3}, true}}};
  EXPECT_EQ(CsvOf(answer), "name,value\nplain,0.5\n\"a \"\"b\"\", c\n\",\n3,1\n");
}

}  // namespace
}  // namespace rivulet
