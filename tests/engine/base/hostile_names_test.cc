#include "engine/base/display_lines.h"
#include "engine/base/display_name.h"
#include "engine/base/nearest.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(NearestTest, SlipsOfTheHand_AreSuggested) {
  const std::vector<std::string> known = {"MatMul", "loss", "server.clients_per_round", "x"};
  EXPECT_EQ(Nearest("matmul", known), "MatMul");  // case
  EXPECT_EQ(Nearest("lsos", known), "loss");      // neighbours swapped
  EXPECT_EQ(Nearest("server.client-per-round", known), "server.clients_per_round");
}

TEST(NearestTest, ShortNamesAndOtherWords_AreNotSuggested) {
  const std::vector<std::string> known = {"sgd", "adam", "client.optimizer.epsilon", "--db", "--set", "x"};
  EXPECT_EQ(Nearest("lbfgs", known), "");
  EXPECT_EQ(Nearest("ada2", known), "adam");
  EXPECT_EQ(Nearest("ed", known), "");
  EXPECT_EQ(Nearest("y", known), "");
  EXPECT_EQ(Nearest("privacy.epsilon", known), "");
}

TEST(DisplayNameTest, NamesThatShowAsTheyAre_AreTaken) {
  for (const char* name : {"quickstart", "Käse & Brot", "模型", "🙂", "a/b c"})
    EXPECT_OK(CheckDisplayName("run.name", name)) << name;
}

TEST(DisplayNameTest, ControlAndDirectionMarks_AreRefusedByNumber) {
  EXPECT_THAT(CheckDisplayName("run.name", ""),
              StatusIs(absl::StatusCode::kInvalidArgument, "run.name must not be empty"));
  EXPECT_THAT(CheckDisplayName("run.name", "abc\xE2\x80\xAEtxt"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("U+202E at byte 3")));
  EXPECT_THAT(CheckDisplayName("run.name", "a\nb"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("U+000A")));
  EXPECT_THAT(CheckDisplayName("run.name", "a\xC2\x85"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("U+0085")));
  for (const char* broken : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\xE2\x80", "\xFF"})
    EXPECT_THAT(CheckDisplayName("run.name", broken),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_THAT(CheckDisplayName("run.name", std::string(256, 'a')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256 bytes")));
}

TEST(DisplayTextTest, WordsOfOthers_AreOneLineThatShows) {
  EXPECT_EQ(DisplayText("Käse 模型 🙂", 100), "Käse 模型 🙂");
  EXPECT_EQ(DisplayText("a\x1B[31mb\nc\td\x7F", 100), "a?[31mb?c?d?");
  EXPECT_EQ(DisplayText("abc\xE2\x80\xAEtxt\xC2\x9B", 100), "abc?txt?");
  EXPECT_EQ(DisplayText("\xC0\xAF|\xED\xA0\x80|\xFF|a\xE2\x80", 100), "??|???|?|a??");
  EXPECT_EQ(DisplayText(std::string(10'000, 'a'), 5), "aaaaa…");
  EXPECT_EQ(DisplayText("aaaä", 4), "aaa…") << "no character is cut";
  EXPECT_EQ(DisplayText("", 0), "");
}

TEST(DisplayLinesTest, LinesStay_AndWhatMovesATerminalIsEscaped) {
  const std::string toml = "[run]\n\tname = \"Käse 模型\"\n";
  EXPECT_EQ(DisplayLines(toml), toml);
  EXPECT_EQ(DisplayLines("a\x1B[2J\r\n\x07\rb"), "a\\u001B[2J\r\n\\u0007\\u000Db");
  EXPECT_EQ(DisplayLines("\xC2\x9B"
                         "31m\xE2\x80\xAE"),
            "\\u009B31m\\u202E");
  EXPECT_EQ(DisplayLines("\xFF|a\xE2\x80"), "?|a??");
}

}  // namespace
}  // namespace rivulet
