#include "engine/datasets/mnist.h"

#include <sys/stat.h>

#include "engine/data/dataset.h"
#include "engine/data/inspect.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

std::string Idx(uint32_t magic, const std::vector<uint32_t>& dims, const std::string& data) {
  std::string out;
  const auto put = [&](uint32_t v) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(v >> shift));
  };
  put(magic);
  for (const uint32_t dim : dims) put(dim);
  return out + data;
}
std::string Images(uint32_t count) {
  std::string data;
  for (uint32_t i = 0; i < count; ++i) data += std::string(784, static_cast<char>(i + 1));
  return Idx(0x803, {count, 28, 28}, data);
}
std::string Labels(const std::string& labels) { return Idx(0x801, {static_cast<uint32_t>(labels.size())}, labels); }

class MnistTest : public DataTest {
 protected:
  MnistTest() { std::filesystem::create_directory(Path("in")); }
  void WriteAll() {
    Write("in/train-images-idx3-ubyte", Images(3));
    Write("in/train-labels-idx1-ubyte.gz", Pack(Labels(std::string("\5\0\4", 3)), 31));
    Write("in/t10k-images.idx3-ubyte.gz", Pack(Images(2), 31));
    Write("in/t10k-labels.idx1-ubyte", Labels("\7\2"));
  }
  // The error, which leaves the folder of results empty.
  std::string Error() {
    const auto counts = ImportMnist(FileSystem::Default(), Path("in"), Path("out"));
    if (counts.ok()) return "imported";
    if (std::filesystem::exists(Path("out"))) {
      EXPECT_TRUE(std::filesystem::is_empty(Path("out")));
    }
    return folder_.Relative(Message(counts.status()));
  }
};

TEST_F(MnistTest, RawAndPackedFiles_BecomeRecords) {
  WriteAll();
  const auto counts = ImportMnist(FileSystem::Default(), Path("in"), Path("out/deep"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 3);
  EXPECT_EQ(counts->test, 2);
  const auto data = Dataset::Open({Path("out/deep/train.tfrecord")});
  ASSERT_OK(data);
  std::string record;
  ASSERT_OK((*data)->Read(2, record));
  std::string_view image;
  int64_t label = -1;
  ASSERT_OK(FindBytesFeature(record, "image", &image));
  ASSERT_OK(FindInt64Feature(record, "label", &label));
  EXPECT_EQ(image, std::string(784, '\3'));
  EXPECT_EQ(label, 4);
}

TEST_F(MnistTest, MissingFile_IsNamed) {
  WriteAll();
  std::filesystem::remove(Path("in/t10k-labels.idx1-ubyte"));
  EXPECT_EQ(Error(), "in: no t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz in this folder");
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(MnistTest, SwappedFiles_AreToldByTheirMagicNumber) {
  WriteAll();
  Write("in/t10k-labels.idx1-ubyte", Images(2));
  EXPECT_EQ(Error(),
            "in/t10k-labels.idx1-ubyte: its magic number is 0x00000803, but an IDX file of unsigned bytes with 1 "
            "dimension has 0x00000801");
}

TEST_F(MnistTest, WrongSizes_AreRefused) {
  WriteAll();
  Write("in/t10k-labels.idx1-ubyte", Labels("\7\2").substr(0, 9));
  EXPECT_EQ(Error(), "in/t10k-labels.idx1-ubyte: cut off: its sizes ask for 2 bytes of data, but 1 are there");
  Write("in/t10k-labels.idx1-ubyte", Labels("\7\2") + "x");
  EXPECT_EQ(Error(), "in/t10k-labels.idx1-ubyte: bytes follow the 2 bytes of data that its sizes ask for");
  Write("in/t10k-labels.idx1-ubyte", Labels("\7\2").substr(0, 6));
  EXPECT_EQ(Error(), "in/t10k-labels.idx1-ubyte: cut off: 6 of the IDX header's 8 bytes are there");
  Write("in/t10k-labels.idx1-ubyte", Labels("\7\2\3"));
  EXPECT_THAT(Error(), HasSubstr("t10k-labels.idx1-ubyte has 3 labels, but "));
  WriteAll();
  Write("in/train-images-idx3-ubyte", Idx(0x803, {3, 14, 56}, std::string(3 * 784, 'x')));
  EXPECT_EQ(Error(), "in/train-images-idx3-ubyte: images of 14×56 pixels; MNIST's have 28×28");
  Write("in/train-images-idx3-ubyte", Idx(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, ""));
  EXPECT_THAT(Error(), HasSubstr("its sizes multiply to more than"));
  Write("in/train-images-idx3-ubyte", Idx(0x803, {0xFFFFFF, 1, 255}, ""));
  EXPECT_THAT(Error(), HasSubstr("cut off: its sizes ask for 4278189825 bytes of data, but 0 are there"));
}

TEST_F(MnistTest, FilesWithoutImages_AreRefused) {
  WriteAll();
  Write("in/train-images-idx3-ubyte", Idx(0x803, {0, 28, 28}, ""));
  Write("in/train-labels-idx1-ubyte", Labels(""));
  EXPECT_EQ(Error(), "in/train-images-idx3-ubyte has no images");
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(MnistTest, ImportThatIsStopped_LeavesNothing) {
  WriteAll();
  const auto counts = ImportMnist(FileSystem::Default(), Path("in"), Path("out/deep"),
                                  [](int64_t, int64_t) { return Cancelled("enough"); });
  EXPECT_EQ(counts.status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(MnistTest, LabelThatIsNoDigit_IsRefused) {
  WriteAll();
  Write("in/train-labels-idx1-ubyte.gz", Pack(Labels("\5\12\4"), 31));
  EXPECT_EQ(Error(), "in/train-labels-idx1-ubyte.gz: label 1 is 10; digits are 0 to 9");
}

TEST_F(MnistTest, DamagedGzip_IsRefused) {
  WriteAll();
  const std::string packed = Pack(Labels(std::string("\5\0\4", 3)), 31);
  for (size_t size = 0; size < packed.size(); ++size) {
    Write("in/train-labels-idx1-ubyte.gz", packed.substr(0, size));
    EXPECT_THAT(Error(), ::testing::StartsWith("in/train-labels-idx1-ubyte.gz: ")) << size;
  }
}

TEST_F(MnistTest, PipeInsteadOfAFile_IsRefused) {
  WriteAll();
  std::filesystem::remove(Path("in/train-images-idx3-ubyte"));
  ASSERT_EQ(mkfifo(Path("in/train-images-idx3-ubyte").c_str(), 0600), 0);
  EXPECT_THAT(Error(), HasSubstr("in/train-images-idx3-ubyte: a pipe cannot be read by position"));
}

TEST_F(MnistTest, TheRealFiles_HaveTheirKnownCountsAndLabels) {
  if (TestData().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const auto counts = ImportMnist(FileSystem::Default(), TestData() + "/mnist", Path("out"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 60000);
  EXPECT_EQ(counts->test, 10000);
  const auto train = InspectRecords(Path("out/train.tfrecord"));
  ASSERT_OK(train);
  EXPECT_EQ(train->labels, (std::map<int64_t, int64_t>{{0, 5923},
                                                       {1, 6742},
                                                       {2, 5958},
                                                       {3, 6131},
                                                       {4, 5842},
                                                       {5, 5421},
                                                       {6, 5918},
                                                       {7, 6265},
                                                       {8, 5851},
                                                       {9, 5949}}));
  EXPECT_THAT(train->features.at("image").Shape(), ::testing::ElementsAre(784));
  EXPECT_THAT(train->features.at("label").Shape(), ::testing::ElementsAre());
  const auto data = Dataset::Open({Path("out/test.tfrecord")});
  std::string record, first;
  for (int64_t i = 0; i < 5; ++i) {
    ASSERT_OK((*data)->Read(i, record));
    int64_t label = -1;
    ASSERT_OK(FindInt64Feature(record, "label", &label));
    first += std::to_string(label);
  }
  EXPECT_EQ(first, "72104");
}

}  // namespace
}  // namespace rivulet
