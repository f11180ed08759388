#include "engine/datasets/text.h"

#include "engine/data/dataset.h"
#include "engine/datasets/characters.h"
#include "engine/datasets/shakespeare.h"
#include "tests/engine/data/data_test.h"
#include "tests/engine/datasets/character_of.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::CharacterOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextTest : public DataTest {
 protected:
  StatusOr<TextCounts> Import(TextOptions options) {
    options.from = Path(options.from);
    options.out = Path("out");
    return ImportText(FileSystem::Default(), options);
  }
  // "SOURCE: the characters of the window", of each example.
  std::vector<std::string> Windows(const std::string& file) {
    std::vector<std::string> told;
    const auto records = ReadRecords(Path(file));
    for (const std::string& record : *records) {
      std::vector<int64_t> tokens(kWindowLength), next(kWindowLength);
      std::string_view source;
      EXPECT_OK(FindInt64Features(record, "tokens", tokens));
      EXPECT_OK(FindInt64Features(record, "label", next));
      EXPECT_OK(FindBytesFeature(record, "source", &source));
      std::string text(source);
      text += ": ";
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] == kPadding) break;
        if (tokens[i] == kBeginPassage)
          text += '[';
        else
          text += CharacterOf(tokens[i]);
        if (next[i] == kEndPassage) text += ']';
      }
      told.push_back(text);
    }
    return told;
  }
};

TEST_F(TextTest, Lines_ArePassages) {
  Write("a.txt", "one\r\n\ntwo\nthree");
  const auto counts = Import({.from = "a.txt", .by_line = true, .test_every = 2});
  ASSERT_OK(counts);
  EXPECT_EQ(counts->train, 2);
  EXPECT_EQ(counts->test, 1);
  EXPECT_THAT(Windows("out/train.tfrecord"), ElementsAre("a: [one]", "a: [three]"));
  EXPECT_THAT(Windows("out/test.tfrecord"), ElementsAre("a: [two]"));
}

TEST_F(TextTest, FilesOfAFolder_AreSources) {
  std::filesystem::create_directory(Path("in"));
  Write("in/b.txt", "b\nc");
  Write("in/a.txt.gz", Pack(std::string(100, 'x'), 31));
  Write("in/readme.md", "no text");
  const auto counts = Import({.from = "in"});
  ASSERT_OK(counts);
  EXPECT_EQ(counts->sources, 2);
  EXPECT_THAT(Windows("out/train.tfrecord"),
              ElementsAre("a: [" + std::string(79, 'x'), "a: " + std::string(21, 'x') + "]", "b: [b\nc]"));
  EXPECT_FALSE(std::filesystem::exists(Path("out/test.tfrecord")));
}

TEST_F(TextTest, WhatIsNoText_IsRefused) {
  Write("empty.txt", "");
  Write("blank.txt", "\n\n");
  Write("nul.txt", std::string("ab\0c", 4));
  Write(".txt", "a");
  std::filesystem::create_directory(Path("folder"));
  EXPECT_THAT(testing::ErrorOf(Import({.from = "empty.txt"})), HasSubstr("empty.txt: no text in this file"));
  EXPECT_THAT(testing::ErrorOf(Import({.from = "blank.txt", .by_line = true})), HasSubstr("no text in this file"));
  EXPECT_THAT(testing::ErrorOf(Import({.from = "nul.txt"})), HasSubstr("nul.txt: a NUL at byte 2, so this is no text"));
  EXPECT_THAT(testing::ErrorOf(Import({.from = ".txt"})), HasSubstr("a name of 0 bytes cannot be a client's"));
  EXPECT_THAT(testing::ErrorOf(Import({.from = "folder"})), HasSubstr("folder: no *.txt in this folder"));
  EXPECT_THAT(testing::ErrorOf(Import({.from = "missing"})), HasSubstr("missing: no such file"));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

}  // namespace
}  // namespace rivulet
