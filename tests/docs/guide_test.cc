// The guides show the files that are built: a code block after a file name equals that file.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace rivulet {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Compares the code blocks of a guide with the files that they name; how many there are.
int BlocksOf(const char* guide) {
  const std::filesystem::path root = RIVULET_SOURCE_FOLDER;
  const std::string text = ReadAll(root / guide);
  const std::regex block("`([a-z_/]+\\.[a-z]+)`:\n\n```[a-z]+\n([^`]*)```");
  int blocks = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), block), end; match != end; ++match, ++blocks)
    EXPECT_EQ((*match)[2].str(), ReadAll(root / (*match)[1].str())) << (*match)[1];
  return blocks;
}

TEST(Guides, TheirCodeBlocks_AreTheFilesThatThisTestIsBuiltFrom) {
  EXPECT_EQ(BlocksOf("docs/guide/own-op.md"), 3);
  EXPECT_EQ(BlocksOf("docs/guide/own-algorithm.md"), 5);
  EXPECT_EQ(BlocksOf("docs/guide/local-rules.md"), 5);
}

}  // namespace
}  // namespace rivulet
