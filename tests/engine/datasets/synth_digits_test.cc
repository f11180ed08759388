#include "engine/datasets/synth_digits.h"

#include <cmath>
#include <map>

#include "engine/base/sha256.h"
#include "engine/data/dataset.h"
#include "engine/datasets/digit_glyphs.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;

class SynthDigitsTest : public DataTest {};

// Softmax regression by plain gradient descent; enough to tell what a linear model can do.
class LinearModel {
 public:
  void Train(const std::vector<DigitImage>& images, int epochs, float rate) {
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (size_t i = 0; i < images.size(); ++i) {
        const DigitImage& image = images[i * 7919 % images.size()];  // some fixed shuffle; 7919 is prime
        std::array<float, 10> p = Scores(image);
        float largest = p[0], total = 0;
        for (const float score : p) largest = std::max(largest, score);
        for (float& score : p) total += score = std::exp(score - largest);
        for (size_t digit = 0; digit < 10; ++digit) {
          const float error = p[digit] / total - (static_cast<int>(digit) == image.label ? 1.0f : 0.0f);
          bias_[digit] -= rate * error;
          for (size_t k = 0; k < 784; ++k)
            weights_[digit][k] -= rate / 255.0f * error * static_cast<float>(image.pixels[k]);
        }
      }
    }
  }
  double Accuracy(const std::vector<DigitImage>& images) const {
    int right = 0;
    for (const DigitImage& image : images) {
      const std::array<float, 10> scores = Scores(image);
      right += std::max_element(scores.begin(), scores.end()) - scores.begin() == image.label;
    }
    return static_cast<double>(right) / static_cast<double>(images.size());
  }

 private:
  std::array<float, 10> Scores(const DigitImage& image) const {
    std::array<float, 10> scores = bias_;
    for (size_t digit = 0; digit < 10; ++digit) {
      float sum = 0;
      for (size_t k = 0; k < 784; ++k) sum += weights_[digit][k] * static_cast<float>(image.pixels[k]);
      scores[digit] += sum / 255.0f;
    }
    return scores;
  }
  std::array<std::array<float, 784>, 10> weights_{};
  std::array<float, 10> bias_{};
};

std::vector<DigitImage> Draw(int first_writer, int writers, uint32_t examples) {
  std::vector<DigitImage> images;
  for (int w = first_writer; w < first_writer + writers; ++w) {
    const DigitWriter writer(1, fmt::format("writer-{:04}", w));
    for (uint32_t example = 0; example < examples; ++example) images.push_back(writer.Write(example));
  }
  return images;
}

TEST_F(SynthDigitsTest, LinearModelOnUnseenWriters_LearnsButStaysBelowNinetyPercent) {
  LinearModel model;
  const std::vector<DigitImage> train = Draw(0, 60, 50), test = Draw(900, 30, 50);
  model.Train(train, 12, 0.02f);
  EXPECT_GT(model.Accuracy(test), 0.65);
  EXPECT_LT(model.Accuracy(test), 0.90);
}

// Frozen: the pixels of a seed are promised to stay, on every machine.
TEST_F(SynthDigitsTest, PixelsOfASeed_NeverChange) {
  std::string pixels;
  for (const DigitImage& image : Draw(0, 5, 40)) {
    pixels.push_back(static_cast<char>(image.label));
    pixels.append(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size());
  }
  EXPECT_EQ(Sha256Of(pixels).Hex(), "a0d19b0591324dd566ecb5accdd9bd338adcb0ff0c4e7a773ae806ff00a69db5");
}

TEST_F(SynthDigitsTest, Writers_DifferInHandAndInLabels) {
  const std::vector<DigitImage> first = Draw(0, 1, 500), second = Draw(1, 1, 500);
  std::array<int, 10> counts{};
  double ink_first = 0, ink_second = 0;
  for (const DigitImage& image : first) {
    ++counts[static_cast<size_t>(image.label)];
    for (const uint8_t pixel : image.pixels) ink_first += pixel;
  }
  for (const DigitImage& image : second) {
    for (const uint8_t pixel : image.pixels) ink_second += pixel;
  }
  for (const int count : counts) EXPECT_GT(count, 5);  // mild: every digit occurs
  EXPECT_GT(*std::max_element(counts.begin(), counts.end()), 55);
  EXPECT_GT(std::abs(ink_first - ink_second) / ink_first, 0.05);
}

TEST_F(SynthDigitsTest, EveryImage_HasInkAndAMargin) {
  for (const DigitImage& image : Draw(200, 40, 25)) {
    int dark = 0, border = 0;
    for (int i = 0; i < 784; ++i) {
      const bool ink = image.pixels[static_cast<size_t>(i)] > 128;
      dark += ink;
      border += ink && (i < 28 || i >= 756 || i % 28 == 0 || i % 28 == 27);
    }
    EXPECT_GT(dark, 10);
    EXPECT_LT(dark, 400);
    EXPECT_LT(border, 6);
  }
}

TEST_F(SynthDigitsTest, SharesOfVariants_AddUpToOne) {
  for (int digit = 0; digit < 10; ++digit) {
    float total = 0;
    for (const GlyphVariant& variant : VariantsOfDigit(digit)) {
      total += variant.share;
      for (const GlyphStroke& stroke : variant.strokes) EXPECT_GE(stroke.points.size(), 2u);
    }
    EXPECT_FLOAT_EQ(total, 1.0f) << digit;
  }
}

TEST_F(SynthDigitsTest, Files_HoldTheWritersAskedFor) {
  const SynthDigitsOptions options{.writers = 3, .test_writers = 2, .examples_per_writer = 4, .seed = 9};
  ASSERT_OK(WriteSynthDigits(FileSystem::Default(), options, Path("train"), Path("test")));
  std::map<std::string, int> writers;
  for (const auto& [name, count] : std::map<std::string, int64_t>{{"train", 12}, {"test", 8}}) {
    const auto data = Dataset::Open({Path(name)});
    ASSERT_OK(data);
    EXPECT_EQ((*data)->size(), count);
    std::string record;
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_OK((*data)->Read(i, record));
      std::string_view image, writer;
      int64_t label = -1;
      ASSERT_OK(FindBytesFeature(record, "image", &image));
      ASSERT_OK(FindBytesFeature(record, "writer", &writer));
      ASSERT_OK(FindInt64Feature(record, "label", &label));
      EXPECT_EQ(image.size(), 784u);
      EXPECT_GE(label, 0);
      EXPECT_LE(label, 9);
      ++writers[name + " " + std::string(writer)];
    }
  }
  EXPECT_EQ(writers, (std::map<std::string, int>{{"train writer-0000", 4},
                                                 {"train writer-0001", 4},
                                                 {"train writer-0002", 4},
                                                 {"test writer-0003", 4},
                                                 {"test writer-0004", 4}}));
}

TEST_F(SynthDigitsTest, SameSeed_GivesTheSameFilesAndAnotherSeedOthers) {
  SynthDigitsOptions options{.writers = 2, .test_writers = 1, .examples_per_writer = 5, .seed = 9};
  ASSERT_OK(WriteSynthDigits(FileSystem::Default(), options, Path("a"), ""));
  ASSERT_OK(WriteSynthDigits(FileSystem::Default(), options, Path("b"), Path("b-test")));
  options.seed = 10;
  ASSERT_OK(WriteSynthDigits(FileSystem::Default(), options, Path("c"), ""));
  EXPECT_EQ(testing::ContentOf(Path("a")), testing::ContentOf(Path("b")));
  EXPECT_NE(testing::ContentOf(Path("a")), testing::ContentOf(Path("c")));
}

TEST_F(SynthDigitsTest, ImpossibleRequest_LeavesNothing) {
  const auto error = [&](SynthDigitsOptions options) {
    return WriteSynthDigits(FileSystem::Default(), options, Path("train"), Path("test")).ToString();
  };
  EXPECT_THAT(error({.writers = 0}), HasSubstr("0 writers; give 1 to"));
  EXPECT_THAT(error({.test_writers = 0}), HasSubstr("0 test writers; give 1 to"));
  EXPECT_THAT(error({.examples_per_writer = -1}), HasSubstr("-1 examples per writer; give 1 to"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THAT(
      WriteSynthDigits(FileSystem::Default(), {.writers = 1}, Path("train"), Path("no/such/folder/test")).ToString(),
      HasSubstr("No such file or directory"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace rivulet
