#include "engine/datasets/shakespeare.h"

#include <set>

#include "engine/data/dataset.h"
#include "engine/datasets/characters.h"
#include "tests/engine/data/data_test.h"
#include "tests/engine/datasets/character_of.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::CharacterOf;
using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

TEST(CharactersTest, EveryNumberOfACharacter_LeadsBackToIt) {
  std::set<char> seen;
  for (int64_t token = 1; token < kUnknownCharacter; ++token) {
    EXPECT_EQ(TokenOf(CharacterOf(token)), token);
    seen.insert(CharacterOf(token));
  }
  EXPECT_EQ(seen.size(), 86u);
  EXPECT_EQ(TokenOf('\n'), 1);
  EXPECT_EQ(TokenOf('z'), 86);
  for (const char other : {'~', '\t', '\0', '\xe9', '<'}) EXPECT_EQ(TokenOf(other), kUnknownCharacter);
}

TEST(ParseSpeechesTest, SpeechesOfTheUsualForm_HaveSpeakersAndLines) {
  const auto speeches = ParseSpeeches(
      "First Citizen:\nBefore we proceed,\nhear me: speak.\n\nAll:\r\nSpeak, speak.\r\n\r\nand on.\n\n\nKING:\n");
  ASSERT_OK(speeches);
  ASSERT_EQ(speeches->size(), 3u);
  EXPECT_EQ((*speeches)[0].speaker, "First Citizen");
  EXPECT_EQ((*speeches)[0].text, "Before we proceed,\nhear me: speak.");
  EXPECT_EQ((*speeches)[1].speaker, "All");
  EXPECT_EQ((*speeches)[1].text, "Speak, speak.\nand on.");
  EXPECT_EQ((*speeches)[2].text, "");
}

TEST(ParseSpeechesTest, TextOfAnotherForm_IsRefusedByItsLine) {
  EXPECT_THAT(Message(ParseSpeeches("\nonce upon a time\n").status()),
              HasSubstr("line 2: text before the first speaker"));
  EXPECT_THAT(Message(ParseSpeeches("A:\nx\n\n:\ny").status()), HasSubstr("line 4: ':' without the name"));
  EXPECT_THAT(Message(ParseSpeeches(fmt::format("{:A>129}:\nx", "")).status()),
              HasSubstr("line 1: a speaker's name of 129 bytes"));
}

TEST(WindowsTest, EachCharacterIsPredictedOnce) {
  const std::string first(100, 'a'), second(57, 'b');  // 102 + 59 numbers: 160 to predict, two full windows
  const auto windows = WindowsOf({first, second});
  ASSERT_EQ(windows.size(), 2u);
  std::vector<int64_t> stream = {windows[0].tokens[0]};
  for (const TextWindow& window : windows) {
    EXPECT_EQ(window.tokens.size(), 80u);
    stream.insert(stream.end(), window.next.begin(), window.next.end());
  }
  EXPECT_EQ(stream[0], kBeginPassage);
  EXPECT_EQ(stream[100], TokenOf('a'));
  EXPECT_EQ(stream[101], kEndPassage);
  EXPECT_EQ(stream[102], kBeginPassage);
  EXPECT_EQ(stream[160], kEndPassage);
  EXPECT_EQ(windows[1].tokens[0], windows[0].next[79]);
}

TEST(WindowsTest, LastWindow_EndsInPadding) {
  const auto windows = WindowsOf({"ab"});
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].tokens[2], TokenOf('b'));
  EXPECT_EQ(windows[0].next[2], kEndPassage);
  EXPECT_EQ(windows[0].tokens[3], kPadding);
  EXPECT_EQ(windows[0].next[3], kPadding);
  EXPECT_EQ(windows[0].next[79], kPadding);
  EXPECT_TRUE(WindowsOf({}).empty());
}

class ShakespeareTest : public DataTest {};

TEST_F(ShakespeareTest, EveryTenthSpeech_IsForTheTest) {
  std::string text;
  for (int i = 0; i < 25; ++i) text += fmt::format("ROMEO:\nline {}\n\nJULIET:\nO\n\n", i);
  const auto counts = ImportShakespeare(FileSystem::Default(), Write("play.txt", text), Path("out"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->speakers, 2);
  const auto test = Dataset::Open({Path("out/test.tfrecord")}), train = Dataset::Open({Path("out/train.tfrecord")});
  ASSERT_OK(test);
  ASSERT_OK(train);
  EXPECT_EQ((*test)->size(), counts->test);
  EXPECT_EQ((*train)->size(), counts->train);
  EXPECT_EQ(counts->test, 2);  // speeches 9 and 19 of each
  std::string record, spoken;
  ASSERT_OK((*test)->Read(0, record));
  std::string_view speaker;
  ASSERT_OK(FindBytesFeature(record, "speaker", &speaker));
  EXPECT_EQ(speaker, "ROMEO");
  std::vector<int64_t> next(80);
  ASSERT_OK(FindInt64Features(record, "label", next));
  for (const int64_t token : next)
    if (token < kUnknownCharacter && token > 0) spoken += CharacterOf(token);
  EXPECT_EQ(spoken, "line 9line 19");
}

TEST_F(ShakespeareTest, UnfitFiles_AreRefusedByName) {
  EXPECT_THAT(ImportShakespeare(FileSystem::Default(), Path("none.txt"), Path("out")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Message(ImportShakespeare(FileSystem::Default(), Write("a.txt", "x\n"), Path("out")).status()),
              HasSubstr("a.txt: line 1: "));
  EXPECT_THAT(Message(ImportShakespeare(FileSystem::Default(), Write("b.txt", "\n\n"), Path("out")).status()),
              HasSubstr("b.txt: no speeches"));
  EXPECT_FALSE(FileSystem::Default().Exists(Path("out/train.tfrecord")));
}

TEST_F(ShakespeareTest, TheRealText_HasItsKnownSpeakers) {
  const char* folder = getenv("RIVULET_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const auto counts =
      ImportShakespeare(FileSystem::Default(), JoinPath(JoinPath(folder, "tinyshakespeare"), "input.txt"), Path("out"));
  ASSERT_OK(counts);
  EXPECT_EQ(counts->speakers, 309);
  EXPECT_EQ(counts->train, 11930);
  EXPECT_EQ(counts->test, 1225);
}

}  // namespace
}  // namespace rivulet
