// What the guides show is what is built: a code block that follows the name of a file is that file.
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

TEST(AddingAnOp, ItsCodeBlocks_AreTheFilesThatThisTestIsBuiltFrom) {
  const std::filesystem::path root = RIVULET_SOURCE_FOLDER;
  const std::string guide = ReadAll(root / "docs/adding-an-op.md");
  const std::regex block("`(tests/docs/[a-z_/]+\\.cc)`:\n\n```cpp\n([^`]*)```");
  int blocks = 0;
  for (std::sregex_iterator match(guide.begin(), guide.end(), block), end; match != end; ++match, ++blocks)
    EXPECT_EQ((*match)[2].str(), ReadAll(root / (*match)[1].str())) << (*match)[1];
  EXPECT_EQ(blocks, 3);
}

}  // namespace
}  // namespace rivulet
