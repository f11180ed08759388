#include "engine/datasets/image_folder.h"

#include <zlib.h>

#include "engine/data/dataset.h"
#include "engine/datasets/image_file.h"
#include "tests/engine/data/data_test.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BigEndian32(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

std::string PngChunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return BigEndian32(static_cast<uint32_t>(data.size())) + body + BigEndian32(static_cast<uint32_t>(crc));
}

// A PNG of 8-bit red, green and blue, all pixels alike, that claims a size and holds `rows` of it.
std::string Png(uint32_t width, uint32_t height, const std::string& rgb, uint32_t rows = 0) {
  std::string raw;
  for (uint32_t y = 0; y < (rows == 0 ? height : rows); ++y) {
    raw.push_back(0);
    for (uint32_t x = 0; x < width; ++x) raw += rgb;
  }
  return "\x89PNG\r\n\x1a\n" +
         PngChunk("IHDR", BigEndian32(width) + BigEndian32(height) + std::string("\x08\x02\0\0\0", 5)) +
         PngChunk("IDAT", Pack(raw, 15)) + PngChunk("IEND", "");
}

// 8 × 4 pixels of red 200, green 100, blue 50, by libjpeg at quality 90.
std::string Jpeg() {
  constexpr std::string_view kHex =
      "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a07"
      "0706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffdb0043010304"
      "0405040509050509140d0b0d141414141414141414141414141414141414141414141414141414141414141414141414"
      "1414141414141414141414141414ffc00011080004000803011100021101031101ffc400140001000000000000000000"
      "00000000000004ffc40014100100000000000000000000000000000000ffc40015010101000000000000000000000000"
      "00000708ffc40014110100000000000000000000000000000000ffda000c03010002110311003f00203d483fffd9";
  std::string bytes;
  for (size_t i = 0; i < kHex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

#define SKIP_WITHOUT_LIBRARY(bytes)                          \
  if (absl::IsUnimplemented(DecodeImage(bytes, 3).status())) \
  GTEST_SKIP() << "built without the library of this "       \
                  "format"

TEST(ImageFileTest, Png_HasItsPixels) {
  SKIP_WITHOUT_LIBRARY(Png(1, 1, "abc"));
  const auto image = DecodeImage(Png(2, 3, "abc"), 3);
  ASSERT_OK(image);
  EXPECT_EQ(image->width, 2);
  EXPECT_EQ(image->height, 3);
  EXPECT_EQ(image->pixels, "abcabcabcabcabcabc");
  const auto grey = DecodeImage(Png(2, 1, "ddd"), 1);
  ASSERT_OK(grey);
  EXPECT_EQ(grey->pixels, "dd");
}

TEST(ImageFileTest, Jpeg_HasNearlyItsPixels) {
  SKIP_WITHOUT_LIBRARY(Jpeg());
  const auto image = DecodeImage(Jpeg(), 3);
  ASSERT_OK(image);
  EXPECT_EQ(image->width, 8);
  EXPECT_EQ(image->height, 4);
  ASSERT_EQ(image->pixels.size(), 96u);
  EXPECT_NEAR(static_cast<uint8_t>(image->pixels[0]), 200, 4);
  EXPECT_NEAR(static_cast<uint8_t>(image->pixels[94]), 100, 4);
  EXPECT_NEAR(static_cast<uint8_t>(image->pixels[95]), 50, 6);
  const auto grey = DecodeImage(Jpeg(), 1);
  ASSERT_OK(grey);
  EXPECT_NEAR(static_cast<uint8_t>(grey->pixels[0]), 0.299 * 200 + 0.587 * 100 + 0.114 * 50, 3);
}

TEST(ImageFileTest, WhatIsCutOff_IsDamaged) {
  for (const std::string& whole : {Png(16, 16, "abc"), Jpeg()}) {
    SKIP_WITHOUT_LIBRARY(whole);
    for (size_t bytes = 0; bytes + 2 < whole.size(); bytes += 5)
      EXPECT_THAT(DecodeImage(whole.substr(0, bytes), 3), StatusIs(absl::StatusCode::kDataLoss)) << bytes;
  }
  EXPECT_THAT(DecodeImage("GIF89a", 3),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("neither a PNG nor a JPEG file")));
}

// Sizes are claims: they are looked at before memory is taken.
TEST(ImageFileTest, AbsurdSizes_AreRefused) {
  SKIP_WITHOUT_LIBRARY(Png(1, 1, "abc"));
  EXPECT_THAT(DecodeImage(Png(8192, 8192, "abc", 1), 3),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("an image of 8192 × 8192 pixels; at most 16777216")));
  EXPECT_THAT(DecodeImage(Png(0, 7, "abc"), 3), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeImage(Png(4, 4, "abc", 2), 3), StatusIs(absl::StatusCode::kDataLoss));
}

class ImageFolderTest : public DataTest {
 protected:
  void Put(const std::string& path, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(Path(path)).parent_path());
    Write(path, bytes);
  }
  StatusOr<ImageFolderCounts> Import(ImageFolderOptions options = {}) {
    options.from = Path("in");
    options.out = Path("out");
    return ImportImageFolder(FileSystem::Default(), options);
  }
  std::string Error(ImageFolderOptions options = {}) {
    const auto counts = Import(options);
    EXPECT_FALSE(std::filesystem::exists(Path("out")));
    return counts.ok() ? "imported" : folder_.Relative(Message(counts.status()));
  }
  std::vector<std::string> Told(const std::string& file) {
    std::vector<std::string> told;
    const auto records = ReadRecords(Path(file));
    for (const std::string& record : *records) {
      std::string_view image;
      int64_t label = -1;
      EXPECT_OK(FindBytesFeature(record, "image", &image));
      EXPECT_OK(FindInt64Feature(record, "label", &label));
      told.push_back(fmt::format("{} {}", label, image));
    }
    return told;
  }
};

TEST_F(ImageFolderTest, Folders_AreClasses) {
  SKIP_WITHOUT_LIBRARY(Png(1, 1, "abc"));
  Put("in/dog/2.PNG", Png(1, 1, "ddd"));
  Put("in/dog/1.png", Png(1, 1, "dog"));
  Put("in/cat/x.png", Png(1, 1, "cat"));
  Put("in/cat/notes.txt", "no image");
  Put("in/readme.txt", "no class");
  const auto counts = Import({.test_every = 2});
  ASSERT_OK(counts);
  EXPECT_THAT(counts->classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(counts->train, 2);
  EXPECT_EQ(counts->test, 1);
  EXPECT_THAT(Told("out/train.tfrecord"), ElementsAre("0 cat", "1 dog"));
  EXPECT_THAT(Told("out/test.tfrecord"), ElementsAre("1 ddd"));
  EXPECT_EQ(testing::ContentOf(Path("out/classes.txt")), "cat\ndog\n");
  ASSERT_OK(Import({.grey = true}));
  EXPECT_EQ(Told("out/train.tfrecord")[2], "1 d");
}

TEST_F(ImageFolderTest, TrainAndTest_AreFoldersOfTheirOwn) {
  SKIP_WITHOUT_LIBRARY(Png(1, 1, "abc"));
  Put("in/train/a/1.png", Png(1, 1, "aaa"));
  Put("in/train/b/1.png", Png(1, 1, "bbb"));
  Put("in/test/b/1.png", Png(1, 1, "BBB"));
  ASSERT_OK(Import());
  EXPECT_THAT(Told("out/test.tfrecord"), ElementsAre("1 BBB"));
  std::filesystem::remove_all(Path("out"));
  EXPECT_THAT(Error({.test_every = 2}), HasSubstr("in/test has images for the test already"));
  Put("in/test/c/1.png", Png(1, 1, "ccc"));
  EXPECT_THAT(Error(), HasSubstr("in/test/c is a class without images to learn from"));
}

TEST_F(ImageFolderTest, WhatIsNoDataSet_IsRefusedByPath) {
  SKIP_WITHOUT_LIBRARY(Png(1, 1, "abc"));
  std::filesystem::create_directory(Path("in"));
  EXPECT_THAT(Error(), HasSubstr("in: no folders in it, of which each would be a class"));
  std::filesystem::create_directory(Path("in/a"));
  EXPECT_THAT(Error(), HasSubstr("in/a: no *.png, *.jpg or *.jpeg in this folder"));
  Put("in/a/1.png", "no image");
  EXPECT_THAT(Error(), HasSubstr("in/a/1.png: neither a PNG nor a JPEG file"));
  Put("in/a/1.png", Png(2, 2, "abc", 1));
  EXPECT_THAT(Error(), HasSubstr("in/a/1.png: a damaged PNG file"));
  Put("in/a/1.png", Png(2, 2, "abc"));
  Put("in/a/2.png", Png(2, 3, "abc"));
  EXPECT_THAT(Error(), HasSubstr("in/a/2.png: 2 × 3 pixels, but earlier images have 2 × 2; resize all to one size"));
}

}  // namespace
}  // namespace rivulet
