#include "engine/datasets/class_names.h"

#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ClassNamesTest : public DataTest {
 protected:
  std::vector<std::string> Names(const std::string& records) {
    return ClassNamesBeside(FileSystem::Default(), records.empty() ? "" : Path(records));
  }
};

TEST_F(ClassNamesTest, LinesOrColumnsBesideTheRecords_NameTheClasses) {
  EXPECT_THAT(Names("train.tfrecord"), IsEmpty());
  EXPECT_THAT(Names(""), IsEmpty());
  Write("columns.json", R"({"features": [{"column": "a", "kind": "number", "mean": 0, "deviation": 1}],
                            "label": {"column": "y", "count": 2, "classes": ["ill", "well"]}})");
  EXPECT_THAT(Names("train-*.tfrecord"), ElementsAre("ill", "well"));
  Write("classes.txt", "cat\ndog\n");
  EXPECT_THAT(Names("train.tfrecord"), ElementsAre("cat", "dog"));
}

TEST_F(ClassNamesTest, ADamagedFile_NamesNothing) {
  Write("columns.json", "{");
  EXPECT_THAT(Names("train.tfrecord"), IsEmpty());
}

}  // namespace
}  // namespace rivulet
