#include "engine/datasets/cifar100.h"

#include "engine/data/dataset.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

std::string Record100(char coarse, char fine) {
  std::string record{coarse, fine};
  for (const char value : {'r', 'g', 'b'}) record += std::string(1024, value);
  return record;
}

class Cifar100Test : public DataTest {
 protected:
  Cifar100Test() { std::filesystem::create_directory(Path("in")); }
  std::string Error() {
    const auto counts = ImportCifar100(FileSystem::Default(), Path("in"), Path("out"));
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
    return counts.ok() ? "imported" : std::string(Message(counts.status()));
  }
};

TEST_F(Cifar100Test, BothLabels_StandBesideTheImage) {
  Write("in/train.bin", Record100(3, 98) + Record100(19, 99));
  Write("in/test.bin.gz", Pack(Record100(0, 1), 31));
  const auto counts = ImportCifar100(FileSystem::Default(), Path("in"), Path("out"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 2);
  EXPECT_EQ(counts->test, 1);
  const auto records = ReadRecords(Path("out/train.tfrecord"));
  ASSERT_OK(records);
  int64_t label = -1, coarse = -1;
  std::string_view image;
  ASSERT_OK(FindInt64Feature((*records)[1], "label", &label));
  ASSERT_OK(FindInt64Feature((*records)[1], "coarse_label", &coarse));
  ASSERT_OK(FindBytesFeature((*records)[1], "image", &image));
  EXPECT_EQ(label, 99);
  EXPECT_EQ(coarse, 19);
  EXPECT_EQ(image.substr(0, 6), "rgbrgb");
}

TEST_F(Cifar100Test, DamagedFiles_AreNamedWithTheirRecord) {
  EXPECT_THAT(Error(), HasSubstr("no train.bin or train.bin.gz in this folder; give the folder cifar-100-binary"));
  Write("in/train.bin", Record100(20, 5));
  EXPECT_THAT(Error(), HasSubstr("no test.bin"));
  Write("in/test.bin", Record100(1, 1));
  EXPECT_THAT(Error(), HasSubstr("in/train.bin: record 0 has the coarse_label 20; CIFAR-100's are 0 to 19"));
  Write("in/train.bin", Record100(1, 1) + Record100(1, 100));
  EXPECT_THAT(Error(), HasSubstr("in/train.bin: record 1 has the label 100; CIFAR-100's are 0 to 99"));
  Write("in/train.bin", Record100(1, 1) + "\1");
  EXPECT_THAT(Error(), HasSubstr("in/train.bin: record 1 is cut off: 1 of its 3074 bytes are there"));
  Write("in/train.bin", "");
  EXPECT_THAT(Error(), HasSubstr("in/train.bin: it has no records"));
}

}  // namespace
}  // namespace rivulet
