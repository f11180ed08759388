#include "engine/datasets/cifar10.h"

#include "engine/data/dataset.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

// A record whose red, green and blue planes count from `first`, 50 and 100.
std::string Record(char label, int first) {
  std::string record(1, label);
  for (const int start : {first, 50, 100})
    for (int i = 0; i < 1024; ++i) record.push_back(static_cast<char>((start + i) % 256));
  return record;
}

class Cifar10Test : public DataTest {
 protected:
  Cifar10Test() { std::filesystem::create_directory(Path("in")); }
  std::string Error() {
    const auto counts = ImportCifar10(FileSystem::Default(), Path("in"), Path("out"));
    if (counts.ok()) return "imported";
    if (std::filesystem::exists(Path("out"))) {
      EXPECT_TRUE(std::filesystem::is_empty(Path("out")));
    }
    return std::string(Message(counts.status()));
  }
};

TEST_F(Cifar10Test, PlanesOfColour_BecomePixels) {
  Write("in/data_batch_2.bin", Record(3, 7));
  Write("in/data_batch_1.bin.gz", Pack(Record(9, 1) + Record(0, 2), 31));
  Write("in/test_batch.bin", Record(5, 0));
  Write("in/batches.meta.txt", "airplane");
  const auto counts = ImportCifar10(FileSystem::Default(), Path("in"), Path("out"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 3);
  EXPECT_EQ(counts->test, 1);
  const auto data = Dataset::Open({Path("out/train.tfrecord")});
  ASSERT_OK(data);
  std::string record;
  ASSERT_OK((*data)->Read(2, record));  // of the second file
  std::string_view image;
  int64_t label = -1;
  ASSERT_OK(FindBytesFeature(record, "image", &image));
  ASSERT_OK(FindInt64Feature(record, "label", &label));
  EXPECT_EQ(label, 3);
  ASSERT_EQ(image.size(), 3072u);
  EXPECT_EQ(image.substr(0, 6), std::string("\7\62\144\10\63\145"));  // 7 50 100, 8 51 101
}

TEST_F(Cifar10Test, DamagedFiles_AreNamedWithTheirRecord) {
  EXPECT_THAT(Error(), HasSubstr("no data_batch*.bin or data_batch*.bin.gz in this folder"));
  Write("in/data_batch_1.bin", Record(1, 0) + Record(10, 0));
  EXPECT_THAT(Error(), HasSubstr("no test_batch*.bin"));
  Write("in/test_batch.bin", Record(1, 0));
  EXPECT_THAT(Error(), HasSubstr("in/data_batch_1.bin: record 1 has the label 10; CIFAR-10's are 0 to 9"));
  Write("in/data_batch_1.bin", "");
  EXPECT_THAT(Error(), HasSubstr("in/data_batch_1.bin: it has no records"));
  Write("in/data_batch_1.bin", Record(1, 0) + Record(2, 0).substr(0, 100));
  EXPECT_THAT(Error(), HasSubstr("in/data_batch_1.bin: record 1 is cut off: 100 of its 3073 bytes are there"));
}

TEST_F(Cifar10Test, RealFiles_HaveTheirFirstLabels) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const auto counts = ImportCifar10(FileSystem::Default(), TestData() + "/cifar10-subset", Path("out"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 4000);
  EXPECT_EQ(counts->test, 1000);
  const auto data = Dataset::Open({Path("out/train.tfrecord")});
  ASSERT_OK(data);
  std::string record;
  uint32_t index = 0;
  for (const int64_t expected : {6, 9, 9, 4, 1, 1, 2, 7, 8, 3}) {
    ASSERT_OK((*data)->Read(index++, record));
    int64_t label = -1;
    ASSERT_OK(FindInt64Feature(record, "label", &label));
    EXPECT_EQ(label, expected);
  }
}

}  // namespace
}  // namespace rivulet
