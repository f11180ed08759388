#include "engine/datasets/arrays.h"

#include <cmath>

#include "engine/data/dataset.h"
#include "engine/io/npy.h"
#include "engine/io/npz.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Arrays = std::vector<std::pair<std::string, Tensor>>;

class ArraysTest : public DataTest {
 protected:
  StatusOr<ArrayCounts> Import(const Arrays& arrays, int64_t test_every = 0) {
    std::vector<std::pair<std::string, TensorView>> views;
    for (const auto& [name, array] : arrays) views.emplace_back(name, array.view());
    EXPECT_OK(WriteNpz(FileSystem::Default(), Path("a.npz"), views));
    return ImportArrays(FileSystem::Default(), {Path("a.npz"), Path("out"), test_every});
  }
  std::string Error(const Arrays& arrays) {
    const auto counts = Import(arrays);
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
    return counts.ok() ? "imported" : folder_.Relative(Message(counts.status()));
  }
  std::vector<std::string> Records(const std::string& file) { return *ReadRecords(Path(file)); }
};

const Tensor kTwoLabels = Tensor::Of<int64_t>(Shape({2}), {1, 0});

TEST_F(ArraysTest, Bytes_BecomeImages) {
  const auto counts = Import({{"x_train", Tensor::Of<uint8_t>(Shape({2, 2, 1}), {1, 2, 3, 255})},
                              {"y_train", Tensor::Of<uint8_t>(Shape({2, 1}), {7, 9})},
                              {"x_test", Tensor::Of<uint8_t>(Shape({1, 2, 1}), {5, 6})},
                              {"y_test", Tensor::Of<uint8_t>(Shape({1}), {3})},
                              {"other", Tensor::Of<float>(Shape({1}), {3})}});
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 2);
  EXPECT_EQ(counts->test, 1);
  EXPECT_EQ(counts->values, 2);
  std::string_view image;
  int64_t label = -1;
  const auto train = Records("out/train.tfrecord"), test = Records("out/test.tfrecord");
  ASSERT_OK(FindBytesFeature(train[1], "image", &image));
  ASSERT_OK(FindInt64Feature(train[1], "label", &label));
  EXPECT_EQ(image, "\3\xff");
  EXPECT_EQ(label, 9);
  ASSERT_OK(FindInt64Feature(test[0], "label", &label));
  EXPECT_EQ(label, 3);
}

TEST_F(ArraysTest, NumbersOfAFolder_BecomeFeaturesWithTheirKey) {
  std::filesystem::create_directory(Path("in"));
  FileSystem& fs = FileSystem::Default();
  ASSERT_OK(WriteNpy(fs, Path("in/x.npy"), Tensor::Of<double>(Shape({3, 2}), {1, 2, 3, 4, 5, 6.5}).view()));
  ASSERT_OK(WriteNpy(fs, Path("in/y.npy"), Tensor::Of<float>(Shape({3}), {0, 1, 2}).view()));
  ASSERT_OK(WriteNpy(fs, Path("in/key.npy"), Tensor::Of<int32_t>(Shape({3}), {8, 8, 4}).view()));
  const auto counts = ImportArrays(fs, {Path("in"), Path("out"), 3});
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 2);
  EXPECT_EQ(counts->test, 1);
  std::vector<float> features(2);
  int64_t key = -1;
  const auto test = Records("out/test.tfrecord");
  ASSERT_OK(FindFloatFeature(test[0], "features", features));
  ASSERT_OK(FindInt64Feature(test[0], "key", &key));
  EXPECT_THAT(features, ElementsAre(5.0f, 6.5f));
  EXPECT_EQ(key, 4);
}

TEST_F(ArraysTest, WholeNumbers_BecomeTokens) {
  ASSERT_OK(Import({{"x", Tensor::Of<int32_t>(Shape({2, 2}), {1, 2, -3, 4})}, {"y", kTwoLabels}}));
  std::vector<int64_t> tokens(2);
  ASSERT_OK(FindInt64Features(Records("out/train.tfrecord")[1], "tokens", tokens));
  EXPECT_THAT(tokens, ElementsAre(-3, 4));
  EXPECT_FALSE(std::filesystem::exists(Path("out/test.tfrecord")));
}

TEST_F(ArraysTest, WhatIsNoDataSet_IsRefused) {
  const Tensor x = Tensor::Of<float>(Shape({2, 1}), {1, 2});
  EXPECT_THAT(Error({{"a", x}}), HasSubstr("a.npz: no array is called x_train or x; name the inputs so"));
  EXPECT_THAT(Error({{"x", x}}), HasSubstr("a.npz: there is an array 'x' and no 'y' with its labels"));
  EXPECT_THAT(Error({{"x", Tensor::Of<float>(Shape({2}), {1, 2})}, {"y", kTwoLabels}}),
              HasSubstr("a.npz: 'x' has the shape [2]; it needs rows, and values in each"));
  EXPECT_THAT(Error({{"x", Tensor(DType::kFloat32, Shape({0, 3}))}, {"y", kTwoLabels}}), HasSubstr("it needs rows"));
  EXPECT_THAT(Error({{"x", x}, {"y", Tensor::Of<int64_t>(Shape({3}), {1, 2, 3})}}),
              HasSubstr("'y' has the shape [3], where 2 whole numbers are wanted, one a row"));
  EXPECT_THAT(Error({{"x", x}, {"y", Tensor::Of<int64_t>(Shape({2}), {1, -2})}}), HasSubstr("'y' has -2 in row 1"));
  EXPECT_THAT(Error({{"x", x}, {"y", Tensor::Of<float>(Shape({2}), {0.5, 2})}}), HasSubstr("'y' has 0.5 in row 0"));
  EXPECT_THAT(Error({{"x", Tensor::Of<float>(Shape({2, 1}), {1, NAN})}, {"y", kTwoLabels}}),
              HasSubstr("'x' has a value in row 1 that is no finite float"));
  EXPECT_THAT(Error({{"x", Tensor::Of<double>(Shape({2, 1}), {1e300, 1})}, {"y", kTwoLabels}}),
              HasSubstr("'x' has a value in row 0 that is no finite float"));
  EXPECT_THAT(Error({{"x", Tensor::Of<bool>(Shape({2, 1}), {true, false})}, {"y", kTwoLabels}}),
              HasSubstr("'x' holds bool; convert it to float32, uint8 or int64"));
  EXPECT_THAT(Error({{"x_train", x},
                     {"y_train", kTwoLabels},
                     {"x_test", Tensor::Of<float>(Shape({1, 2}), {1, 2})},
                     {"y_test", Tensor::Of<int64_t>(Shape({1}), {1})}}),
              HasSubstr("a row of x_train has 1 values, one of x_test 2"));
}

TEST_F(ArraysTest, DamagedFiles_AreNamed) {
  FileSystem& fs = FileSystem::Default();
  Write("b.npz", "PK no archive");
  EXPECT_THAT(testing::ErrorOf(ImportArrays(fs, {Path("b.npz"), Path("out")})), HasSubstr("b.npz: "));
  EXPECT_THAT(testing::ErrorOf(ImportArrays(fs, {Path("none.npz"), Path("out")})), HasSubstr("none.npz"));
  ASSERT_OK(Import({{"x", Tensor::Of<float>(Shape({2, 1}), {1, 2})}, {"y", kTwoLabels}}));
  const std::string whole = testing::ContentOf(Path("a.npz"));
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    Write("cut.npz", whole.substr(0, bytes));
    EXPECT_THAT(testing::ErrorOf(ImportArrays(fs, {Path("cut.npz"), Path("no")})), HasSubstr("cut.npz"));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("no")));
}

}  // namespace
}  // namespace rivulet
